"""The client: metadata, reading, writing and administration, asynchronous or blocking.

Names are imported when they are first used, so that asking for the options alone loads neither
pyarrow nor the network. What is not in `__all__` is for parley's own upper layers and may change.

Map: What users see: `async_client`, `client`, `results`, `shapes`, `events`; `loop_thread` runs the
loop of the blocking ones. Rooms, each of which imports only from those behind it: `share`,
`consumer` and `producer`, `transactions`, `group` and `admin`, `fetch` and `produce`, `offsets`,
`cluster`, `options`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_NAMES = {
    "parley.client.admin.described_groups": ("GroupDescription", "MemberDescription"),
    "parley.client.admin.group_lag": ("PartitionLag",),
    "parley.client.admin.groups": ("GroupListing",),
    "parley.client.admin.rights": ("AclOperation",),
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
    "parley.client.consumer.health": ("GroupHealth",),
    "parley.client.consumer.listener": ("ConsumerRebalanceListener",),
    "parley.client.consumer.options": ("ConsumerOptions",),
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
    "parley.client.options.schema_options": ("SchemaOptions",),
    "parley.client.produce.chunk": ("Acknowledgement", "AsyncAcknowledgement"),
    "parley.client.producer.async_producer": ("AsyncProducer",),
    "parley.client.producer.failures": ("FailedRecords",),
    "parley.client.producer.options": ("ProducerOptions",),
    "parley.client.producer.producer": ("Producer",),
    "parley.client.producer.record": ("ProducerInterceptor", "ProducerRecord"),
    "parley.client.results": (
        "EARLIEST",
        "LATEST",
        "MAX_TIMESTAMP",
        "AcquiredBatch",
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
        "RecordMetadata",
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
"""Where each public name comes from; `tools/write_stubs.py` writes the imports below of it."""

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
    "parley.client.fetch.typed": ("TypedBatches",),
    "parley.client.options.fields": ("OptionSet", "dotted_name", "option_names", "read_properties"),
    "parley.client.options.java_names": ("JAVA_NAMES",),
    "parley.client.options.schema_options": ("PARTS", "ChosenSchema", "schema_to_write"),
    "parley.client.options.values": ("ClientOptionValues",),
    "parley.client.produce.rows": ("SLICE_ROWS",),
    "parley.client.shapes": ("digest_shape",),
    "parley.records.digest": ("RunDigest", "digest_runs"),
    "parley.registry.client": ("SchemaRegistryClient",),
    "parley.registry.options": ("RegistryOptions",),
    "parley.serdes.encoder": ("ColumnEncoder", "EncodedValues"),
    "parley.serdes.formats": ("FORMATS",),
    "parley.serdes.framing": ("FRAMINGS", "WITHOUT_REGISTRY"),
    "parley.serdes.schemas": ("Schema",),
}
"""The same of what only parley's upper layers use."""

_HOME = {
    name: module
    for table in (_NAMES, _OWN_NAMES)
    for module, names in table.items()
    for name in names
}

__all__ = [name for names in _NAMES.values() for name in names]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)


