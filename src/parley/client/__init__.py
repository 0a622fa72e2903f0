"""The client: metadata, reading, writing and administration, asynchronous or blocking.

Names are imported when they are first used, so that asking for the options alone loads neither
pyarrow nor the network. What is not in `__all__` is for parley's own upper layers and may change.

Map: What users see: `async_client`, `client`, `results`, `shapes`, `events`; `loop_thread` runs the
loop of the blocking ones. Rooms, each of which imports only from those behind it: `share`,
`consumer`, `transactions`, `group` and `admin`, `fetch` and `produce`, `offsets`, `cluster`,
`options`.
"""

from __future__ import annotations

import importlib

_NAMES = {
    "parley.client.admin.described_groups": ("GroupDescription", "MemberDescription"),
    "parley.client.admin.group_lag": ("PartitionLag",),
    "parley.client.admin.groups": ("GroupListing",),
    "parley.client.async_client": ("AsyncClient",),
    "parley.client.client": ("Client",),
    "parley.client.cluster.view": (
        "ClusterMetadata",
        "LeaderAndEpoch",
        "PartitionMetadata",
        "TopicMetadata",
    ),
    "parley.client.consumer.async_consumer": ("AsyncConsumer",),
    "parley.client.consumer.consumer": ("Consumer",),
    "parley.client.consumer.listener": ("ConsumerRebalanceListener",),
    "parley.client.consumer.options": ("ConsumerOptions",),
    "parley.client.consumer.participation": ("GroupHealth",),
    "parley.client.consumer.records": ("ConsumerRecord",),
    "parley.client.events": ("PossibleDataLoss", "TopicRecreated"),
    "parley.client.fetch.positions": ("DataLoss",),
    "parley.client.group.share.book": ("AcknowledgeType",),
    "parley.client.options.client_options": (
        "AllOptions",
        "ClientOptions",
        "FetchOptions",
        "ProduceOptions",
        "split_properties",
    ),
    "parley.client.results": (
        "EARLIEST",
        "LATEST",
        "MAX_TIMESTAMP",
        "BatchAck",
        "ConsumerGroupMetadata",
        "CreatedTopic",
        "EpochEndOffset",
        "FetchedBatch",
        "NewTopic",
        "OffsetAndTimestamp",
        "OffsetSpec",
        "PartitionAck",
        "PartitionRange",
        "ProduceResult",
        "Timestamp",
    ),
    "parley.client.shapes": ("BatchShape", "record_shape", "spark_shape"),
    "parley.client.share.async_consumer": ("AsyncShareConsumer",),
    "parley.client.share.consumer": ("ShareConsumer",),
    "parley.client.share.core": ("ShareGroupHealth",),
    "parley.client.share.options": ("ShareConsumerOptions",),
    "parley.client.transactions.async_producer": ("AsyncTransactionProducer",),
    "parley.client.transactions.calls": ("AsyncTransactions", "Transactions"),
    "parley.client.transactions.handover": ("FencedProducer", "PreparedTransaction"),
    "parley.client.transactions.listing": (
        "TransactionDescription",
        "TransactionFilter",
        "TransactionListing",
    ),
    "parley.client.transactions.producer": ("TransactionProducer",),
    "parley.types": (
        "Node",
        "OffsetAndMetadata",
        "Secret",
        "TopicPartition",
        "format_uuid",
        "parse_uuid",
    ),
}
"""Where each public name comes from; `tools/write_stubs.py` makes `__init__.pyi` of this."""

_OWN_NAMES = {
    "parley.client.cluster.connecting": ("connect_options",),
    "parley.client.cluster.survey": (
        "BrokerFinding",
        "brokers_lacking",
        "kips_of",
        "looks_like",
        "survey",
    ),
    "parley.client.fetch.recreation": ("rewound",),
    "parley.client.options.fields": ("OptionSet", "dotted_name", "option_names", "read_properties"),
    "parley.client.options.values": ("ClientOptionValues",),
    "parley.client.produce.rows": ("SLICE_ROWS",),
}
"""The same of what only parley's upper layers use."""

_HOME = {
    name: module
    for table in (_NAMES, _OWN_NAMES)
    for module, names in table.items()
    for name in names
}

__all__ = [name for names in _NAMES.values() for name in names]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
