"""Every public call of the clients, consumers and transactional producers: values that
work, and values that do not.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pyarrow as pa

from parley.client import (
    EARLIEST,
    LATEST,
    AcknowledgeType,
    ConsumerGroupMetadata,
    ConsumerRecord,
    FetchOptions,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    PartitionRange,
    PreparedTransaction,
    ProduceOptions,
    Timestamp,
    TopicPartition,
    TransactionFilter,
)
from parley.messages import MetadataRequest, MetadataResponse

TOPIC = "records"
TP = TopicPartition(TOPIC, 0)
ROWS = pa.table({"key": ["k"], "value": ["v"]})
FRESH = (f"made-{number}" for number in itertools.count())

NUMBERS = ("5", 1.5, True, -2, 2**31, b"")
TIMEOUTS = ("5", 1.5, True, -1, 2**31, [])
FLAGS = ("yes", 1, None)
TEXTS = (5, "", b"ab", ["ab"], "\ud800", "x" * 40_000)
NAMES = ("ab", b"ab", 5, [5], [""], [None], [b"ab"], ["\ud800"], ["x" * 40_000])
TP_VALUES = (
    (TOPIC, 0), TOPIC, 5, None, [TOPIC, 0], TopicPartition(TOPIC, "0"), TopicPartition(TOPIC, -1),
    # type: ignore[arg-type]
    TopicPartition(TOPIC, 2**31), TopicPartition(5, 0), TopicPartition("", 0),
    TopicPartition(TOPIC, None),  # type: ignore[arg-type]
    TopicPartition(TOPIC, True), TopicPartition("\ud800", 0),
)  # fmt: skip
TP_LISTS = ("ab", b"ab", 5, None, TP, *([one] for one in TP_VALUES))
SOME_TP_LISTS = tuple(one for one in TP_LISTS if one is not None)
OFFSETS = ("earliest", -1, 1.5, True, None, [], (1, 2), (1, "m", 3), OffsetAndMetadata("1"),
    OffsetAndMetadata(-1),  # type: ignore[arg-type]
    OffsetAndMetadata(0, None), OffsetAndMetadata(0, "", "1"), OffsetAndMetadata(2**63),
    EARLIEST)  # type: ignore[arg-type]  # fmt: skip
PLACES = ("earliest", "EARLIEST", -2, 1.5, True, b"", [], Timestamp(-1), Timestamp("1"),
    Timestamp(2**63), 2**63,  # type: ignore[arg-type]
    OffsetSpec("earliest", "x"), ("earliest", None))  # type: ignore[arg-type]  # fmt: skip
SCHEMAS = (
    {"value_format": 5},
    {"value_format": "avor"},
    {"value_formats": "avro"},
    {"value_format": "avro"},
    {"value_format": "avro", "value_schema": 5},
    {"value_format": "avro", "schema_registry_url": 5},
    {"schema_registry_url": "http://127.0.0.1:1"},
)
"""Options by name, which a fetch takes beside its own parameters."""

OPTIONS = ("all", 5, {}, ConsumerGroupMetadata("group"))


def by_partition(*values: Any, right: Any) -> tuple[Any, ...]:
    """Return what is no mapping of partitions to such values."""
    hashable = [one for one in TP_VALUES if not isinstance(one, list)]
    return (
        "ab",
        b"ab",
        5,
        None,
        [TP],
        [(TP, right)],
        TP,
        *({one: right} for one in hashable),
        *({TP: one} for one in values),
    )


class Call(NamedTuple):
    """A public call: what its parameters may be, and what each of them must not be."""

    right: dict[str, Any]
    wrong: dict[str, tuple[Any, ...]]


CLIENT = {
    "metadata": Call({"topics": [TOPIC]}, {"topics": NAMES}),
    "api_versions": Call({"node_id": 1}, {"node_id": NUMBERS}),
    "supports": Call(
        {"feature": "record-headers", "broker": 1},
        {"feature": (*TEXTS, None, "record-haeders"), "broker": NUMBERS},
    ),
    "request": Call(
        {
            "node_id": 1,
            "message": MetadataRequest(topics=[]),
            "timeout_ms": 5_000,
            "feature": None,
            "allowed": None,
        },
        {
            "node_id": NUMBERS,
            "message": (
                "Metadata",
                3,
                None,
                MetadataRequest,
                MetadataResponse(),
                MetadataRequest.MetadataRequestTopic(),
            ),
            "timeout_ms": TIMEOUTS,
            "feature": ("record-headers", 5),
            "allowed": ((0, 1), 5, "1"),
        },
    ),
    "create_topics": Call(
        {"topics": lambda: [NewTopic(next(FRESH))], "timeout_ms": 20_000, "validate_only": False},
        {
            "topics": (
                "ab",
                b"ab",
                5,
                None,
                ["b"],
                [5],
                NewTopic("b"),
                [NewTopic("")],
                [NewTopic(5)],
                [NewTopic("\ud800")],  # type: ignore[arg-type]
                [NewTopic("b", "1")],
                [NewTopic("b", 0)],
                [NewTopic("b", 1.5)],
                [NewTopic("b", 2**31)],  # type: ignore[arg-type]
                [NewTopic("b", 1, "1")],
                [NewTopic("b", 1, 0)],
                [NewTopic("b", 1, 2**15)],
                [NewTopic("b", None)],  # type: ignore[arg-type]
                [NewTopic("b", configs={"retention.ms": 5})],
                [NewTopic("b", configs={5: "5"})],  # type: ignore[dict-item]
                [NewTopic("b", configs={"preallocate": True})],
                [NewTopic("b", configs="retention.ms=5")],  # type: ignore[arg-type, dict-item]
                [NewTopic("b", configs=None)],
                [NewTopic("b", replica_assignments=[[1]])],  # type: ignore[arg-type]
                [NewTopic("b", replica_assignments={0: "1"})],
                [NewTopic("b", replica_assignments={"0": [1]})],  # type: ignore[dict-item]
                [NewTopic("b", replica_assignments={0: ["1"]})],
                [NewTopic("b"), NewTopic("b")],  # type: ignore[list-item]
            ),
            "timeout_ms": TIMEOUTS,
            "validate_only": FLAGS,
        },
    ),
    "create_partitions": Call(
        {
            "counts": {},
            "replica_assignments": None,
            "timeout_ms": 20_000,
            "validate_only": True,
        },
        {
            "counts": ("t", ["t"], None, 5, {"t": 0}, {"t": "3"}, {"t": 2**31}, {5: 2}, {"": 2}),
            "replica_assignments": ([[1]], {"other": [[1]]}),
            "timeout_ms": TIMEOUTS,
            "validate_only": FLAGS,
        },
    ),
    "delete_records": Call(
        {"offsets": {TP: 0}, "timeout_ms": 20_000},
        {
            "offsets": by_partition("1", -1, 1.5, True, None, EARLIEST, 2**63, right=0),
            "timeout_ms": TIMEOUTS,
        },
    ),
    "delete_topics": Call(
        {"names": [], "timeout_ms": 20_000}, {"names": (*NAMES, None), "timeout_ms": TIMEOUTS}
    ),
    "authorized_operations": Call(
        {"topics": ["t"], "timeout_ms": 20_000}, {"topics": (*NAMES, None), "timeout_ms": TIMEOUTS}
    ),
    "list_offsets": Call(
        {"specs": {TP: EARLIEST}, "isolation_level": "read_committed", "timeout_ms": 20_000},
        {
            "specs": by_partition(*PLACES, 5, None, right=EARLIEST),
            "isolation_level": (5, "", "committed", None),
            "timeout_ms": TIMEOUTS,
        },
    ),
    "offsets_for_leader_epochs": Call(
        {"epochs": {TP: 0}, "timeout_ms": 20_000},
        {
            "epochs": by_partition(
                "1", -1, 1.5, True, None, (), (1, 2, 3), ("1",), (1, "2"), 2**31, right=0
            ),
            "timeout_ms": TIMEOUTS,
        },
    ),
    "commit_offsets": Call(
        {"group_id": "g", "offsets": {TP: 1}},
        {"group_id": (*TEXTS, None), "offsets": by_partition(*OFFSETS, right=1)},
    ),
    "committed_offsets": Call(
        {"group_id": "g", "partitions": [TP]}, {"group_id": (*TEXTS, None), "partitions": TP_LISTS}
    ),
    "list_groups": Call(
        {"states": ["stable"], "types": ["classic", "Consumer"], "timeout_ms": 20_000},
        {
            "states": (*NAMES, None, ["Stabel"]),
            "types": (*NAMES, None, ["clasic"]),
            "timeout_ms": TIMEOUTS,
        },
    ),
    "describe_groups": Call(
        {"group_ids": ["g"], "timeout_ms": 20_000},
        {"group_ids": (*NAMES, None), "timeout_ms": TIMEOUTS},
    ),
    "delete_groups": Call(
        {"group_ids": [], "timeout_ms": 20_000},
        {"group_ids": (*NAMES, None), "timeout_ms": TIMEOUTS},
    ),
    "list_group_offsets": Call(
        {"group_id": "g", "partitions": [TP], "timeout_ms": 20_000},
        {"group_id": (*TEXTS, None), "partitions": SOME_TP_LISTS, "timeout_ms": TIMEOUTS},
    ),
    "alter_group_offsets": Call(
        {"group_id": "g", "offsets": {TP: 1}, "timeout_ms": 20_000},
        {
            "group_id": (*TEXTS, None),
            "offsets": by_partition(*OFFSETS, right=1),
            "timeout_ms": TIMEOUTS,
        },
    ),
    "delete_group_offsets": Call(
        {"group_id": "g", "partitions": [], "timeout_ms": 20_000},
        {"group_id": (*TEXTS, None), "partitions": TP_LISTS, "timeout_ms": TIMEOUTS},
    ),
    "remove_members": Call(
        {"group_id": "g", "members": None, "timeout_ms": 20_000},
        {"group_id": (*TEXTS, None), "members": NAMES, "timeout_ms": TIMEOUTS},
    ),
    "group_lag": Call(
        {"group_id": "g", "partitions": [TP], "timeout_ms": 20_000},
        {"group_id": (*TEXTS, None), "partitions": SOME_TP_LISTS, "timeout_ms": TIMEOUTS},
    ),
    "fetch": Call(
        {"tp": TP, "start": 0, "end": 1, "options": FetchOptions(), "schemas": {}},
        {
            "tp": TP_VALUES,
            "start": (*PLACES, None),
            "end": PLACES,
            "options": (*OPTIONS, ProduceOptions()),
            "schemas": SCHEMAS,
        },
    ),
    "fetch_many": Call(
        {"ranges": {TP: (EARLIEST, LATEST)}, "options": FetchOptions(), "schemas": {}},
        {
            "ranges": by_partition(
                *PLACES,
                *((0, place) for place in PLACES),
                (0, 1, 2),
                (),
                PartitionRange("0"),
                PartitionRange(0, "1"),  # type: ignore[arg-type]
                PartitionRange(0, 1, "1"),
                PartitionRange(0, 1, 1, b"short"),
                None,
                right=(0, 1),  # type: ignore[arg-type]
            ),
            "options": (*OPTIONS, ProduceOptions()),
            "schemas": SCHEMAS,
        },
    ),
    "produce": Call(
        {"topic": TOPIC, "rows": ROWS, "partition": 0, "options": ProduceOptions()},
        {
            "topic": (*TEXTS, None),
            "rows": (
                None,
                5,
                "ab",
                b"ab",
                {"value": ["v"]},
                [5],
                ["ab"],
                pa.table({"other": [1]}),
                [ROWS],
            ),
            "partition": ("0", 1.5, True, -1, 2**31, [0]),
            "options": (*OPTIONS, FetchOptions()),
        },
    ),
}
BYTES = ("text", 5, 1.5, True, [b"v"], {})
RECORD = Call(
    {
        "topic": TOPIC,
        "value": b"v",
        "key": b"k",
        "headers": [("name", None)],
        "partition": 0,
        "timestamp_ms": 5,
    },
    {
        "topic": (*TEXTS, None),
        "value": BYTES,
        "key": BYTES,
        "headers": ("ab", b"ab", 5, {"a": b""}, ["ab"], [("a",)], [(b"a", b"b")], [("a", "b")],
            [("\ud800", b"")]),
        "partition": ("0", 1.5, True, -1, 2**31, [0]),
        "timestamp_ms": ("5", 1.5, True, -1, 2**63),
    },
)  # fmt: skip
_OF_BOTH = {
    "send_batch": Call(
        {name: CLIENT["produce"].right[name] for name in ("topic", "rows", "partition")},
        {name: CLIENT["produce"].wrong[name] for name in ("topic", "rows", "partition")},
    ),
    "partitions_for": Call({"topic": TOPIC}, {"topic": (*TEXTS, None)}),
    "flush": Call({"timeout_ms": None}, {"timeout_ms": TIMEOUTS}),
}
ASYNC_PRODUCER = {"send": RECORD, "send_and_wait": RECORD, "send_nowait": RECORD, **_OF_BOTH}
PRODUCER = {
    "produce": Call(
        {**RECORD.right, "on_delivery": None}, {**RECORD.wrong, "on_delivery": (5, "print")}
    ),
    **_OF_BOTH,
}
PRODUCER_TOO = {
    "close": Call({"timeout_ms": None}, {"timeout_ms": TIMEOUTS}),
    "send_offsets_to_transaction": Call(
        {"offsets": {TP: 1}, "group": "g"},
        {"offsets": by_partition(*OFFSETS, right=1), "group": (*TEXTS, None, ("g", 1))},
    ),
}
"""The same of both producers; one ends it, the other needs a transaction."""
TRANSACTIONS = {
    "producer": Call(
        {
            "transactional_id": "writer",
            "transaction_timeout_ms": 60_000,
            "max_generation": 2,
            "options": ProduceOptions(),
        },
        {
            "transactional_id": (*TEXTS, None),
            "transaction_timeout_ms": (*TIMEOUTS, 0, None),
            "max_generation": ("1", 0, 3, None),
            "options": (
                *OPTIONS,
                FetchOptions(),
                ProduceOptions(acks="1"),
                ProduceOptions(enable_idempotence=False),
            ),
        },
    ),
    "end": Call(
        {
            "prepared": PreparedTransaction("ended", 1, 0, True),
            "committed": True,
            "timeout_ms": 20_000,
        },
        {
            "prepared": ("ended", ("ended", 1, 0, True), None),
            "committed": FLAGS,
            "timeout_ms": TIMEOUTS,
        },
    ),
    "end_many": Call(
        {
            "prepared": [PreparedTransaction("ended", 1, 0, True)],
            "committed": True,
            "timeout_ms": 20_000,
        },
        {
            "prepared": ("ended", [("ended", 1, 0, True)], [None], None, 5),
            "committed": FLAGS,
            "timeout_ms": TIMEOUTS,
        },
    ),
    "fence": Call(
        {"transactional_ids": ["fenced"], "transaction_timeout_ms": 30_000, "timeout_ms": 20_000},
        {
            "transactional_ids": (*NAMES, None),
            "transaction_timeout_ms": (*TIMEOUTS, 0),
            "timeout_ms": TIMEOUTS,
        },
    ),
    "list": Call(
        {"wanted": TransactionFilter(states=["Ongoing"]), "timeout_ms": 20_000},
        {"wanted": ("Ongoing", ["Ongoing"], 5), "timeout_ms": TIMEOUTS},
    ),
    "describe": Call(
        {"transactional_ids": ["fenced"], "timeout_ms": 20_000},
        {"transactional_ids": (*NAMES, None), "timeout_ms": TIMEOUTS},
    ),
}
CONSUMER = {
    "subscribe": Call(
        {"topics": [TOPIC], "pattern": None, "listener": None},
        {
            "topics": ("ab", b"ab", 5, None, [], [5], [""]),
            "pattern": (5, "[", b"a"),
            "listener": (5, "on_assigned", print),
        },
    ),
    "enforce_rebalance": Call({"reason": "a test"}, {"reason": TEXTS}),
    "assign": Call({"partitions": [TP]}, {"partitions": TP_LISTS}),
    "seek": Call({"partition": TP, "offset": 0}, {"partition": TP_VALUES, "offset": OFFSETS}),
    "seek_to_beginning": Call({"partitions": TP}, {"partitions": TP_VALUES}),
    "seek_to_end": Call({"partitions": TP}, {"partitions": TP_VALUES}),
    "position": Call({"partition": TP}, {"partition": TP_VALUES}),
    "position_with_epoch": Call({"partition": TP}, {"partition": TP_VALUES}),
    "pause": Call({"partitions": TP}, {"partitions": TP_VALUES}),
    "resume": Call({"partitions": TP}, {"partitions": TP_VALUES}),
    "commit": Call(
        {"offsets": {TP: 1}},
        {"offsets": tuple(one for one in by_partition(*OFFSETS, right=1) if one is not None)},
    ),
    "committed": Call({"partition": TP}, {"partition": TP_VALUES}),
    "getone": Call(
        {"partitions": TP, "timeout_ms": 5_000}, {"partitions": TP_VALUES, "timeout_ms": TIMEOUTS}
    ),
    "poll": Call(
        {"timeout_ms": 5_000, "max_records": 1},
        {"timeout_ms": (*TIMEOUTS, None), "max_records": ("1", 0, -1, 1.5, True)},
    ),
    "getmany": Call(
        {"partitions": TP, "timeout_ms": 5_000, "max_records": 1},
        {
            "partitions": TP_VALUES,
            "timeout_ms": (*TIMEOUTS, None),
            "max_records": ("1", 0, -1, 1.5, True),
        },
    ),
    "batches": Call({"partitions": TP}, {"partitions": TP_VALUES}),
    "highwater": Call({"partition": TP}, {"partition": TP_VALUES}),
    "last_stable_offset": Call({"partition": TP}, {"partition": TP_VALUES}),
    "beginning_offsets": Call({"partitions": [TP]}, {"partitions": TP_LISTS}),
    "end_offsets": Call({"partitions": [TP]}, {"partitions": TP_LISTS}),
    "offsets_for_times": Call(
        {"timestamps": {TP: 0}},
        {"timestamps": by_partition("0", -1, 1.5, True, None, 2**63, EARLIEST, right=0)},
    ),
}
CONSUMER_TOO = {"close": Call({"timeout_ms": 0}, {"timeout_ms": (*TIMEOUTS, None)})}
"""The same of share consumers."""
SHARE_CONSUMER = {
    "subscribe": Call({"topics": [TOPIC]}, {"topics": ("ab", b"ab", 5, None, [], [5], [""])}),
    "getmany": Call(
        {"timeout_ms": 0, "max_records": 1},
        {"timeout_ms": (*TIMEOUTS, None), "max_records": ("1", 0, -1, 1.5, True)},
    ),
    "acknowledge": Call(
        {"record": TP, "type": AcknowledgeType.ACCEPT, "offset": 0},
        {
            "record": (*TP_VALUES, ConsumerRecord(TOPIC, 0, 0, -1, -1, None, None)),
            "type": (1, "ACCEPT", None, 0),
            "offset": ("0", -1, 1.5, True, None, 2**63),
        },
    ),
    "getone": Call({"timeout_ms": 0}, {"timeout_ms": TIMEOUTS}),
    "commit": Call({"timeout_ms": 20_000}, {"timeout_ms": TIMEOUTS}),
    "set_acknowledgement_commit_callback": Call({"callback": None}, {"callback": (5, "print")}),
}
TRANSACTION = {
    "produce": CLIENT["produce"],
    "send_offsets_to_transaction": Call(
        {"offsets": {TP: 1}, "group": "g"},
        {"offsets": by_partition(*OFFSETS, right=1), "group": (*TEXTS, None, ("g", 1))},
    ),
    "resume": Call(
        {"producer_id": 5, "producer_epoch": 0},
        {
            "producer_id": ("5", -1, 1.5, True, None, 2**63),
            "producer_epoch": ("0", -1, 1.5, True, None, 2**15),
        },
    ),
}
