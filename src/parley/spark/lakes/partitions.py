"""Rows split by the values of their partition columns, and those values as texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from parley.errors import ConfigError

Values = tuple[str | None, ...]
"""The texts of one partition's values, in the order of its columns; None is null."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST = 60
_EPOCH = date(1970, 1, 1).toordinal()
NULL = "__HIVE_DEFAULT_PARTITION__"
"""What stands for null in a folder's name."""
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
"""Of the years 1 to 9999, in days since 1970."""


def split(
    batch: pa.RecordBatch, partition_by: Sequence[str], *, keep: bool = False
) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """Yield the rows of each partition, in their order, without the partition columns unless they
    are to `keep`. Then an empty text is a value; else it is null, as in Delta's log. A column that
    the rows lack is null.

    >>> rows = pa.record_batch({"day": ["a", "b", "a"], "n": [1, 2, 3]})
    >>> [(values, piece.to_pydict()) for values, piece in split(rows, ["day"])]
    [(('a',), {'n': [1, 3]}), (('b',), {'n': [2]})]
    """
    if not partition_by:
        yield (), batch
        return
    texts = [_texts(batch, name, empty_is_null=not keep) for name in partition_by]
    left_out = () if keep else partition_by
    rest = batch.select([name for name in batch.schema.names if name not in left_out])
    codes = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
    for column in texts:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        wider = pc.multiply(codes, max(1, len(encoded.dictionary)))
        both = pc.add(wider, encoded.indices.cast(pa.int64()))
        codes = pc.dictionary_encode(both).indices.cast(pa.int64())  # stays small
    # A stable sort keeps the order of the rows of each partition.
    order = pc.array_sort_indices(codes)
    sorted_codes = codes.take(order)
    start = 0
    for run in pc.run_end_encode(sorted_codes).run_ends.to_pylist():
        rows = order.slice(start, run - start)
        first = rows[0].as_py()
        yield tuple(column[first].as_py() for column in texts), rest.take(rows)
        start = run


def folder_of(partition_by: Sequence[str], values: Values) -> str:
    """Return the folder of a partition's files, below the table's; "" without partitions.

    Readers take the values from the table's log, never from the folder's name. So characters that
    would have to be escaped, here once and in the log once more, are left out.

    >>> folder_of(["day", "city"], ("2026-01-02", "New York"))
    'day=2026-01-02/city=New_York/'
    """
    return "".join(
        f"{_UNSAFE.sub('_', name)}={NULL if value is None else _UNSAFE.sub('_', value)[:_LONGEST]}/"
        for name, value in zip(partition_by, values, strict=True)
    )


def _check_years(column: pa.Array, name: str) -> None:
    """Raise ConfigError for a date that no reader takes from a log: with one the whole table could
    not be opened any more.
    """
    days = column.cast(pa.int32())
    bounds = pc.min_max(days).as_py()
    for day in (bounds["min"], bounds["max"]):
        if day is not None and not _FIRST_DAY <= day <= _LAST_DAY:
            raise ConfigError(
                f'column "{name}", by which the table is partitioned, has a date beyond the years '
                f"1 to 9999, day {day} since 1970: no reader opens a table with such a partition. "
                "Correct the date, or filter such rows out. Nothing was written"
            )


def _texts(batch: pa.RecordBatch, name: str, *, empty_is_null: bool) -> pa.Array:
    """Return the values of a column as texts."""
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string())
    column = batch.column(name)
    if pa.types.is_date(column.type):
        _check_years(column, name)
    texts = column.cast(pa.string())
    if not empty_is_null:
        return texts
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
