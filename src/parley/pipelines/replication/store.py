"""The topic of the target in which a replication keeps what it knows.

It has one partition and is compacted. Besides the chunks of the map it has one record with the key
`begun`: each start writes it in a transaction of its own, and reads the topic up to it. So no chunk
of a forerunner is missed, whatever a leader that was elected just now believes to be its end.

The first start also writes where partitions begin, if that is not with the source's first record,
and one with the key `settled` beside it: what comes later begins with its first record, and a
partition of which nothing was copied yet does not begin again with another start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple

import pyarrow as pa

from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    FetchOptions,
    NewTopic,
    OffsetSpec,
    TopicPartition,
    record_shape,
)
from parley.errors import ConfigError, KafkaError
from parley.pipelines.replication.chunks import (
    VERSION,
    Chunk,
    Position,
    beginning,
    read_beginning,
    read_chunk,
)
from parley.pipelines.replication.runs import PartitionMap
from parley.pipelines.replication.writers import Writer
from parley.versions import Feature

BEGUN, SETTLED = b"begun", b"settled"
REPLICAS = 3
"""Of the topic of offsets, as far as there are brokers; as of Kafka's own topics."""


class Copied(NamedTuple):
    """What is known of a partition: its map, the newest chunk, and of each older one its key and
    the source's offset behind it.
    """

    map: PartitionMap
    newest: Chunk
    closed: list[tuple[bytes, int]]


class Known(NamedTuple):
    """What the topic says."""

    is_settled: bool = False
    """Whether an earlier start has written where partitions begin."""
    copied: Mapping[TopicPartition, Copied] = {}
    begins: Mapping[TopicPartition, Position] = {}
    """Where partitions began that did not begin with the source's first record."""


async def ensure_topic(target: AsyncClient, topic: str) -> None:
    """Create the topic where it is missing. Raises ConfigError where it cannot be used."""
    metadata = await target.metadata()
    found = metadata.topics.get(topic)
    if found is None:
        if not await target.supports(Feature.CREATE_TOPICS):
            raise ConfigError(
                f'the target has no topic "{topic}", and its brokers are too old to be asked for '
                "one (Kafka 0.10.1): create it with one partition and cleanup.policy=compact"
            )
        replicas = min(REPLICAS, len(metadata.brokers))
        configs = {"cleanup.policy": "compact"}
        await target.create_topics([NewTopic(topic, 1, replicas, configs)])
    elif len(found.partitions) != 1:
        raise ConfigError(
            f'the topic "{topic}" of the target has {len(found.partitions)} partitions; the map of '
            "offsets needs one: give the replication another name"
        )


def begun(source_id: str | None) -> pa.RecordBatch:
    """Return the record that a start writes."""
    value = json.dumps({"version": VERSION, "source": source_id}).encode()
    return rows_of([(BEGUN, value)])


def of_chunks(chunks: Iterable[Chunk], outdated: Iterable[bytes] = ()) -> pa.RecordBatch:
    """Return the records of some chunks, and those that delete others by their keys."""
    return rows_of(
        [*((chunk.key, chunk.value) for chunk in chunks), *((key, None) for key in outdated)]
    )


def settled(begins: Mapping[TopicPartition, Position]) -> pa.RecordBatch:
    """Return the records of where partitions begin, and that this is settled."""
    value = json.dumps({"version": VERSION}).encode()
    return rows_of(
        [*(beginning(tp, position) for tp, position in begins.items()), (SETTLED, value)]
    )


def rows_of(found: Sequence[tuple[bytes, bytes | None]]) -> pa.RecordBatch:
    """Return the records of some keys and values."""
    keys, values = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary())], names=["key", "value"]
    )


async def read_known(
    target: AsyncClient,
    topic: str,
    *,
    end: int | OffsetSpec = LATEST,
    isolation_level: str,
    source_id: str | None,
) -> Known:
    """Return what the topic says, up to an offset. Raises KafkaError for what cannot be read or
    belongs to another source.
    """
    newest = await read_newest(target, topic, end=end, isolation_level=isolation_level)
    check_source(topic, newest.get(BEGUN), source_id)
    chunks = [read_chunk(key, value) for key, value in newest.items()]
    begins = [read_beginning(key, value) for key, value in newest.items()]
    return Known(
        SETTLED in newest,
        copied_of(chunk for chunk in chunks if chunk is not None),
        dict(found for found in begins if found is not None),
    )


async def read_newest(
    target: AsyncClient, topic: str, *, end: int | OffsetSpec = LATEST, isolation_level: str
) -> dict[bytes, bytes | None]:
    """Return the newest value of each key."""
    options = FetchOptions(
        isolation_level=isolation_level, shape=record_shape(["offset", "key", "value"])
    )
    newest: dict[bytes, bytes | None] = {}
    async with aclosing(target.fetch(TopicPartition(topic, 0), EARLIEST, end, options)) as batches:
        async for batch in batches:
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            for key, value in zip(keys, values, strict=True):
                newest[key] = value
    return newest


async def started_since(
    target: AsyncClient, topic: str, offset: int, isolation_level: str
) -> tuple[bool, int]:
    """Return whether a start was written behind an offset, and up to where that is known now."""
    at, found = TopicPartition(topic, 0), False
    options = FetchOptions(isolation_level=isolation_level, shape=record_shape(["offset", "key"]))
    async with aclosing(target.fetch(at, offset, LATEST, options)) as batches:
        async for batch in batches:
            found = found or BEGUN in batch.column("key").to_pylist()
            offset = batch.column("offset")[batch.num_rows - 1].as_py() + 1
    return found, offset


async def take_over(writer: Writer, topic: str, source_id: str | None) -> int | OffsetSpec:
    """Be the only one of this name; return the end up to which forerunners may have written."""
    await writer.start()
    await writer.begin()
    result = await writer.produce(topic, begun(source_id), 0)
    await writer.commit()
    offset = result.partitions[TopicPartition(topic, 0)].base_offset
    # a retry whose offset is not known was written last all the same
    return offset + 1 if offset >= 0 else LATEST


def copied_of(chunks: Iterable[Chunk]) -> dict[TopicPartition, Copied]:
    """Return the maps that chunks make, each partition's in the order of the source's offsets."""
    copied: dict[TopicPartition, Copied] = {}
    for chunk in sorted(chunks, key=lambda chunk: (chunk.partition, chunk.runs[0].source)):
        before = copied.get(chunk.partition)
        runs, closed = (PartitionMap(), []) if before is None else (before.map, before.closed)
        if before is not None:
            closed.append((before.newest.key, before.newest.end))
        runs.append(chunk.runs, chunk.position.next_offset)
        copied[chunk.partition] = Copied(runs, chunk, closed)
    return copied


def check_source(topic: str, value: bytes | None, source_id: str | None) -> None:
    """Raise ConfigError where the record `begun` names another source, KafkaError where it cannot
    be read.
    """
    if value is None:
        return
    try:
        wrote = json.loads(value)["source"]
    except (ValueError, KeyError, TypeError) as error:
        raise KafkaError(f'"{topic}" has a record "begun" that cannot be read: {error}') from error
    if None not in (wrote, source_id) and wrote != source_id:
        raise ConfigError(
            f'"{topic}" has the map of offsets of the cluster {wrote}, and the source is '
            f"{source_id}: give this replication another name"
        )
