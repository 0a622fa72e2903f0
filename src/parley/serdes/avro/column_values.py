"""Arrow columns to the values that `writing` takes.

`compile_column` compares a column's type with a schema once, and returns what makes a list of
values of an array: times become numbers in the schema's unit, records dicts, maps pairs. Types that
the schema has no room for raise SchemaError, which names the field; so do values that a narrower
type cannot hold (ValueFault).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from parley.errors import SchemaError, nearest_hint
from parley.serdes.avro.logical import time_type
from parley.serdes.avro.model import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from parley.serdes.avro.unions import UnionShape, members, union_shape
from parley.serdes.avro.writing import Chosen
from parley.serdes.faults import ValueFault, inner_path

Values = Callable[[pa.Array], list[object]]
Is = Callable[[pa.DataType], bool]


def compile_column(kind: pa.DataType, schema: AvroType) -> Values:
    """Return what makes values of a column. Raises SchemaError for a type that does not fit."""
    return _column(kind, schema, "")


def _column(kind: pa.DataType, schema: AvroType, path: str) -> Values:
    if pa.types.is_dictionary(kind):
        inner = _column(kind.value_type, schema, path)
        return lambda array: inner(array.dictionary_decode())
    if isinstance(kind, pa.BaseExtensionType):
        inner = _column(kind.storage_type, schema, path)
        return lambda array: inner(array.storage)
    if pa.types.is_null(kind):
        return lambda array: [None] * len(array)
    if isinstance(schema, Union):
        return _union(kind, schema, path)
    if isinstance(schema, Record):
        return _record(kind, schema, path)
    if isinstance(schema, Array):
        return _list(kind, schema, path)
    if isinstance(schema, Map):
        return _map(kind, schema, path)
    return _leaf(kind, schema, path)


def _record(kind: pa.DataType, record: Record, path: str) -> Values:
    if not pa.types.is_struct(kind):
        raise _wrong(kind, f"the record {record.name}", path)
    fields = {one.name: one for one in record.fields}
    columns: list[tuple[str, Values]] = []
    for one in kind:
        inner = inner_path(path, one.name)
        if one.name not in fields:
            hint = nearest_hint(one.name, fields)
            raise SchemaError(f"the schema's {record.name} has no such field.{hint}", path=inner)
        columns.append((one.name, _column(one.type, fields[one.name].type, inner)))
    given = {name for name, _ in columns}
    if len(given) < len(columns):
        raise SchemaError(f"the column has a field twice: {kind}", path=path)
    for name, field in fields.items():
        optional = field.has_default or _nullable(field.type)
        if name not in given and not optional:
            raise SchemaError(
                "the column has no such field, and the schema no default",
                path=inner_path(path, name),
            )

    def values(array: pa.Array) -> list[object]:
        names = [name for name, _ in columns]
        # `flatten`: below a null struct its fields may hold anything
        children = [
            _named(make, child, name)
            for (name, make), child in zip(columns, array.flatten(), strict=True)
        ]
        rows: list[object]
        if children:
            rows = [dict(zip(names, row, strict=True)) for row in zip(*children, strict=True)]
        else:
            rows = [{} for _ in range(len(array))]
        return _with_nulls(rows, array)

    return values


def _named(make: Values, array: pa.Array, name: str) -> list[object]:
    try:
        return make(array)
    except ValueFault as fault:
        raise fault.within(name) from None


def _list(kind: pa.DataType, schema: Array, path: str) -> Values:
    if not (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        raise _wrong(kind, "an array", path)
    items = _column(kind.value_type, schema.items, inner_path(path, "element"))

    def values(array: pa.Array) -> list[object]:
        found = items(array.flatten())
        rows: list[object] = []
        start = 0
        for length in pc.list_value_length(array).to_pylist():
            stop = start + (length or 0)
            rows.append(None if length is None else found[start:stop])
            start = stop
        return rows

    return values


def _map(kind: pa.DataType, schema: Map, path: str) -> Values:
    if not pa.types.is_map(kind) or not _is_text(kind.key_type):
        raise _wrong(kind, "a map of texts", path)
    of_item = _column(kind.item_type, schema.values, inner_path(path, "value"))

    def values(array: pa.Array) -> list[object]:
        offsets = array.offsets.to_pylist()
        first, last = offsets[0], offsets[-1]
        keys = array.keys.slice(first, last - first).to_pylist()
        items = of_item(array.items.slice(first, last - first))
        pairs = list(zip(keys, items, strict=True))
        rows: list[object] = [
            pairs[start - first : stop - first] for start, stop in pairwise(offsets)
        ]
        return _with_nulls(rows, array)

    return values


def _union(kind: pa.DataType, union: Union, path: str) -> Values:
    kept = members(union)
    if len(kept) == 1:
        return _column(kind, kept[0], path)
    if not kept:
        raise _wrong(kind, "null", path)
    named = {f"member{place}": union.branches.index(one) for place, one in enumerate(kept)}
    if (
        union_shape(union) is UnionShape.MEMBERS
        and pa.types.is_struct(kind)
        and {one.name for one in kind} <= named.keys()
    ):
        return _members(kind, union, named, path)
    whys = []
    # int last where it may be too narrow, float where another would be rounded
    narrow = [one for one in kept if one.kind == ("int" if _is_wide(kind) else "float")]
    for branch in sorted(kept, key=lambda one: one in narrow):
        index = union.branches.index(branch)
        try:
            make = _column(kind, branch, path)
        except SchemaError as error:
            whys.append(f"{branch.kind}: {error.problem}")
        else:
            return _chosen(make, index)
    raise SchemaError(
        f"a column of {kind} fits no branch of the union ({'; '.join(whys)})", path=path
    )


def _chosen(make: Values, index: int) -> Values:
    return lambda array: [None if one is None else Chosen(index, one) for one in make(array)]


def _members(kind: pa.DataType, union: Union, named: dict[str, int], path: str) -> Values:
    columns = [
        (one.name, named[one.name],
         _column(one.type, union.branches[named[one.name]], inner_path(path, one.name)))
        for one in kind
    ]  # fmt: skip

    def values(array: pa.Array) -> list[object]:
        rows: list[object] = [None] * len(array)
        for (name, index, make), child in zip(columns, array.flatten(), strict=True):
            for row, value in enumerate(_named(make, child, name)):
                if value is None:
                    continue
                if rows[row] is not None:
                    raise ValueFault("a union has two members, where one can be written", name)
                rows[row] = Chosen(index, value)
        return _with_nulls(rows, array)

    return values


def _leaf(kind: pa.DataType, schema: Primitive | Enum | Fixed, path: str) -> Values:
    logical = None if isinstance(schema, Enum) else schema.logical
    if logical is not None:
        return _logical(kind, schema, path)
    if isinstance(schema, Fixed):
        return _values_if(_is_bytes, kind, pa.large_binary(), f"{schema.size} bytes", path)
    if isinstance(schema, Enum):
        return _values_if(_is_text, kind, pa.large_string(), f"the enum {schema.name}", path)
    fits, wanted = _PRIMITIVES[schema.kind]
    return _values_if(fits, kind, wanted, schema.kind, path)


def _logical(kind: pa.DataType, schema: Primitive | Enum | Fixed, path: str) -> Values:
    assert not isinstance(schema, Enum)
    logical = schema.logical
    assert logical is not None
    unit = time_type(logical.name)
    if unit is not None:
        return _times(kind, unit, logical.name, path)
    if logical.name == "decimal":
        return _values_if(_is_decimal, kind, kind, "a decimal", path)
    if logical.name == "uuid":
        if isinstance(schema, Fixed) and _is_bytes(kind):
            return _values_if(_is_bytes, kind, pa.large_binary(), "a UUID", path)
        return _values_if(lambda one: _is_text(one) or one == pa.binary(16), kind, kind,
                          "a UUID", path)  # fmt: skip
    return _values_if(pa.types.is_interval, kind, kind, "a duration", path)


def _times(kind: pa.DataType, unit: pa.DataType, name: str, path: str) -> Values:
    if pa.types.is_timestamp(unit):
        fits = pa.types.is_timestamp(kind)
        if fits and (kind.tz is None) != (unit.tz is None):
            remedy = "has no time zone" if kind.tz is None else "has a time zone"
            raise SchemaError(
                f"a column of {kind} {remedy}, where the schema has {name}; cast it to {unit}",
                path=path,
            )
    else:
        same = pa.types.is_date if pa.types.is_date(unit) else pa.types.is_time
        fits = same(kind)
    if not fits:
        raise _wrong(kind, name, path)
    as_number = pa.int32() if unit.bit_width == 32 else pa.int64()
    return lambda array: _cast(array, unit).view(as_number).to_pylist()


def _values_if(fits: Is, kind: pa.DataType, wanted: pa.DataType, named: str, path: str) -> Values:
    if not fits(kind):
        raise _wrong(kind, named, path)
    return lambda array: _cast(array, wanted).to_pylist()


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    try:
        return array if array.type == wanted else array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise ValueFault(str(error)) from None


def _with_nulls(rows: list[object], array: pa.Array) -> list[object]:
    if array.null_count:
        for row, there in enumerate(array.is_valid().to_pylist()):
            if not there:
                rows[row] = None
    return rows


def _nullable(schema: AvroType) -> bool:
    return isinstance(schema, Union) and any(one.kind == "null" for one in schema.branches)


def _wrong(kind: pa.DataType, wanted: str, path: str) -> SchemaError:
    return SchemaError(
        f"a column of {kind} cannot be written where the schema has {wanted}; cast it", path=path
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _is_wide(kind: pa.DataType) -> bool:
    """Whether whole numbers may be too large for Avro's int."""
    return kind in (pa.int64(), pa.uint32(), pa.uint64())


def _is_short_number(kind: pa.DataType) -> bool:
    """Whether a float can hold it: a double would be rounded."""
    return _is_number(kind) and not pa.types.is_float64(kind)


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind))


_PRIMITIVES: dict[str, tuple[Is, pa.DataType]] = {
    "null": (pa.types.is_null, pa.null()),
    "boolean": (pa.types.is_boolean, pa.bool_()),
    "int": (pa.types.is_integer, pa.int32()),
    "long": (pa.types.is_integer, pa.int64()),
    "float": (_is_short_number, pa.float32()),
    "double": (_is_number, pa.float64()),
    "bytes": (_is_bytes, pa.large_binary()),
    "string": (_is_text, pa.large_string()),
}
"""Kind -> which columns can be written, and as what."""
