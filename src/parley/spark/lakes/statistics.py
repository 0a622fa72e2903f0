"""What Delta's log says of a file, so that readers can pass it over: rows, least and greatest
values, nulls. All of it comes from the file's own footer.

Columns of the first level. delta-rs takes a bound that is not there for one that no row meets,
where the file has bounds of other columns. So every column that readers look for has both, or the
file has the number of its rows alone: with a NaN, which readers order in different ways, or a time
out of Python's range. Bounds may be wide: long texts are cut, and those too long for a footer have
bounds that hold all texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from parley.spark.lakes.columns import Column

MOST_COLUMNS = 32
"""Whose bounds readers look for, where the table says nothing else."""
LONGEST_TEXT = 32
LAST_CHARACTER = "\U0010ffff"
ABOVE_ALL_TEXTS = LAST_CHARACTER * (LONGEST_TEXT + 1)
"""No text begins so: Unicode has the code point for nothing."""
EPOCH = datetime(1970, 1, 1)
_COUNT = "delta.dataSkippingNumIndexedCols"
_NAMES = "delta.dataSkippingStatsColumns"
_FIRST_PARTS = re.compile(r"(?:^|,)\s*(?:`((?:[^`]|``)+)`|([^`,.]+))")


class _Unsaid(Exception):
    """A column has no bounds that all readers understand."""


def indexed(columns: Sequence[Column], configuration: Mapping[str, str]) -> tuple[Column, ...]:
    """Return the columns whose bounds readers look for, of those that files of a table have.

    >>> columns = [Column(name, "long") for name in "abc"]
    >>> [one.name for one in indexed(columns, {"delta.dataSkippingNumIndexedCols": "2"})]
    ['a', 'b']
    >>> [one.name for one in indexed(columns, {"delta.dataSkippingStatsColumns": "c.x, `b`"})]
    ['b', 'c']
    """
    if _NAMES in configuration:
        found = _FIRST_PARTS.findall(configuration[_NAMES])
        wanted = {quoted.replace("``", "`") or plain.strip() for quoted, plain in found}
        return tuple(column for column in columns if column.name in wanted)
    most = int(configuration.get(_COUNT, MOST_COLUMNS))
    return tuple(columns if most < 0 else columns[:most])


def statistics(
    footer: pq.FileMetaData,
    schema: pa.Schema,
    unordered: Collection[str],
    wanted: Sequence[Column],
) -> str:
    """Return Delta's JSON for a file with columns of this schema. `unordered` names columns with a
    NaN, `wanted` are those whose bounds readers look for: what the file lacks of them is null.
    """
    rows = {"numRecords": str(footer.num_rows)}
    try:
        if any(column.name in unordered for column in wanted):
            raise _Unsaid
        return _object(rows | _of_columns(footer, schema, wanted))
    except _Unsaid:
        return _object(rows)


def _of_columns(
    footer: pq.FileMetaData, schema: pa.Schema, wanted: Sequence[Column]
) -> dict[str, str]:
    # An object with nothing in it says nothing. Were it missing, no row met `struct is null`.
    least = {column.name: "{}" for column in wanted if _is_struct(column)}
    greatest = dict(least)
    simple = [column.name for column in wanted if isinstance(column.kind, str)]
    nulls = {name: str(footer.num_rows) for name in simple if name not in schema.names}
    leaf = 0
    for field in schema:
        if field.name in simple:
            groups = [
                footer.row_group(group).column(leaf).statistics
                for group in range(footer.num_row_groups)
            ]
            nulls[field.name] = str(_nulls(groups))
            if _ordered(field.type) and int(nulls[field.name]) < footer.num_rows:
                least[field.name], greatest[field.name] = _bounds(groups, field.type)
        leaf += _leaves(field.type)
    return {
        "minValues": _object(least),
        "maxValues": _object(greatest),
        "nullCount": _object(nulls),
    }


def _is_struct(column: Column) -> bool:
    return isinstance(column.kind, dict) and column.kind["type"] == "struct"


def _nulls(groups: Sequence[pq.Statistics | None]) -> int:
    found = [group.null_count for group in groups if group is not None and group.has_null_count]
    if len(found) < len(groups):
        raise _Unsaid
    return sum(found)


def _bounds(groups: Sequence[pq.Statistics], kind: pa.DataType) -> tuple[str, str]:
    """Return the bounds of a column that has a value, as JSON."""
    lows, highs = [], []
    for group in groups:
        if not group.has_min_max:
            if not group.num_values:  # nothing but nulls
                continue
            if pa.types.is_string(kind):  # longer than a footer takes
                return '""', _json(ABOVE_ALL_TEXTS)
            raise _Unsaid
        try:
            if pa.types.is_timestamp(kind):
                low, high = _times(group, kind)
            else:
                low, high = group.min, group.max
        except (ValueError, OverflowError):  # a time that Python has no value for
            raise _Unsaid from None
        lows.append(low)
        highs.append(high)
    low, high = min(lows), max(highs)
    if isinstance(low, str):
        low, high = low[:LONGEST_TEXT], _cut_above(high)
    return _shown(low), _shown(high)


def _times(group: pq.Statistics, kind: pa.DataType) -> tuple[datetime, datetime]:
    """Return the bounds of a column of times. Arrow would import pandas to make them: half a second
    of a worker, and 45 MB.
    """
    zero = EPOCH if kind.tz is None else EPOCH.replace(tzinfo=UTC)
    return (
        zero + timedelta(microseconds=group.min_raw),
        zero + timedelta(microseconds=group.max_raw),
    )


def _cut_above(text: str) -> str:
    """Return a text that is not less than this one, and short where that can be."""
    end = LONGEST_TEXT
    while text[end : end + 1] == LAST_CHARACTER:
        end += 1
    return text if len(text) <= end else text[:end] + LAST_CHARACTER


def _shown(value: object) -> str:
    """Return a bound as JSON. What JSON has no number for is a text, as Spark writes it."""
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"
        return f'"{value.replace(tzinfo=None).isoformat(timespec="microseconds")}{zone}"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    if isinstance(value, Decimal):
        return f"{value:f}"
    text = _json(value)
    return f'"{text}"' if text.endswith("Infinity") else text


def _json(value: object) -> str:
    # Of characters beyond U+20000 that are escaped as pairs, delta-rs reads others (1.6.6).
    return json.dumps(value, ensure_ascii=False)


def _object(entries: Mapping[str, str]) -> str:
    """Return a JSON object of entries that are JSON."""
    return "{" + ",".join(f"{_json(name)}:{text}" for name, text in entries.items()) + "}"


def _ordered(kind: pa.DataType) -> bool:
    """Return whether readers look for bounds of this type."""
    return not pa.types.is_binary(kind)


def _leaves(kind: pa.DataType) -> int:
    """Return the number of Parquet's columns that a column becomes."""
    if pa.types.is_map(kind):
        return _leaves(kind.key_type) + _leaves(kind.item_type)
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(place).type) for place in range(kind.num_fields))
    return 1
