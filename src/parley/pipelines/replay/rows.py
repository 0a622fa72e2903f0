"""Fetched columns become the columns that are produced, and those that say where each row was."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parley.client import FetchedBatch, TopicPartition
from parley.pipelines.replay.letters import STRANGERS, Letters
from parley.pipelines.replay.marks import Mark
from parley.pipelines.replay.options import SOURCE_PARTITION, ReplayOptions
from parley.pipelines.replication.options import DROP
from parley.pipelines.replication.rows import marked, missing_timestamp_ms, timestamps

REPLAYED_FROM = "parley-replayed-from"
"""The header that says where a record was first: topic/partition/offset."""
TIME, PARTITION, OFFSET, EPOCH, SIZE = "_time", "_partition", "_offset", "_epoch", "_size"
"""Columns that are not produced; `_time` is the largest timestamp of the partition so far."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What becomes of rows."""

    keeps_headers: bool
    keeps_partition: bool
    letters: Letters | None
    """How dead letters go back; None for other records."""
    missing_timestamp_ms: int | None
    from_ms: int | None
    until_ms: int | None

    @classmethod
    def of(cls, options: ReplayOptions) -> Replayed:
        """Return what these options mean."""
        return cls(
            options.headers != DROP,
            options.partition_by == SOURCE_PARTITION,
            Letters(options.max_attempts, STRANGERS in options.accept)
            if options.dead_letters
            else None,
            missing_timestamp_ms(options.timestamp_when_missing),
            options.from_timestamp_ms,
            options.until_timestamp_ms,
        )

    def of_fetched(self, found: FetchedBatch, last_ms: int) -> pa.RecordBatch:
        """Return the rows to be replayed of a batch; `last_ms` is the time of the row before."""
        batch, (topic, partition) = self._chosen(found.batch), found.partition
        targets: dict[str, pa.Array] = {}
        if self.letters is not None:
            batch, targets = _back(self.letters, found.partition, batch)
        rows = batch.num_rows
        produced = timestamps(batch, self.missing_timestamp_ms)
        index = pa.repeat(pa.scalar(partition, pa.int32()), rows)
        columns = {"key": batch.column("key"), "value": batch.column("value")}
        columns["timestamp"] = produced
        if self.keeps_headers:
            places = pc.binary_join_element_wise(
                f"{topic}/{partition}", batch.column("offset").cast(pa.string()), "/"
            )
            columns["headers"] = marked(
                batch.column("headers"), REPLAYED_FROM, places.cast(pa.binary())
            )
        if self.keeps_partition:
            columns["partition"] = index
        columns |= {name: held for name, held in targets.items() if name in ("topic", *columns)}
        columns[TIME] = pc.cumulative_max(_times(batch), start=last_ms)
        columns[PARTITION], columns[OFFSET] = index, batch.column("offset")
        columns[EPOCH] = pa.repeat(pa.scalar(found.leader_epoch, pa.int32()), rows)
        columns[SIZE] = pc.add(lengths(batch.column("key")), lengths(batch.column("value")))
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.from_ms is not None:
            batch = batch.filter(pc.greater_equal(_times(batch), self.from_ms))
        if self.until_ms is not None:
            batch = batch.filter(pc.less(_times(batch), self.until_ms))
        return batch


def _back(
    letters: Letters, tp: TopicPartition, batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
    """Return the dead letters that go back, and the columns `topic` and `partition` for them."""
    headers = batch.column("headers").to_pylist()
    found = letters.returned(tp, batch.column("offset").to_pylist(), headers)
    batch = batch.take(found.rows)
    at = batch.schema.get_field_index("headers")
    batch = batch.set_column(at, batch.schema.field(at), found.headers)
    return batch, {"topic": found.topics, "partition": found.partitions}


def produced(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that are written."""
    return rows.select([name for name in rows.schema.names if not name.startswith("_")])


def marks_of(rows: pa.RecordBatch) -> dict[int, Mark]:
    """Return where each partition goes on behind these rows."""
    table = pa.Table.from_batches([rows.select([PARTITION, OFFSET, EPOCH])])
    found = table.group_by(PARTITION).aggregate([(OFFSET, "max"), (EPOCH, "max")])
    return {
        one[PARTITION]: Mark(one[f"{OFFSET}_max"] + 1, one[f"{EPOCH}_max"])
        for one in found.to_pylist()
    }


def _times(batch: pa.RecordBatch) -> pa.Array:
    """Return timestamps in milliseconds, 0 for records that have none (Kafka 0.9)."""
    given = batch.column("timestamp").cast(pa.int64())
    return pc.if_else(pc.less(batch.column("timestamp_type"), 0), pa.scalar(0, pa.int64()), given)


def lengths(column: pa.Array) -> pa.Array:
    """Return the bytes of each key or value."""
    return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())
