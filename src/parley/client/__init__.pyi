# Written by tools/write_stubs.py, not by hand.
from parley.client.admin.described_groups import (
    GroupDescription,
    MemberDescription,
)
from parley.client.admin.group_lag import PartitionLag
from parley.client.admin.groups import GroupListing
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
from parley.client.cluster.view import (
    ClusterMetadata,
    LeaderAndEpoch,
    PartitionMetadata,
    TopicMetadata,
)
from parley.client.consumer.async_consumer import AsyncConsumer
from parley.client.consumer.consumer import Consumer
from parley.client.consumer.listener import ConsumerRebalanceListener
from parley.client.consumer.options import ConsumerOptions
from parley.client.consumer.participation import GroupHealth
from parley.client.consumer.records import ConsumerRecord
from parley.client.events import (
    PossibleDataLoss,
    TopicRecreated,
)
from parley.client.fetch.positions import DataLoss
from parley.client.fetch.recreation import rewound as rewound
from parley.client.group.share.book import AcknowledgeType
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
from parley.client.options.values import ClientOptionValues as ClientOptionValues
from parley.client.produce.rows import SLICE_ROWS as SLICE_ROWS
from parley.client.results import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    BatchAck,
    ConsumerGroupMetadata,
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
from parley.client.shapes import (
    BatchShape,
    record_shape,
    spark_shape,
)
from parley.client.share.async_consumer import AsyncShareConsumer
from parley.client.share.consumer import ShareConsumer
from parley.client.share.core import ShareGroupHealth
from parley.client.share.options import ShareConsumerOptions
from parley.client.transactions.async_producer import AsyncTransactionProducer
from parley.client.transactions.calls import (
    AsyncTransactions,
    Transactions,
)
from parley.client.transactions.handover import (
    FencedProducer,
    PreparedTransaction,
)
from parley.client.transactions.listing import (
    TransactionDescription,
    TransactionFilter,
    TransactionListing,
)
from parley.client.transactions.producer import TransactionProducer
from parley.types import (
    Node,
    OffsetAndMetadata,
    Secret,
    TopicPartition,
    format_uuid,
    parse_uuid,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AcknowledgeType",
    "AllOptions",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncShareConsumer",
    "AsyncTransactionProducer",
    "AsyncTransactions",
    "BatchAck",
    "BatchShape",
    "Client",
    "ClientOptions",
    "ClusterMetadata",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerOptions",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "CreatedTopic",
    "DataLoss",
    "EpochEndOffset",
    "FencedProducer",
    "FetchOptions",
    "FetchedBatch",
    "GroupDescription",
    "GroupHealth",
    "GroupListing",
    "LeaderAndEpoch",
    "MemberDescription",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PartitionAck",
    "PartitionLag",
    "PartitionMetadata",
    "PartitionRange",
    "PossibleDataLoss",
    "PreparedTransaction",
    "ProduceOptions",
    "ProduceResult",
    "Secret",
    "ShareConsumer",
    "ShareConsumerOptions",
    "ShareGroupHealth",
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
