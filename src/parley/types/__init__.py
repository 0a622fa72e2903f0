"""Plain values that every layer shares: no behaviour, no I/O.

Map: `values`, `several` for names, `topic_names` that Kafka accepts, `secret_names` of settings,
and `dead_letters`, what the headers of such records say.
"""

from parley.types.several import Many, Names, Several, several, shown, text, texts
from parley.types.topic_names import name_refused
from parley.types.values import (
    ZERO_UUID,
    Json,
    Node,
    OffsetAndMetadata,
    Secret,
    TopicPartition,
    format_uuid,
    parse_uuid,
)

__all__ = [
    "ZERO_UUID",
    "Json",
    "Many",
    "Names",
    "Node",
    "OffsetAndMetadata",
    "Secret",
    "Several",
    "TopicPartition",
    "format_uuid",
    "name_refused",
    "parse_uuid",
    "several",
    "shown",
    "text",
    "texts",
]
