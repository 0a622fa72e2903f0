# Written by tools/write_stubs.py, not by hand.
from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    AsyncConsumer,
    Client,
    ClientOptions,
    Consumer,
    ConsumerOptions,
    FetchOptions,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    ProduceOptions,
    Timestamp,
    TopicPartition,
)
from parley.errors import KafkaError

__version__: str

__all__ = [
    "EARLIEST",
    "LATEST",
    "AsyncClient",
    "AsyncConsumer",
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
    "Timestamp",
    "TopicPartition",
    "__version__",
]
