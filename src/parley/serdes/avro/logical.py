"""Logical types between the values that programs have and those that stand in a datum.

`logical_value` is for writing, `plain_value` for reading. Dates and times are pyarrow's scalars on
the way, which know the calendar. Numbers of nanoseconds stay numbers: Python's times have none.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from struct import Struct

import pyarrow as pa

from parley.serdes.avro.model import AvroType, Fixed, Primitive
from parley.serdes.faults import ValueFault, wrong_value
from parley.serdes.frames import parse_guid
from parley.types import shown

Convert = Callable[[object], object]

_DURATION = Struct("<III")
_MOST_DIGITS = 4_000
"""Of a decimal: Python makes no numbers of longer texts."""
_KINDS = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "timestamp-nanos": pa.timestamp("ns", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}
"""Of times, in the units that a datum has."""
_WANTED = {"date": "a date", "time": "a time", "timestamp": "a datetime", "local": "a datetime"}


def time_type(name: str) -> pa.DataType | None:
    """Return Arrow's type of a logical type of time, in the unit of a datum; None for others."""
    return _KINDS.get(name)


def logical_value(schema: Primitive | Fixed) -> Convert:
    """Return what makes the number, text or bytes of a datum. It raises ValueFault."""
    logical = schema.logical
    assert logical is not None
    if logical.name in _KINDS:
        return _from_time(logical.name)
    if logical.name == "decimal":
        size = schema.size if isinstance(schema, Fixed) else None
        return lambda value: _from_decimal(value, logical.precision, logical.scale, size)
    if logical.name == "uuid":
        return _guid_bytes if isinstance(schema, Fixed) else _guid_text
    return _from_duration


def plain_value(schema: AvroType) -> Convert | None:
    """Return what makes Python's date or time of a column's number; None where it stays."""
    if not isinstance(schema, Primitive) or schema.logical is None:
        return None
    name = schema.logical.name
    kind = _KINDS.get(name)
    if kind is None or name.endswith("nanos"):
        return None
    if name.endswith("millis"):
        # a column has microseconds
        kind = pa.time64("us") if name == "time-millis" else pa.timestamp("us", tz=kind.tz)

    def convert(value: object) -> object:
        return pa.scalar(value, kind).as_py()

    return convert


def _from_time(name: str) -> Convert:
    kind = _KINDS[name]
    family = name.partition("-")[0]
    wanted = f"{_WANTED[family]} or a whole number"

    def convert(value: object) -> object:
        if type(value) is int:
            return value
        # datetimes are dates, too, and would lose their time
        has_date, has_time = hasattr(value, "toordinal"), hasattr(value, "hour")
        if (has_date, has_time) != (family != "time", family != "date"):
            return _index(value, wanted)
        if family == "timestamp" and getattr(value, "tzinfo", None) is None:
            raise ValueFault(f"{shown(value)} has no time zone; give tzinfo=datetime.timezone.utc")
        if family in ("local", "time") and getattr(value, "tzinfo", None) is not None:
            raise ValueFault(f"{shown(value)} has a time zone, which {name} cannot keep")
        if name.endswith("millis") and getattr(value, "microsecond", 0) % 1000:
            raise ValueFault(f"{shown(value)} has microseconds, which {name} cannot keep")
        try:
            return pa.scalar(value, kind).value
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise ValueFault(f"{shown(value)} is no value of {name}: {error}") from None

    return convert


def _index(value: object, wanted: str) -> int:
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        return int(value.__index__())
    raise wrong_value(value, wanted)


def _from_decimal(value: object, precision: int, scale: int, size: int | None) -> bytes:
    if isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        raise wrong_value(value, "a Decimal")
    sign, digits, exponent = value.as_tuple()
    shift = int(exponent) + scale
    significant = len(digits) - _leading_zeros(digits)
    if significant > _MOST_DIGITS or (significant and significant + shift > precision):
        raise ValueFault(f"{value} has more digits than precision {precision} and scale {scale}")
    unscaled = int("".join(map(str, digits)))
    if unscaled and shift < 0:
        unscaled, rest = divmod(unscaled, 10 ** min(-shift, len(digits)))
        if rest:
            raise ValueFault(f"{value} has more than {scale} digits behind the point")
    elif unscaled:
        unscaled *= 10**shift
    if sign:
        unscaled = -unscaled
    wanted = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    if size is not None and wanted > size:
        raise ValueFault(f"{value} does not fit {size} bytes")
    return unscaled.to_bytes(wanted if size is None else size, "big", signed=True)


def _leading_zeros(digits: tuple[int, ...]) -> int:
    return next((index for index, one in enumerate(digits) if one), len(digits))


def _guid_bytes(value: object) -> bytes:
    if isinstance(value, str):
        try:
            return parse_guid(value)
        except ValueError:
            raise ValueFault(f"{shown(value)} is no UUID") from None
    raw = getattr(value, "bytes", value)  # a uuid.UUID has them
    if isinstance(raw, bytes) and len(raw) == 16:
        return raw
    raise wrong_value(value, "a UUID")


def _guid_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raw = _guid_bytes(value).hex()
    return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))


def _from_duration(value: object) -> bytes:
    """Return the bytes of months, days and nanoseconds; bytes are taken as they are."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, tuple) or len(value) != 3:
        raise wrong_value(value, "months, days and nanoseconds")
    months, days, nanos = value
    millis, rest = divmod(nanos, 1_000_000)
    if rest:
        raise ValueFault(f"{shown(value)} has less than milliseconds, which a duration cannot keep")
    if not all(0 <= one < 2**32 for one in (months, days, millis)):
        raise ValueFault(f"{shown(value)} does not fit a duration: from 0 to 4294967295 each")
    return _DURATION.pack(months, days, millis)
