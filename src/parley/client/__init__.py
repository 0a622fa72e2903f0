"""The client: metadata, reading, writing and administration, asynchronous or blocking.

Names are imported when they are first used, so that asking for the options alone loads neither
pyarrow nor the network. What is not in `__all__` is for parley's own upper layers and may change.

Map: What users see: `async_client`, `client`, `results`, `shapes`, `events`; `loop_thread` runs the loop of the
blocking ones. Rooms, each of which imports only from those behind it: `consumer`, `transactions`, `admin`, `fetch` and
`produce`, `offsets`, `cluster`, `options`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.client.async_client import AsyncClient
    from parley.client.client import Client
    from parley.client.cluster.connecting import connect_options as connect_options
    from parley.client.cluster.survey import (
        BrokerFinding as BrokerFinding,
        brokers_lacking as brokers_lacking,
        kips_of as kips_of,
        looks_like as looks_like,
        survey as survey,
    )
    from parley.client.cluster.view import ClusterMetadata, LeaderAndEpoch, PartitionMetadata, TopicMetadata
    from parley.client.consumer.async_consumer import AsyncConsumer
    from parley.client.consumer.consumer import Consumer
    from parley.client.consumer.options import ConsumerOptions
    from parley.client.consumer.records import ConsumerRecord
    from parley.client.events import PossibleDataLoss, TopicRecreated
    from parley.client.fetch.positions import DataLoss
    from parley.client.fetch.recreation import rewound as rewound
    from parley.client.options.client_options import (
        AllOptions,
        ClientOptions,
        FetchOptions,
        ProduceOptions,
        split_properties,
    )
    from parley.client.options.fields import (
        OptionSet as OptionSet,
        dotted_name as dotted_name,
        option_names as option_names,
        read_properties as read_properties,
    )
    from parley.client.produce.rows import SLICE_ROWS as SLICE_ROWS
    from parley.client.results import (
        EARLIEST,
        LATEST,
        MAX_TIMESTAMP,
        BatchAck,
        CreatedTopic,
        EpochEndOffset,
        FetchedBatch,
        NewTopic,
        OffsetAndTimestamp,
        OffsetSpec,
        PartitionAck,
        PartitionRange,
        ProduceResult,
        Timestamp,
    )
    from parley.client.shapes import BatchShape, record_shape, spark_shape
    from parley.client.transactions.async_producer import AsyncTransactionProducer
    from parley.client.transactions.calls import AsyncTransactions, Transactions
    from parley.client.transactions.handover import FencedProducer, PreparedTransaction
    from parley.client.transactions.listing import TransactionDescription, TransactionFilter, TransactionListing
    from parley.client.transactions.producer import TransactionProducer
    from parley.client.transactions.requests import GroupMember
    from parley.types import Node, OffsetAndMetadata, Secret, TopicPartition, format_uuid, parse_uuid

_MODULES = {
    "parley.client.cluster.connecting": ("connect_options",),
    "parley.client.cluster.survey": (
        "BrokerFinding",
        "brokers_lacking",
        "kips_of",
        "looks_like",
        "survey",
    ),
    "parley.client.fetch.recreation": ("rewound",),
    "parley.client.options.fields": (
        "OptionSet",
        "dotted_name",
        "option_names",
        "read_properties",
    ),
    "parley.client.produce.rows": ("SLICE_ROWS",),
    "parley.client.async_client": ("AsyncClient",),
    "parley.client.client": ("Client",),
    "parley.client.cluster.view": ("ClusterMetadata", "LeaderAndEpoch", "PartitionMetadata", "TopicMetadata"),
    "parley.client.consumer.async_consumer": ("AsyncConsumer",),
    "parley.client.consumer.consumer": ("Consumer",),
    "parley.client.consumer.options": ("ConsumerOptions",),
    "parley.client.consumer.records": ("ConsumerRecord",),
    "parley.client.fetch.positions": ("DataLoss",),
    "parley.client.events": ("PossibleDataLoss", "TopicRecreated"),
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
    "parley.client.transactions.listing": ("TransactionDescription", "TransactionFilter", "TransactionListing"),
    "parley.client.transactions.producer": ("TransactionProducer",),
    "parley.client.transactions.calls": ("AsyncTransactions", "Transactions"),
    "parley.client.transactions.handover": ("FencedProducer", "PreparedTransaction"),
    "parley.client.transactions.async_producer": ("AsyncTransactionProducer",),
    "parley.client.transactions.requests": ("GroupMember",),
    "parley.client.shapes": ("BatchShape", "record_shape", "spark_shape"),
    "parley.types": ("Node", "OffsetAndMetadata", "Secret", "TopicPartition", "format_uuid", "parse_uuid"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AllOptions",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncTransactionProducer",
    "AsyncTransactions",
    "BatchAck",
    "BatchShape",
    "Client",
    "ClientOptions",
    "ClusterMetadata",
    "Consumer",
    "ConsumerOptions",
    "ConsumerRecord",
    "CreatedTopic",
    "DataLoss",
    "EpochEndOffset",
    "FencedProducer",
    "FetchOptions",
    "FetchedBatch",
    "GroupMember",
    "LeaderAndEpoch",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PartitionAck",
    "PartitionMetadata",
    "PartitionRange",
    "PossibleDataLoss",
    "PreparedTransaction",
    "ProduceOptions",
    "ProduceResult",
    "Secret",
    "Timestamp",
    "TopicMetadata",
    "TopicPartition",
    "TopicRecreated",
    "TransactionDescription",
    "TransactionFilter",
    "TransactionListing",
    "TransactionProducer",
    "Transactions",
    "format_uuid",
    "parse_uuid",
    "record_shape",
    "spark_shape",
    "split_properties",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
