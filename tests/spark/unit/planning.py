"""A cluster in a dictionary, as far as planning sees one, and stream readers of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

from parley.client import (
    EARLIEST,
    ClusterMetadata,
    EpochEndOffset,
    FetchedBatch,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionMetadata,
    Timestamp,
    TopicMetadata,
    TopicPartition,
)  # fmt: skip
from parley.errors import broker_error
from parley.spark.options.source import read_source_options
from parley.spark.options.texts import Use
from parley.spark.stream.reader import StreamReader

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OLD, NEW = bytes(15) + b"\1", bytes(15) + b"\2"


@dataclass
class FakeClient:
    """A cluster as far as planning sees it. `logs` holds first and next
    offset of each partition.
    """

    logs: dict[TopicPartition, tuple[int, int]]
    ids: dict[str, bytes] = field(default_factory=dict)
    epoch: int = 3
    asked: list[str] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the epochs of positions end, by partition, where that is before the log's end."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    commits: list[dict[TopicPartition, int]] = field(default_factory=list)
    times: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Timestamps of the records of a partition, by offset."""
    record_bytes: dict[TopicPartition, int] = field(default_factory=dict)

    def metadata(self, topics: tuple[str, ...] | None = None) -> ClusterMetadata:
        self.asked.append("metadata")
        there = {tp.topic for tp in self.logs}
        for name in topics or ():
            if name not in there:
                raise broker_error(3, topic=name)
        found = {}
        for name in there if topics is None else topics:
            numbers = [tp.partition for tp in self.logs if tp.topic == name]
            parts = {number: PartitionMetadata(number, 1, self.epoch) for number in numbers}
            found[name] = TopicMetadata(name, parts, self.ids.get(name, bytes(16)))
        return ClusterMetadata(topics=found)

    def list_offsets(
        self, specs: Mapping[TopicPartition, Any], **_: Any
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self.asked.append("offsets")
        for tp in specs:
            if tp not in self.logs:
                raise broker_error(3, topic=tp.topic, partition=tp.partition)
        return {
            tp: OffsetAndTimestamp(self._offset(tp, spec), leader_epoch=self.epoch)
            for tp, spec in specs.items()
        }

    def _offset(self, tp: TopicPartition, spec: Any) -> int:
        if isinstance(spec, Timestamp):
            late = [offset for offset, ms in enumerate(self.times.get(tp, [])) if ms >= spec.ms]
            return late[0] if late else -1
        return self.logs[tp][0 if spec == EARLIEST else 1]

    def offsets_for_leader_epochs(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEndOffset]:
        self.asked.append("epochs")
        return {
            tp: EpochEndOffset(epoch, self.ends.get(tp, self.logs[tp][1]))
            for tp, epoch in epochs.items()
        }

    def committed_offsets(
        self, group: str, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        found = {tp: self.committed.get(tp) for tp in partitions}
        return {
            tp: None if offset is None else OffsetAndMetadata(offset)
            for tp, offset in found.items()
        }

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        self.commits.append({tp: found.offset for tp, found in offsets.items()})

    def fetch_many(
        self, ranges: Mapping[TopicPartition, Any], options: Any
    ) -> Iterator[FetchedBatch]:
        self.asked.append("fetch")
        for tp, wanted in ranges.items():
            value = bytes(self.record_bytes.get(tp, 100) - 24)
            rows = {
                "value": [value],
                "timestamp": pa.array([self.times.get(tp, [5] * 99)[wanted.start]], pa.int64()),
            }
            yield FetchedBatch(tp, pa.record_batch(rows), wanted.start + 1, self.epoch)


def reader(**options: str) -> StreamReader:
    given = {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "a",
        "startingOffsets": "earliest",
        **options,
    }
    if "subscribePattern" in given:
        del given["subscribe"]
    return StreamReader(read_source_options(given, Use.STREAM_READ), None)


ALL = ReadAllAvailable()


def ranges(
    found: StreamReader, start: Mapping[str, Any], end: Mapping[str, Any]
) -> list[tuple[str, int, int]]:
    return [
        (str(one.tp), one.start, one.end)
        for part in found.partitions(start, end)
        for one in part.value
    ]
