"""parley: Apache Kafka of any release, from Python and Spark.

>>> import parley, pyarrow
>>> with parley.Client(bootstrap_servers="localhost:9092") as client:
...     created = client.create_topics([parley.NewTopic("cities", num_partitions=1)])
...     rows = pyarrow.table({"key": ["no", "is"], "value": ["Oslo", "Reykjavík"]})
...     written = client.produce("cities", rows)
...     partition = parley.TopicPartition("cities", 0)
...     for batch in client.fetch(partition, parley.EARLIEST, parley.LATEST):
...         print(batch.column("value").cast("string").to_pylist())  # a pyarrow.RecordBatch
['Oslo', 'Reykjavík']

Importing parley loads nothing but itself; each name brings what it needs when it is first used.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for typing's, whose import takes longer than parley's

__version__ = "0.1.0"

_NAMES = {
    "parley.client": (
        "EARLIEST",
        "LATEST",
        "Acknowledgement",
        "AcknowledgeType",
        "AclOperation",
        "AsyncAcknowledgement",
        "AsyncClient",
        "AsyncConsumer",
        "AsyncProducer",
        "AsyncShareConsumer",
        "Client",
        "ClientOptions",
        "Consumer",
        "ConsumerOptions",
        "ConsumerRebalanceListener",
        "ConsumerRecord",
        "FetchOptions",
        "NewTopic",
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "ProduceOptions",
        "Producer",
        "ProducerOptions",
        "RecordMetadata",
        "ShareConsumer",
        "ShareConsumerOptions",
        "Timestamp",
        "TopicPartition",
    ),
    "parley.errors": ("KafkaError",),
}
"""Where each public name comes from; `tools/write_stubs.py` writes the imports below of it."""
_NAMES_OF_EXTRAS = {"parley.pipelines.declared": ("AsyncPipeline", "Pipeline")}
"""Names that are there where an extra is; `from parley import *` does without."""

_HOME = {
    name: module
    for table in (_NAMES, _NAMES_OF_EXTRAS)
    for module, names in table.items()
    for name in names
}

__all__ = ["__version__"]
__all__.extend(name for names in _NAMES.values() for name in names)


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
    from parley.client import (
        EARLIEST as EARLIEST,
        LATEST as LATEST,
        Acknowledgement as Acknowledgement,
        AcknowledgeType as AcknowledgeType,
        AclOperation as AclOperation,
        AsyncAcknowledgement as AsyncAcknowledgement,
        AsyncClient as AsyncClient,
        AsyncConsumer as AsyncConsumer,
        AsyncProducer as AsyncProducer,
        AsyncShareConsumer as AsyncShareConsumer,
        Client as Client,
        ClientOptions as ClientOptions,
        Consumer as Consumer,
        ConsumerOptions as ConsumerOptions,
        ConsumerRebalanceListener as ConsumerRebalanceListener,
        ConsumerRecord as ConsumerRecord,
        FetchOptions as FetchOptions,
        NewTopic as NewTopic,
        OffsetAndMetadata as OffsetAndMetadata,
        OffsetAndTimestamp as OffsetAndTimestamp,
        ProduceOptions as ProduceOptions,
        Producer as Producer,
        ProducerOptions as ProducerOptions,
        RecordMetadata as RecordMetadata,
        ShareConsumer as ShareConsumer,
        ShareConsumerOptions as ShareConsumerOptions,
        Timestamp as Timestamp,
        TopicPartition as TopicPartition,
    )
    from parley.errors import KafkaError as KafkaError
    from parley.pipelines.declared import (
        AsyncPipeline as AsyncPipeline,
        Pipeline as Pipeline,
    )
