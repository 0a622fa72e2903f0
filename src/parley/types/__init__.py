"""Plain values that every layer shares: no behaviour, no I/O."""

from parley.types.values import (
    ZERO_UUID,
    Node,
    OffsetAndMetadata,
    Secret,
    TopicPartition,
    format_uuid,
    parse_uuid,
)

__all__ = [
    "ZERO_UUID",
    "Node",
    "OffsetAndMetadata",
    "Secret",
    "TopicPartition",
    "format_uuid",
    "parse_uuid",
]
