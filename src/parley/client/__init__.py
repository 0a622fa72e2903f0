"""The client: metadata, reading, writing and administration, asynchronous or blocking.

Names are imported when they are first used, so that asking for the options alone loads neither
pyarrow nor the network.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.client.api import AsyncClient
    from parley.client.blocking import Client
    from parley.client.cluster_view import ClusterMetadata, LeaderAndEpoch, PartitionMetadata, TopicMetadata
    from parley.client.consumer import AsyncConsumer
    from parley.client.consumer_blocking import Consumer
    from parley.client.consumer_options import ConsumerOptions
    from parley.client.consumer_rows import ConsumerRecord
    from parley.client.events import PossibleDataLoss, TopicRecreated
    from parley.client.options import (
        AllOptions,
        ClientOptions,
        FetchOptions,
        ProduceOptions,
        split_properties,
    )
    from parley.client.positions import DataLoss
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
    from parley.client.transaction_admin import TransactionDescription, TransactionFilter, TransactionListing
    from parley.client.transaction_blocking import TransactionProducer
    from parley.client.transaction_calls import AsyncTransactions, Transactions
    from parley.client.transaction_handover import FencedProducer, PreparedTransaction
    from parley.client.transaction_producer import AsyncTransactionProducer
    from parley.client.transaction_requests import GroupMember
    from parley.types import Node, OffsetAndMetadata, Secret, TopicPartition, format_uuid, parse_uuid

_MODULES = {
    "parley.client.api": ("AsyncClient",),
    "parley.client.blocking": ("Client",),
    "parley.client.cluster_view": ("ClusterMetadata", "LeaderAndEpoch", "PartitionMetadata", "TopicMetadata"),
    "parley.client.consumer": ("AsyncConsumer",),
    "parley.client.consumer_blocking": ("Consumer",),
    "parley.client.consumer_options": ("ConsumerOptions",),
    "parley.client.consumer_rows": ("ConsumerRecord",),
    "parley.client.positions": ("DataLoss",),
    "parley.client.events": ("PossibleDataLoss", "TopicRecreated"),
    "parley.client.options": ("AllOptions", "ClientOptions", "FetchOptions", "ProduceOptions", "split_properties"),
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
    "parley.client.transaction_admin": ("TransactionDescription", "TransactionFilter", "TransactionListing"),
    "parley.client.transaction_blocking": ("TransactionProducer",),
    "parley.client.transaction_calls": ("AsyncTransactions", "Transactions"),
    "parley.client.transaction_handover": ("FencedProducer", "PreparedTransaction"),
    "parley.client.transaction_producer": ("AsyncTransactionProducer",),
    "parley.client.transaction_requests": ("GroupMember",),
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
