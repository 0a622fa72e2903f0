"""Fetched columns become the columns that are produced; nothing is done per record in Python."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parley.arrow import HEADERS_TYPE
from parley.pipelines.replication.options import APPEND, DROP, ZERO, ReplicationOptions

ORIGIN = "parley-origin"
"""The header with the id of the cluster that a record was first written to."""
_TIMESTAMP = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What is changed on the way.

    `missing_timestamp_ms` is for records without one, None for the time of copying. With `origin`
    and `target_id` records are marked, and those of the target left out.
    """

    drop_headers: bool = False
    missing_timestamp_ms: int | None = None
    origin: str | None = None
    target_id: str | None = None

    @classmethod
    def of(
        cls, options: ReplicationOptions, source_id: str | None, target_id: str | None
    ) -> Rewriting:
        """Return what these options mean between two clusters."""
        return cls(
            options.headers == DROP,
            missing_timestamp_ms(options.timestamp_when_missing),
            source_id if options.two_way else None,
            target_id if options.two_way else None,
        )

    def of_fetched(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[tuple[int, int]]]:
        """Return the rows to produce, and the source's offsets of them: (first, count) of each run
        without a hole.
        """
        if self.target_id is not None:
            batch = without_origin(batch, self.target_id)
        names, columns = ["key", "value", "timestamp"], [batch.column("key"), batch.column("value")]
        columns.append(timestamps(batch, self.missing_timestamp_ms))
        if not self.drop_headers:
            headers = batch.column("headers")
            names.append("headers")
            columns.append(headers if self.origin is None else self._marked(headers))
        return pa.RecordBatch.from_arrays(columns, names=names), offset_runs(batch.column("offset"))

    def _marked(self, headers: pa.Array) -> pa.Array:
        assert self.origin is not None
        origin = pa.scalar(self.origin.encode(), pa.binary())
        return marked(headers, ORIGIN, pa.repeat(origin, len(headers)))


def missing_timestamp_ms(option: str | int) -> int | None:
    """Return what records without a timestamp get, None for the time of copying."""
    return {APPEND: None, ZERO: 0}[option] if isinstance(option, str) else option


def timestamps(batch: pa.RecordBatch, missing_ms: int | None) -> pa.Array:
    """Return the timestamps to produce of fetched rows."""
    found = batch.column("timestamp")
    if not len(found) or pc.min(batch.column("timestamp_type")).as_py() >= 0:
        return found
    given = pa.scalar(missing_ms, pa.int64()).cast(_TIMESTAMP)
    missing = pc.less(batch.column("timestamp_type"), 0)
    return pc.if_else(missing, given, found)  # null: the time of the produce


def offset_runs(offsets: pa.Array) -> list[tuple[int, int]]:
    """Return (first, count) of each run of offsets without a hole.

    >>> offset_runs(pa.array([3, 4, 5, 9, 11, 12]))
    [(3, 3), (9, 1), (11, 2)]
    """
    rows = len(offsets)
    if not rows:
        return []
    first = offsets[0].as_py()
    if offsets[rows - 1].as_py() - first == rows - 1:
        return [(first, rows)]
    steps = pc.subtract(offsets.slice(1), offsets.slice(0, rows - 1))
    begins = [0, *(at + 1 for at in pc.indices_nonzero(pc.not_equal(steps, 1)).to_pylist())]
    firsts = offsets.take(pa.array(begins)).to_pylist()
    ends = [*begins[1:], rows]
    return [(at, end - begin) for at, begin, end in zip(firsts, begins, ends, strict=True)]


def without_origin(batch: pa.RecordBatch, cluster_id: str) -> pa.RecordBatch:
    """Return the rows that do not come from a cluster, by their header."""
    headers = batch.column("headers")
    origins = pc.equal(pc.list_flatten(headers).field(0), ORIGIN)
    if not origins.true_count:
        return batch
    ours = pc.and_(
        origins, pc.equal(pc.list_flatten(headers).field(1), pa.scalar(cluster_id.encode()))
    )
    rows = pc.unique(pc.list_parent_indices(headers).filter(ours))
    return batch.filter(pc.invert(pc.is_in(_numbers(batch.num_rows), value_set=rows)))


def marked(headers: pa.Array, name: str, values: pa.Array) -> pa.Array:
    """Return the headers with one more behind those of each row that has none of this name."""
    pairs, rows = pc.list_flatten(headers), len(headers)
    of_row = pc.list_parent_indices(headers).cast(pa.int64())
    has = pc.unique(of_row.filter(pc.equal(pairs.field(0), name)))
    lacks = pc.invert(pc.is_in(_numbers(rows), value_set=has))
    bare = _numbers(rows).filter(lacks)
    # a stable sort by row puts each new header behind the row's own
    order = pc.sort_indices(pa.concat_arrays([of_row, bare]))
    keys = pa.concat_arrays([pairs.field(0), pa.repeat(pa.scalar(name), len(bare))])
    values = pa.concat_arrays([pairs.field(1), values.filter(lacks)])
    counts = pc.add(pc.list_value_length(headers).cast(pa.int64()), lacks.cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts)])
    fields = list(HEADERS_TYPE.value_type)
    made = pa.StructArray.from_arrays([keys.take(order), values.take(order)], fields=fields)
    return pa.ListArray.from_arrays(offsets.cast(pa.int32()), made, type=HEADERS_TYPE)


def _numbers(rows: int) -> pa.Array:
    """Return the numbers from 0 up to `rows`, without a Python object for each."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1)
