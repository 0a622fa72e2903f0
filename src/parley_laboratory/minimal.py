"""The smallest plausible request of any API in any version: for asking every API of every release.

One element in each array, names of things that do not exist, and everything else at its default: a
broker that serves the API can answer, and nothing that exists is changed.

>>> minimal_request(ApiKey.HEARTBEAT, 4).group_id
'absent-group'
"""

from __future__ import annotations

from typing import TypeVar

from parley.messages import (
    InitProducerIdRequest,
    Message,
    MessageStruct,
    MetadataRequest,
    ProduceRequest,
    request_class,
)
from parley.messages.codec import codec_for
from parley.messages.plan import Step, StructPlan
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.schema import ApiKey

S = TypeVar("S", bound=MessageStruct)

TEXTS = {
    "client_software_name": "wire",
    "client_software_version": "1.0",
    "group_id": "absent-group",
    "groups": "absent-group",
    "group_ids": "absent-group",
    "groups_names": "absent-group",
    "host": "localhost",
    "key": "absent-group",
    "coordinator_keys": "absent-group",
    "mechanism": "PLAIN",
    "member_id": "absent-member",
    "name": "absent",
    "protocol_type": "consumer",
    "resource_name": "absent",
    "topic": "absent",
    "topic_name": "absent",
    "topic_names": "absent",
    "transactional_id": "absent-transaction",
    "transactional_ids": "absent-transaction",
    "v3_and_below_transactional_id": "absent-transaction",
    "user": "absent",
}
"""What texts say, by field; the others are empty."""

NAMES = ("name", "topic", "topic_name")
"""Texts beside which an id is left out: a topic is meant by one or the other."""

NUMBERS = {
    "num_partitions": 1,
    "replication_factor": 1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "operation": 3,
    "permission_type": 3,
    "pattern_type": 3,
    "pattern_type_filter": 3,
    "resource_pattern_type": 3,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "timeout_ms": 1_000,
    "transaction_timeout_ms": 1_000,
    "producer_id": 1,
    "max_wait_ms": 10,
    "count": 1,
}
"""What numbers are, by field; the others have the default of the definition."""

ABSENT_ID = b"absent-topic-id!"


FIRST_UNCREATING_METADATA = 4


def minimal_request(key: int, version: int) -> Message:
    """Return a request of that API which encodes in `version`."""
    made = request_class(ApiKey(key))
    request = _struct(codec_for(made, version).plan, made, made)
    if isinstance(request, ProduceRequest):
        request.acks = -1
        request.topic_data[0].partition_data[0].records = one_record(min(2, max(0, version - 1)))
    if (
        isinstance(request, MetadataRequest)
        and request.topics
        and version < FIRST_UNCREATING_METADATA
    ):
        request.topics[0].name = "not a topic name"
    if isinstance(request, MetadataRequest) and version >= FIRST_UNCREATING_METADATA:
        request.allow_auto_topic_creation = False
    if isinstance(request, InitProducerIdRequest):
        request.transactional_id = None
    return request


def one_record(magic: int) -> bytes:
    """Return a record set of one record, in that format."""
    columns = columns_from_records([Record(0, 1_000, 0, b"key", b"value")], with_offsets=False)
    return b"".join(
        bytes(batch.data) for batch in encode_batches(columns, None, WriteOptions(magic=magic))
    )


def _struct(plan: StructPlan, made: type[S], message: type[Message]) -> S:
    values: dict[str, object] = {}
    named = any(step.kind == "string" and step.name in NAMES for step in plan.steps)
    for step in plan.steps:
        value = _field(step, message)
        if value is not None and not (named and step.kind == "uuid"):
            values[step.name] = value
    return made(**values)


def _field(step: Step, message: type[Message]) -> object:
    """Return the value of a field, None to leave it at its default."""
    if step.is_array:
        element = _value(step, message)
        return None if element is None else [element]
    if step.struct is not None and step.nullable:
        return None
    return _value(step, message)


def _value(step: Step, message: type[Message]) -> object:
    if step.struct is not None:
        return _struct(step.struct, message.STRUCTS[step.struct.name], message)
    if step.kind == "string":
        return TEXTS.get(step.name) if step.nullable or step.is_array else TEXTS.get(step.name, "")
    if step.kind == "uuid":
        return ABSENT_ID
    if step.is_array:
        return 0 if step.kind.startswith("int") else None
    return NUMBERS.get(step.name)
