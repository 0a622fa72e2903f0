"""Protobuf messages as columns: the Arrow types, and what builds arrays of them.

Columns are built one after the other, each of a list of one field's values, so that nothing is made
for each row but the message. The types are those of Spark's `from_protobuf`, where these lose
nothing: unsigned numbers get types that hold them, and fields without presence their default.

A value that no column can hold raises ValueFault, or what Arrow raises for texts of proto2 that are
not UTF-8: `reading` finds out of which row it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from parley.errors import SchemaError
from parley.serdes.faults import ValueFault, inner_path

Build = Callable[[Sequence[object]], pa.Array]
"""Makes an array of values, None for null."""

_WELL_KNOWN = "google.protobuf."
_WRAPPERS = frozenset(
    f"{_WELL_KNOWN}{one}Value"
    for one in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_AS_JSON = frozenset(f"{_WELL_KNOWN}{one}" for one in ("Struct", "Value", "ListValue"))
TIMESTAMP, DURATION = f"{_WELL_KNOWN}Timestamp", f"{_WELL_KNOWN}Duration"
UINT64 = pa.decimal128(20, 0)
_SCALARS: dict[int, pa.DataType] = {
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT64: UINT64,
    FieldDescriptor.TYPE_FIXED64: UINT64,
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
}
MIN_SECONDS, MAX_SECONDS = -62_135_596_800, 253_402_300_799
"""Of a Timestamp: from the year 1 to the year 9999."""
MAX_DURATION = 315_576_000_000
"""Seconds of a Duration, in either direction."""


class Column(NamedTuple):
    """A type, and what builds an array of it."""

    kind: pa.DataType
    build: Build


def is_json(message: Descriptor) -> bool:
    """Return whether a message holds any JSON: a column has its text."""
    return message.full_name in _AS_JSON


def is_wrapper(message: Descriptor) -> bool:
    """Return whether a message holds one value that may be null: a column has that."""
    return message.full_name in _WRAPPERS


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def message_column(
    message: Descriptor, chosen: Sequence[str] | None = None, path: str = ""
) -> Column:
    """Return the column of a message, or of some fields of it in this order.

    Raises SchemaError, which names the field, for messages that contain themselves.
    """
    return _struct(message, chosen, path, ())


def _struct(
    message: Descriptor, chosen: Sequence[str] | None, path: str, above: tuple[str, ...]
) -> Column:
    if message.full_name in above:
        raise SchemaError(
            f"the message {message.full_name} contains itself, no column can hold it", path=path
        )
    fields = list(message.fields)
    if chosen is not None:
        fields = [message.fields_by_name[name] for name in chosen]
    inside = (*above, message.full_name)
    made = [_field(one, inner_path(path, one.name), inside) for one in fields]
    arrow = [
        pa.field(one.name, column.kind, nullable=one.has_presence and not _has_default(one))
        for one, (_, column) in zip(fields, made, strict=True)
    ]
    kind = pa.struct(arrow)
    nothing = GetMessageClass(message)()

    def build(values: Sequence[object]) -> pa.Array:
        there = [one is not None for one in values]
        if not made:
            return pa.array([{} if one else None for one in there], kind)
        messages = values if all(there) else [nothing if one is None else one for one in values]
        arrays = [column.build(get(messages)) for get, column in made]
        mask = None if messages is values else pa.array([not one for one in there], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=arrow, mask=mask)

    return Column(kind, build)


Get = Callable[[Sequence[object]], Sequence[object]]
"""Returns a field's values of messages."""


def _field(field: FieldDescriptor, path: str, above: tuple[str, ...]) -> tuple[Get, Column]:
    name = field.name
    plain = attrgetter(name)
    if is_map(field):
        return lambda messages: list(map(plain, messages)), _map(field, path, above)
    if field.is_repeated:
        element = _value(field, inner_path(path, "element"), above)
        return lambda messages: list(map(plain, messages)), _list(element)
    column = _value(field, path, above)
    if not field.has_presence or _has_default(field):
        return lambda messages: list(map(plain, messages)), column

    def get(messages: Sequence[object]) -> Sequence[object]:
        return [plain(one) if one.HasField(name) else None for one in messages]  # type: ignore[attr-defined]  # messages

    return get, column


def _has_default(field: FieldDescriptor) -> bool:
    """Return whether a field says itself what it is where it is absent (proto2)."""
    return bool(field.has_default_value) and field.message_type is None


