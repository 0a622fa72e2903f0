"""Rows on their way to the client: columns chosen, topics checked, the header added.

What is noticed on the way names rows in errors: a broker that refuses a batch does not know Spark's
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from parley.client import SLICE_ROWS
from parley.errors import BrokerError, ConfigError, KafkaError
from parley.errors.codes import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
)

if TYPE_CHECKING:
    from parley.spark.write.encoding import Encoding

HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
PIECE_BYTES = 8 * 2**20
"""Most rows encoded together, if so small: what a task holds of them counts twice."""
NO_TIME_US = -1000
"""What a record without a time, read from Kafka, has in Spark: -1 ms."""


@dataclass(frozen=True, slots=True)
class RowHeader:
    """A record header that distinguishes a query's rows from all others: `place/sequence`."""

    name: str
    place: str
    """Query, batch and task: the same when Spark writes the same rows again."""


class TaskRows:
    """The rows of one task, as the client takes them. Counts them, and remembers those
    that are out of the ordinary.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        columns: tuple[str, ...],
        header: RowHeader | None = None,
        encoding: Encoding | None = None,
    ) -> None:
        self._batches, self._columns, self._header = batches, columns, header
        self._encoding = encoding
        self.count = 0
        self._largest = (-1, -1)
        self._without_key: int | None = None
        self._times: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises ConfigError for one without a topic, or before 1970;
        SchemaEncodeError for one that does not fit its schema.
        """
        for batch in in_pieces(self._batches):
            chosen = batch.select(list(self._columns))
            if "topic" in self._columns:
                self._check_topics(batch.column("topic"))
            if "timestamp" in self._columns:
                self._check_times(batch.column("timestamp"))
            if self._encoding is not None:
                chosen = self._encoding.encode(chosen, self.count)
            self._look(chosen)
            if self._header is not None:
                chosen = with_header(chosen, self._header, self.count)
            self.count += batch.num_rows
            yield chosen

    def explain(self, error: KafkaError) -> None:
        """Add a note to an error of the broker that says which row it is about."""
        code = error.code if isinstance(error, BrokerError) else None
        row, size = self._largest
        if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE):
            error.add_note(
                f"The largest row is row {row} of this task with {size} bytes of "
                "key and value. Raise kafka.max.request.size here and "
                "max.message.bytes of the topic, or write smaller rows."
            )
        elif code == INVALID_RECORD and self._without_key is not None:
            error.add_note(
                f"Row {self._without_key} of this task has no key, and a topic with "
                'cleanup.policy=compact takes only records with one: fill the column "key".'
            )

        elif code == INVALID_TIMESTAMP and self._times is not None:
            first, last = (
                pa.scalar(time, pa.timestamp("us", "UTC")).cast(pa.string()) for time in self._times
            )
            error.add_note(
                f'The column "timestamp" of this task has times from {first} to {last}. The '
                "broker takes those within message.timestamp.before.max.ms and "
                "message.timestamp.after.max.ms of its clock: raise them for the topic, or "
                'leave the column out with .drop("timestamp").'
            )

    def _look(self, batch: pa.RecordBatch) -> None:
        """Remember the largest row, and the first one without a key."""
        sizes = None
        for name in ("key", "value"):
            if name in self._columns:
                column = pc.binary_length(batch.column(name))
                if column.null_count:
                    column = pc.fill_null(column, 0)
                sizes = column if sizes is None else pc.add(sizes, column)
        largest = pc.max(sizes).as_py()
        if largest > self._largest[1]:
            self._largest = (self.count + pc.index(sizes, largest).as_py(), largest)
        if self._without_key is None:
            if "key" not in self._columns:
                self._without_key = 0
            elif batch.column("key").null_count:
                self._without_key = (
                    self.count + pc.index(batch.column("key").is_null(), True).as_py()
                )

    def _check_topics(self, topics: pa.Array) -> None:
        if topics.null_count:
            row = self.count + pc.index(topics.is_null(), True).as_py()
            raise ConfigError(
                f'row {row} of this task has no topic (column "topic" is null). Fill the column, '
                'or set the option "topic" for all rows. The rows before it may have been written.'
            )

    def _check_times(self, times: pa.Array) -> None:
        micros = times.view(pa.int64())
        found = pc.min_max(micros)
        first, last = found["min"].as_py(), found["max"].as_py()
        if first is None:
            return
        if first < 0:
            wrong = pc.and_(pc.less(micros, 0), pc.not_equal(micros, NO_TIME_US))
            row = pc.index(wrong, True).as_py()
            if row >= 0:
                raise ConfigError(
                    f"row {self.count + row} of this task has the timestamp "
                    f"{times[row].cast(pa.string())}, and Kafka has none before 1970. "
                    'Correct the column "timestamp", or leave it out with '
                    '.drop("timestamp"). The rows before it may have been written.'
                )
        known = self._times or (first, last)
        self._times = min(first, known[0]), max(last, known[1])


def in_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in larger batches, none of them empty.

    Spark hands over 10,000 rows at a time (spark.sql.execution.arrow.maxRecordsPerBatch); of so few
    each partition gets little, and what is done once per batch is done too often.
    """
    kept: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        added = batch.nbytes
        if kept and (rows + batch.num_rows > SLICE_ROWS or size + added > PIECE_BYTES):
            yield _joined(kept)
            kept, rows, size = [], 0, 0
        kept.append(batch)
        rows += batch.num_rows
        size += added
    if kept:
        yield _joined(kept)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def with_header(batch: pa.RecordBatch, header: RowHeader, first: int) -> pa.RecordBatch:
    """Return rows with a header more, the last of each row; the first row's sequence is `first`."""
    count = batch.num_rows
    sequences = pc.cast(pa.array(range(first, first + count), pa.int64()), pa.string())
    values = pc.binary_join_element_wise(f"{header.place}/", sequences, "").cast(pa.binary())
    names = pa.repeat(header.name, count)
    if "headers" not in batch.schema.names:
        added = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))
        headers = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), added)
        return batch.append_column("headers", headers)
    place = batch.schema.get_field_index("headers")
    headers = _one_more(batch.column(place), names, values)
    return batch.set_column(place, "headers", headers)


def _one_more(lists: pa.ListArray, names: pa.Array, values: pa.Array) -> pa.ListArray:
    """Return the lists with an entry more at the end; null becomes a list of it."""
    count = len(lists)
    old = pc.list_flatten(lists)
    parents = pc.list_parent_indices(lists).cast(pa.int64())
    rows = pa.array(range(count), pa.int64())
    # A stable sort by row puts the new entry, which
    # comes after all old ones, at the end of its row's.
    order = pc.array_sort_indices(pa.concat_arrays([parents, rows]))
    keys = pa.concat_arrays([old.field(0).cast(pa.string()), names]).take(order)
    found = pa.concat_arrays([old.field(1).cast(pa.binary()), values]).take(order)
    lengths = pc.add(pc.fill_null(pc.list_value_length(lists), 0), 1)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays([keys, found], fields=list(HEADER_TYPE))
    )
