"""Arrow columns to the values that `writing` makes messages of.

A column's fields are found by their names. What the message has no room for raises SchemaError,
which names the field; a field that the column does not have is absent in all messages.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from parley.errors import SchemaError, nearest_hint
from parley.serdes.faults import inner_path
from parley.serdes.protobuf.columns import DURATION, TIMESTAMP, is_json, is_map, is_wrapper

Values = Callable[[pa.Array], list[object]]
"""Returns a value for each row, None for null."""
Is = Callable[[pa.DataType], bool]

_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def compile_column(kind: pa.DataType, message: Descriptor) -> Values:
    """Return what makes values of a column for a message. Raises SchemaError."""
    return _message(kind, message, "")


def _message(kind: pa.DataType, message: Descriptor, path: str) -> Values:
    if isinstance(kind, pa.BaseExtensionType):
        inner = _message(kind.storage_type, message, path)
        return lambda array: inner(array.storage)
    full_name = message.full_name
    if full_name == TIMESTAMP:
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            raise _wrong(kind, full_name, path)
        return _moments(kind.unit, _timestamp)
    if full_name == DURATION:
        if not pa.types.is_duration(kind):
            raise _wrong(kind, full_name, path)
        return _moments(kind.unit, _duration)
    if is_wrapper(message):
        return _scalar(kind, message.fields_by_name["value"], path)
    if is_json(message):
        return _checked(kind, is_text, full_name, path)
    if not pa.types.is_struct(kind):
        raise _wrong(kind, full_name, path)
    parts: list[tuple[str, int, Values]] = []
    for index, one in enumerate(kind):
        inside = inner_path(path, one.name)
        field = message.fields_by_name.get(one.name)
        if field is None:
            hint = nearest_hint(one.name, message.fields_by_name)
            raise SchemaError(f"{full_name} has no such field.{hint}", path=inside)
        if pa.types.is_null(one.type):
            continue
        parts.append((one.name, index, _field(one.type, field, inside)))
    _require(message, {name for name, _, _ in parts}, path)
    return _rows(parts)


def _require(message: Descriptor, given: set[str], path: str) -> None:
    for one in message.fields:
        if one.is_required and one.name not in given:
            raise SchemaError(
                "the column has no such field, which is required", path=inner_path(path, one.name)
            )


def _rows(parts: list[tuple[str, int, Values]]) -> Values:
    names = [name for name, _, _ in parts]

    def values(array: pa.Array) -> list[object]:
        columns = [made(array.field(index)) for _, index, made in parts]
        rows: list[object] = [
            dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
        ]
        if not columns:
            rows = [{} for _ in range(len(array))]
        return _with_nulls(rows, array)

    return values


def _field(kind: pa.DataType, field: FieldDescriptor, path: str) -> Values:
    if is_map(field):
        return _map(kind, field, path)
    if field.is_repeated:
        if not _is_list(kind):
            raise _wrong(kind, "a repeated field", path)
        inner = _one(kind.value_type, field, inner_path(path, "element"))
        return _lists(inner)
    return _one(kind, field, path)


def _one(kind: pa.DataType, field: FieldDescriptor, path: str) -> Values:
    if field.message_type is not None:
        return _message(kind, field.message_type, path)
    return _scalar(kind, field, path)


def _lists(inner: Values) -> Values:
    def values(array: pa.Array) -> list[object]:
        if not isinstance(array, pa.ListArray):
            array = array.cast(pa.list_(array.type.value_type))
        flat, ends = inner(array.flatten()), _ends(array)
        return _with_nulls([flat[start:end] for start, end in ends], array)

    return values


def _map(kind: pa.DataType, field: FieldDescriptor, path: str) -> Values:
    if not pa.types.is_map(kind):
        raise _wrong(kind, "a map", path)
    entry = field.message_type
    key = _scalar(kind.key_type, entry.fields_by_name["key"], inner_path(path, "key"))
    value = _one(kind.item_type, entry.fields_by_name["value"], inner_path(path, "value"))

    def values(array: pa.Array) -> list[object]:
        plain = array.cast(
            pa.list_(pa.struct([pa.field("key", kind.key_type, nullable=False),
                                pa.field("value", kind.item_type)]))
        )  # fmt: skip
        entries, ends = plain.flatten(), _ends(plain)
        keys, items = key(entries.field(0)), value(entries.field(1))
        pairs = list(zip(keys, items, strict=True))
        return _with_nulls([pairs[start:end] for start, end in ends], array)

    return values


def _ends(array: pa.Array) -> list[tuple[int, int]]:
    """Return where each row's items are among all that are not below a null."""
    found, start = [], 0
    for length in array.value_lengths().to_pylist():
        found.append((start, start + (length or 0)))
        start += length or 0
    return found