if TYPE_CHECKING:
    # Written by tools/write_stubs.py, not by hand: the names above, imported when used.
    from parley.client.admin.described_groups import (
        GroupDescription as GroupDescription,
        MemberDescription as MemberDescription,
    )
    from parley.client.admin.group_lag import PartitionLag as PartitionLag
    from parley.client.admin.groups import GroupListing as GroupListing
    from parley.client.admin.rights import AclOperation as AclOperation
    from parley.client.async_client import AsyncClient as AsyncClient
    from parley.client.client import Client as Client
    from parley.client.cluster.connecting import connect_options as connect_options
    from parley.client.cluster.survey import (
        BrokerFinding as BrokerFinding,
        brokers_lacking as brokers_lacking,
        kips_of as kips_of,
        looks_like as looks_like,
        survey as survey,
    )
    from parley.client.cluster.view import (
        ClusterMetadata as ClusterMetadata,
        LeaderAndEpoch as LeaderAndEpoch,
        PartitionMetadata as PartitionMetadata,
        TopicMetadata as TopicMetadata,
    )
    from parley.client.consumer.async_consumer import AsyncConsumer as AsyncConsumer
    from parley.client.consumer.consumer import Consumer as Consumer
    from parley.client.consumer.health import GroupHealth as GroupHealth
    from parley.client.consumer.listener import (
        ConsumerRebalanceListener as ConsumerRebalanceListener,
    )
    from parley.client.consumer.options import ConsumerOptions as ConsumerOptions
    from parley.client.consumer.records import ConsumerRecord as ConsumerRecord
    from parley.client.events import (
        PossibleDataLoss as PossibleDataLoss,
        TopicRecreated as TopicRecreated,
    )
    from parley.client.fetch.positions import DataLoss as DataLoss
    from parley.client.fetch.recreation import rewound as rewound
    from parley.client.fetch.typed import TypedBatches as TypedBatches
    from parley.client.group.share.book import AcknowledgeType as AcknowledgeType
    from parley.client.options.client_options import (
        AllOptions as AllOptions,
        ClientOptions as ClientOptions,
        FetchOptions as FetchOptions,
        ProduceOptions as ProduceOptions,
        split_properties as split_properties,
    )
    from parley.client.options.fields import (
        OptionSet as OptionSet,
        dotted_name as dotted_name,
        option_names as option_names,
        read_properties as read_properties,
    )
    from parley.client.options.java_names import JAVA_NAMES as JAVA_NAMES
    from parley.client.options.schema_options import (
        PARTS as PARTS,
        ChosenSchema as ChosenSchema,
        SchemaOptions as SchemaOptions,
        schema_to_write as schema_to_write,
    )
    from parley.client.options.values import ClientOptionValues as ClientOptionValues
    from parley.client.produce.chunk import (
        Acknowledgement as Acknowledgement,
        AsyncAcknowledgement as AsyncAcknowledgement,
    )
    from parley.client.produce.rows import SLICE_ROWS as SLICE_ROWS
    from parley.client.producer.async_producer import AsyncProducer as AsyncProducer
    from parley.client.producer.failures import FailedRecords as FailedRecords
    from parley.client.producer.options import ProducerOptions as ProducerOptions
    from parley.client.producer.producer import Producer as Producer
    from parley.client.producer.record import (
        ProducerInterceptor as ProducerInterceptor,
        ProducerRecord as ProducerRecord,
    )
    from parley.client.results import (
        EARLIEST as EARLIEST,
        LATEST as LATEST,
        MAX_TIMESTAMP as MAX_TIMESTAMP,
        AcquiredBatch as AcquiredBatch,
        BatchAck as BatchAck,
        ConsumerGroupMetadata as ConsumerGroupMetadata,
        CreatedTopic as CreatedTopic,
        EpochEndOffset as EpochEndOffset,
        FetchedBatch as FetchedBatch,
        NewTopic as NewTopic,
        OffsetAndTimestamp as OffsetAndTimestamp,
        OffsetSpec as OffsetSpec,
        PartitionAck as PartitionAck,
        PartitionRange as PartitionRange,
        ProduceResult as ProduceResult,
        RecordMetadata as RecordMetadata,
        Timestamp as Timestamp,
    )
    from parley.client.shapes import (
        BatchShape as BatchShape,
        digest_shape as digest_shape,
        record_shape as record_shape,
        spark_shape as spark_shape,
    )
    from parley.client.share.async_consumer import AsyncShareConsumer as AsyncShareConsumer
    from parley.client.share.consumer import ShareConsumer as ShareConsumer
    from parley.client.share.core import ShareGroupHealth as ShareGroupHealth
    from parley.client.share.options import ShareConsumerOptions as ShareConsumerOptions
    from parley.client.transactions.async_producer import (
        AsyncTransactionProducer as AsyncTransactionProducer,
    )
    from parley.client.transactions.calls import (
        AsyncTransactions as AsyncTransactions,
        Transactions as Transactions,
    )
    from parley.client.transactions.handover import (
        FencedProducer as FencedProducer,
        PreparedTransaction as PreparedTransaction,
    )
    from parley.client.transactions.listing import (
        TransactionDescription as TransactionDescription,
        TransactionFilter as TransactionFilter,
        TransactionListing as TransactionListing,
    )
    from parley.client.transactions.producer import TransactionProducer as TransactionProducer
    from parley.records.digest import (
        RunDigest as RunDigest,
        digest_runs as digest_runs,
    )
    from parley.registry.client import SchemaRegistryClient as SchemaRegistryClient
    from parley.registry.options import RegistryOptions as RegistryOptions
    from parley.serdes.encoder import (
        ColumnEncoder as ColumnEncoder,
        EncodedValues as EncodedValues,
    )
    from parley.serdes.formats import FORMATS as FORMATS
    from parley.serdes.framing import (
        FRAMINGS as FRAMINGS,
        WITHOUT_REGISTRY as WITHOUT_REGISTRY,
    )
    from parley.serdes.schemas import Schema as Schema
    from parley.types import (
        Node as Node,
        OffsetAndMetadata as OffsetAndMetadata,
        Secret as Secret,
        TopicPartition as TopicPartition,
        format_uuid as format_uuid,
        parse_uuid as parse_uuid,
    )