def _value(field: FieldDescriptor, path: str, above: tuple[str, ...]) -> Column:
    """Return the column of one value of a field."""
    if field.enum_type is not None:
        return _enum(field.enum_type)
    message = field.message_type
    if message is None:
        return _scalar(field)
    if is_wrapper(message):
        inner = _scalar(message.fields_by_name["value"])
        return _mapped(inner.kind, lambda one: one.value, inner.build)  # type: ignore[attr-defined]  # a wrapper
    if is_json(message):
        return _mapped(pa.string(), _json_text)
    if message.full_name == TIMESTAMP:
        return _mapped(pa.timestamp("us", tz="UTC"), _timestamp_us)
    if message.full_name == DURATION:
        return _mapped(pa.duration("us"), _duration_us)
    return _struct(message, None, path, above)


def _scalar(field: FieldDescriptor) -> Column:
    kind = _SCALARS[field.type]
    if kind == UINT64:
        return Column(kind, lambda values: pa.array(values, pa.uint64()).cast(UINT64))
    return Column(kind, lambda values: pa.array(values, kind))


def _mapped(
    kind: pa.DataType, convert: Callable[[object], object], build: Build | None = None
) -> Column:
    def made(values: Sequence[object]) -> pa.Array:
        found = [None if one is None else convert(one) for one in values]
        return pa.array(found, kind) if build is None else build(found)

    return Column(kind, made)


def _enum(enum: EnumDescriptor) -> Column:
    """Return the column of an enum's names; a number that has none is written as it is."""
    names = {number: one.name for number, one in enum.values_by_number.items()}

    def build(values: Sequence[object]) -> pa.Array:
        try:
            return pa.array([names[one] for one in values], pa.string())
        except KeyError:
            found = [None if one is None else names.get(one, str(one)) for one in values]
            return pa.array(found, pa.string())

    return Column(pa.string(), build)


def _offsets(values: Iterable[object]) -> pa.Array:
    return pa.array([0, *accumulate(map(len, values))], pa.int32())  # type: ignore[arg-type]  # containers


def _list(element: Column) -> Column:
    kind = pa.list_(pa.field("element", element.kind, nullable=False))

    def build(values: Sequence[object]) -> pa.Array:
        inner = element.build(list(chain.from_iterable(values)))  # type: ignore[arg-type]  # containers
        return pa.ListArray.from_arrays(_offsets(values), inner, type=kind)

    return Column(kind, build)


def _map(field: FieldDescriptor, path: str, above: tuple[str, ...]) -> Column:
    """Return the column of a map, its entries in the order of their keys."""
    entry = field.message_type
    key = _scalar(entry.fields_by_name["key"])
    value = _value(entry.fields_by_name["value"], inner_path(path, "value"), above)
    kind = pa.map_(key.kind, pa.field("value", value.kind, nullable=False))

    def build(values: Sequence[object]) -> pa.Array:
        keys = [sorted(one) for one in values]  # type: ignore[call-overload]  # containers
        inner = [
            held[one]  # type: ignore[index]  # containers
            for held, listed in zip(values, keys, strict=True)
            for one in listed
        ]
        names = key.build(list(chain.from_iterable(keys)))
        return pa.MapArray.from_arrays(_offsets(keys), names, value.build(inner), type=kind)

    return Column(kind, build)


def _json_text(value: object) -> object:
    assert isinstance(value, Message)
    try:
        found = json_format.MessageToDict(value)
        return json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (json_format.Error, ValueError) as error:
        raise ValueFault(f"a value has no JSON: {error}") from None


def _timestamp_us(value: object) -> object:
    seconds, nanos = value.seconds, value.nanos  # type: ignore[attr-defined]  # a Timestamp
    if not MIN_SECONDS <= seconds <= MAX_SECONDS or not 0 <= nanos < 10**9:
        raise ValueFault(f"{seconds} seconds and {nanos} nanoseconds are no time")
    return seconds * 1_000_000 + nanos // 1_000


def _duration_us(value: object) -> object:
    seconds, nanos = value.seconds, value.nanos  # type: ignore[attr-defined]  # a Duration
    if abs(seconds) > MAX_DURATION or abs(nanos) >= 10**9 or seconds * nanos < 0:
        raise ValueFault(f"{seconds} seconds and {nanos} nanoseconds are no duration")
    whole = abs(seconds) * 1_000_000 + abs(nanos) // 1_000
    return -whole if seconds < 0 or nanos < 0 else whole