def _scalar(kind: pa.DataType, field: FieldDescriptor, path: str) -> Values:
    if pa.types.is_dictionary(kind):
        inner = _scalar(kind.value_type, field, path)
        return lambda array: inner(array.dictionary_decode())
    if field.enum_type is not None:
        return _checked(
            kind,
            lambda one: is_text(one) or pa.types.is_integer(one),
            field.enum_type.full_name,
            path,
        )
    fits, named = _FITS[field.cpp_type]
    if field.type == FieldDescriptor.TYPE_BYTES:
        fits, named = is_bytes, "bytes"
    if pa.types.is_decimal(kind) and kind.scale == 0 and fits is pa.types.is_integer:
        return _decimals
    return _checked(kind, fits, named, path)


def _decimals(array: pa.Array) -> list[object]:
    found = array.to_pylist()
    return [int(one) if isinstance(one, Decimal) else one for one in found]


def _checked(kind: pa.DataType, fits: Is, named: str, path: str) -> Values:
    if not fits(kind):
        raise _wrong(kind, named, path)
    return lambda array: list(array.to_pylist())


def _moments(unit: str, made: Callable[[int], dict[str, int]]) -> Values:
    scale = _NANOS[unit]

    def values(array: pa.Array) -> list[object]:
        numbers = array.view(pa.int64()).to_pylist()
        return [None if one is None else made(one * scale) for one in numbers]

    return values


def _timestamp(nanos: int) -> dict[str, int]:
    return {"seconds": nanos // 10**9, "nanos": nanos % 10**9}


def _duration(nanos: int) -> dict[str, int]:
    """Return seconds and nanoseconds of one sign."""
    seconds, rest = divmod(abs(nanos), 10**9)
    return (
        {"seconds": seconds, "nanos": rest} if nanos >= 0 else {"seconds": -seconds, "nanos": -rest}
    )


def _with_nulls(rows: list[object], array: pa.Array) -> list[object]:
    if array.null_count:
        for row, there in enumerate(array.is_valid().to_pylist()):
            if not there:
                rows[row] = None
    return rows


def _wrong(kind: pa.DataType, wanted: str, path: str) -> SchemaError:
    return SchemaError(
        f"a column of {kind} cannot be written where the schema has {wanted}; cast it", path=path
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds texts."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether a column holds bytes."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _is_short_number(kind: pa.DataType) -> bool:
    """Whether a float can hold it: a double would be rounded."""
    return _is_number(kind) and not pa.types.is_float64(kind)


_FITS: dict[int, tuple[Is, str]] = {
    FieldDescriptor.CPPTYPE_INT32: (pa.types.is_integer, "int32"),
    FieldDescriptor.CPPTYPE_INT64: (pa.types.is_integer, "int64"),
    FieldDescriptor.CPPTYPE_UINT32: (pa.types.is_integer, "uint32"),
    FieldDescriptor.CPPTYPE_UINT64: (pa.types.is_integer, "uint64"),
    FieldDescriptor.CPPTYPE_DOUBLE: (_is_number, "double"),
    FieldDescriptor.CPPTYPE_FLOAT: (_is_short_number, "float"),
    FieldDescriptor.CPPTYPE_BOOL: (pa.types.is_boolean, "bool"),
    FieldDescriptor.CPPTYPE_STRING: (is_text, "string"),
}
