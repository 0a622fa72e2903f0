# Written by tools/write_stubs.py, not by hand.
from parley.client import (
    EARLIEST,
    LATEST,
    AcknowledgeType,
    AsyncClient,
    AsyncConsumer,
    AsyncShareConsumer,
    Client,
    ClientOptions,
    Consumer,
    ConsumerOptions,
    FetchOptions,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    ProduceOptions,
    ShareConsumer,
    ShareConsumerOptions,
    Timestamp,
    TopicPartition,
)
from parley.errors import KafkaError

__version__: str

__all__ = [
    "EARLIEST",
    "LATEST",
    "AcknowledgeType",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncShareConsumer",
    "Client",
    "ClientOptions",
    "Consumer",
    "ConsumerOptions",
    "FetchOptions",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "ProduceOptions",
    "ShareConsumer",
    "ShareConsumerOptions",
    "Timestamp",
    "TopicPartition",
    "__version__",
]
