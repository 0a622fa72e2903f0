"""What Delta's log says of a file, so that readers can pass it over: rows, least and greatest
values, nulls. All of it comes from the file's own footer.

Columns of the first level, the first 32 of them, as Delta has it by default. A bound that could be
wrong is left out, for then readers look into the file: floating point with a NaN, texts longer than
32 characters (their beginning is a lower bound, not an upper one), decimals, times out of
Python's range.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

MOST_COLUMNS = 32
LONGEST_TEXT = 32
EPOCH = datetime(1970, 1, 1)
Bound = int | float | str


def statistics(footer: pq.FileMetaData, schema: pa.Schema, unordered: Collection[str] = ()) -> str:
    """Return Delta's JSON for a file with columns of this schema. `unordered` names columns whose
    bounds are not to be trusted.
    """
    least: dict[str, Bound] = {}
    greatest: dict[str, Bound] = {}
    nulls: dict[str, int] = {}
    leaf = 0
    for place, field in enumerate(schema):
        if place < MOST_COLUMNS and not pa.types.is_nested(field.type):
            groups = [
                footer.row_group(group).column(leaf).statistics
                for group in range(footer.num_row_groups)
            ]
            if groups and all(one is not None and one.has_null_count for one in groups):
                nulls[field.name] = sum(one.null_count for one in groups)
            if field.name not in unordered and _ordered(field.type):
                low, high = _bounds(groups, field.type)
                if low is not None:
                    least[field.name] = low
                if high is not None:
                    greatest[field.name] = high
        leaf += _leaves(field.type)
    found = {
        "numRecords": footer.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }
    return json.dumps(found, separators=(",", ":"))


def _bounds(
    groups: list[pq.Statistics | None], kind: pa.DataType
) -> tuple[Bound | None, Bound | None]:
    lows, highs = [], []
    for group in groups:
        if group is None:
            return None, None
        if not group.has_min_max:
            if group.num_values:  # else nothing but nulls
                return None, None
            continue
        try:
            if pa.types.is_timestamp(kind) and kind.unit == "us":
                low, high = _times(group, kind)
            else:
                low, high = group.min, group.max
        except (ValueError, OverflowError):  # a time that Python has no value for
            return None, None
        lows.append(low)
        highs.append(high)
    if not lows:
        return None, None
    return _shown(min(lows)), _shown(max(highs), upper=True)


def _times(group: pq.Statistics, kind: pa.DataType) -> tuple[datetime, datetime]:
    """Return the bounds of a column of times. Arrow would import pandas to make them: half a second
    of a worker, and 45 MB.
    """
    zero = EPOCH if kind.tz is None else EPOCH.replace(tzinfo=UTC)
    return (
        zero + timedelta(microseconds=group.min_raw),
        zero + timedelta(microseconds=group.max_raw),
    )


def _shown(value: object, *, upper: bool = False) -> Bound | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        if len(value) <= LONGEST_TEXT:
            return value
        return None if upper else value[:LONGEST_TEXT]
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"
        return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}{zone}"
    return value.isoformat() if isinstance(value, date) else None


def _ordered(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def _leaves(kind: pa.DataType) -> int:
    """Return the number of Parquet's columns that a column becomes."""
    if pa.types.is_map(kind):
        return _leaves(kind.key_type) + _leaves(kind.item_type)
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(place).type) for place in range(kind.num_fields))
    return 1
