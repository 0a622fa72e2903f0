"""What stands in the topic of offsets. Pure.

A record has a chunk of a partition's runs. Its key is `topic/partition/first`, where `first` is the
source's first offset in it: while a chunk is open each transaction writes it again under the same
key, and compaction keeps the whole map. The chunk with the highest `first` has the position:

    {"version": 1, "next": 1207, "epoch": 4, "topic": "<id>", "target": "<id>", "runs": [...]}

    next    the source's offset to be copied next
    epoch   the leader epoch of the record before it, -1 where the source has none
    topic   the source's topic id, target the target's; null where the cluster has none
    runs    source, target, count of the first run, and for each further one how many offsets
            the source skips, how many the target skips, and the count

Where a partition did not begin with the source's first record, a record with the key
`topic/partition` has its first position: the same without runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from parley.client import TopicPartition, format_uuid, parse_uuid
from parley.errors import KafkaError
from parley.pipelines.replication.runs import Run
from parley.types import ZERO_UUID

VERSION = 1
CHUNK_RUNS = 128
"""A chunk that has so many runs is closed: each transaction writes the open one again."""


class Position(NamedTuple):
    """Where copying goes on, and of which topics that is true."""

    next_offset: int
    leader_epoch: int = -1
    topic_id: bytes = ZERO_UUID
    target_id: bytes = ZERO_UUID


class Chunk(NamedTuple):
    """Some runs of a partition, and the position behind them."""

    partition: TopicPartition
    position: Position
    runs: tuple[Run, ...]

    @property
    def key(self) -> bytes:
        """The key of its record."""
        tp = self.partition
        return f"{tp.topic}/{tp.partition}/{self.runs[0].source}".encode()

    @property
    def end(self) -> int:
        """The source's offset behind its last run."""
        last = self.runs[-1]
        return last.source + last.records

    @property
    def value(self) -> bytes:
        """The value of its record."""
        return _value(self.position, runs=list(_numbers(self.runs)))


def read_chunk(key: bytes | None, value: bytes | None) -> Chunk | None:
    """Return the chunk of a record, None for what is no chunk (a beginning, a deleted one).

    Raises KafkaError for a record of a newer version, or one that cannot be read.
    """
    found = _read(key, value, slashes=2)
    return None if found is None else Chunk(*found)


def beginning(partition: TopicPartition, position: Position) -> tuple[bytes, bytes]:
    """Return key and value of the record of where a partition begins."""
    return f"{partition.topic}/{partition.partition}".encode(), _value(position)


def read_beginning(
    key: bytes | None, value: bytes | None
) -> tuple[TopicPartition, Position] | None:
    """Return where a partition begins, None for other records. Raises as `read_chunk`."""
    found = _read(key, value, slashes=1)
    return None if found is None else found[:2]


def _value(position: Position, **more: list[int]) -> bytes:
    found = {
        "version": VERSION,
        "next": position.next_offset,
        "epoch": position.leader_epoch,
        "topic": _id_text(position.topic_id),
        "target": _id_text(position.target_id),
    }
    return json.dumps(found | more, separators=(",", ":")).encode()


def _read(
    key: bytes | None, value: bytes | None, slashes: int
) -> tuple[TopicPartition, Position, tuple[Run, ...]] | None:
    """Return what stands in a record, None where its key has other parts or it is deleted."""
    if key is None or value is None or key.count(b"/") != slashes:
        return None
    try:
        topic, partition, *_ = key.decode().split("/")
        found = json.loads(value)
        if found["version"] != VERSION:
            raise KafkaError(
                f"the map of offsets of {topic}-{partition} has version {found['version']}, and "
                f"this parley reads {VERSION}: take a newer one"
            )
        position = Position(
            int(found["next"]),
            int(found["epoch"]),
            _id_bytes(found["topic"]),
            _id_bytes(found["target"]),
        )
        runs = tuple(_runs(found["runs"])) if slashes == 2 else ()
        return TopicPartition(topic, int(partition)), position, runs
    except (ValueError, KeyError, TypeError) as error:
        raise KafkaError(
            f"the map of offsets has a record that cannot be read, with the key {key!r}: {error}"
        ) from error


def grown(
    chunk: Chunk | None, partition: TopicPartition, runs: Sequence[Run], position: Position
) -> list[Chunk]:
    """Return the chunks to be written for new runs: the open one with more, and further ones."""
    kept = list(chunk.runs) if chunk is not None and len(chunk.runs) < CHUNK_RUNS else []
    found = kept + list(runs)
    return [
        Chunk(partition, position, tuple(found[at : at + CHUNK_RUNS]))
        for at in range(0, len(found), CHUNK_RUNS)
    ]


def _numbers(runs: Iterable[Run]) -> Iterator[int]:
    source = target = 0
    for run in runs:
        yield run.source - source
        yield run.target - target
        yield run.records
        source, target = run.source + run.records, run.target + run.records


def _runs(numbers: Sequence[int]) -> Iterator[Run]:
    source = target = 0
    for at in range(0, len(numbers), 3):
        skipped, target_skipped, count = numbers[at : at + 3]
        run = Run(source + skipped, target + target_skipped, count)
        yield run
        source, target = run.source + count, run.target + count


def _id_text(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_UUID else format_uuid(topic_id)


def _id_bytes(text: str | None) -> bytes:
    return ZERO_UUID if text is None else parse_uuid(text)
