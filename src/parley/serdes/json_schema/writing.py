"""Values to JSON texts: those of programs, and rows of columns.

A property that a value lacks, or that is null in a column, is left out; where the schema requires
it, null is written if null is allowed, and is a fault otherwise.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from parley.errors import SchemaError, nearest_hint
from parley.serdes.faults import RowFault, ValueFault, each_item, inner_path
from parley.serdes.json_schema.derive import shape_of
from parley.serdes.json_schema.numbers import Exact, dumps, loads
from parley.serdes.json_schema.reading import MAX_FLOAT32, MAX_FLOAT64, wrong
from parley.serdes.json_schema.shapes import Kind, Shape

Convert = Callable[[object], Exact]

_NUMBERS = (Kind.INTEGER, Kind.NUMBER)


def json_text(value: Exact) -> bytes:
    """Return the text of a value. Raises ValueFault for what JSON has no text for."""
    try:
        return dumps(value).encode()
    except (TypeError, ValueError) as error:
        raise ValueFault(f"JSON cannot hold it: {error}") from None
    except RecursionError:
        raise ValueFault("the value is nested too deep") from None


def compile_writer(shape: Shape) -> Convert:
    """Return what makes the JSON value of a program's value. It raises ValueFault."""
    return _Writers(from_columns=False).writer(shape)


def compile_column(shape: Shape) -> Convert:
    """Return what makes the JSON value of one of `column_rows`, of the shape that `column_shape`
    returns.
    """
    return _Writers(from_columns=True).writer(shape)


def column_rows(array: pa.Array) -> list[object]:
    """Return a column's rows, as `to_pylist` has them. Raises RowFault for a time beyond it."""
    try:
        return list(array.to_pylist())
    except (OverflowError, ValueError):
        for row, one in enumerate(array):
            fault = _beyond_python(one)
            if fault is not None:
                raise RowFault(fault, row) from None
        raise


def _beyond_python(value: pa.Scalar) -> ValueFault | None:
    """Return what is wrong with a value that Python has none for; None where it has one."""
    try:
        value.as_py()
    except (OverflowError, ValueError) as error:
        for name, one in _inside(value):
            fault = _beyond_python(one)
            if fault is not None:
                return fault.within(name)
        return ValueFault(f"only dates and times of the years 1 to 9999 can be written: {error}")
    return None


def _inside(value: pa.Scalar) -> Iterator[tuple[str, pa.Scalar]]:
    kind = value.type
    if pa.types.is_struct(kind):
        yield from ((one.name, value[at]) for at, one in enumerate(kind))
    elif pa.types.is_map(kind):
        yield from ((f"[{one['key'].as_py()!r}]", one["value"]) for one in value.values)
    elif isinstance(value, pa.ListScalar):
        yield from ((f"[{at}]", one) for at, one in enumerate(value.values))


def column_shape(kind: pa.DataType, shape: Shape) -> Shape:
    """Return a schema's shape with the properties that a column of a type has.

    Raises SchemaError, which names the field, for a type that does not fit.
    """
    return _merged(kind, shape, "")


def _merged(kind: pa.DataType, shape: Shape, path: str) -> Shape:
    """Return a shape with the properties that a column has, and no others that are optional."""
    own = shape_of(kind, path)
    if shape.kind is Kind.ANY:
        return own if own.kind is not Kind.TEXT else shape
    if own.kind is Kind.NULL:
        return shape
    if own.kind is not shape.kind and not (own.kind in _NUMBERS and shape.kind is Kind.NUMBER):
        raise SchemaError(
            f"a column of {kind} cannot be written where the schema has {shape.kind.value}",
            path=path,
        )
    if shape.items is not None:
        inner = kind.item_type if shape.kind is Kind.MAP else kind.value_type
        name = "value" if shape.kind is Kind.MAP else "element"
        items = _merged(inner, shape.items, inner_path(path, name))
        return Shape(shape.kind, items=items, nullable=shape.nullable)
    if shape.kind is not Kind.OBJECT:
        return shape
    fields: dict[str, Shape] = {}
    for one in kind:
        field_path = inner_path(path, one.name)
        if one.name in shape.fields:
            fields[one.name] = _merged(one.type, shape.fields[one.name], field_path)
        elif shape.open:
            fields[one.name] = shape_of(one.type, field_path)
        else:
            hint = nearest_hint(one.name, shape.fields)
            raise SchemaError(f"the schema allows no such property.{hint}", path=field_path)
    for name in sorted(shape.required - fields.keys()):
        raise SchemaError("the column has no such property, which is required",
                          path=inner_path(path, name))  # fmt: skip
    return Shape(Kind.OBJECT, fields=fields, required=shape.required, nullable=shape.nullable)


class _Writers:
    """`from_columns`: maps are pairs, and what may be any JSON is the text of it."""

    def __init__(self, *, from_columns: bool) -> None:
        self._from_columns = from_columns

    def writer(self, shape: Shape) -> Convert:
        convert = self._converter(shape)
        return lambda value: None if value is None else convert(value)

    def _converter(self, shape: Shape) -> Convert:
        if shape.kind is Kind.OBJECT:
            return self._object(shape)
        if shape.kind is Kind.INTEGER:
            return _integer(shape.bits)
        if shape.kind is Kind.NUMBER:
            return _number(shape.bits)
        if shape.items is not None:
            inner = self.writer(shape.items)
            return _array(inner) if shape.kind is Kind.ARRAY else _map(inner)
        if shape.kind is Kind.ANY:
            return _parsed if self._from_columns else _as_it_is
        return _SCALARS[shape.kind]

    def _object(self, shape: Shape) -> Convert:
        writers = {name: self.writer(one) for name, one in shape.fields.items()}
        required = [name for name in shape.fields if name in shape.required]

        def convert(value: object) -> Exact:
            if not isinstance(value, Mapping):
                raise wrong(value, shape.kind)
            found: dict[str, Exact] = {}
            for name, one in value.items():
                if name not in writers and not shape.open:
                    hint = nearest_hint(str(name), writers)
                    raise ValueFault(f"the schema allows no such property.{hint}", str(name))
                try:
                    made = writers[name](one) if name in writers else _as_it_is(one)
                except ValueFault as fault:
                    raise fault.within(str(name)) from None
                if made is not None or not self._from_columns:
                    found[str(name)] = made
            for name in required:
                if found.get(name) is None:
                    _require_nullable(shape.fields[name], name)
                    found[name] = None
            return found

        return convert


def _require_nullable(shape: Shape, name: str) -> None:
    if not shape.nullable and shape.kind is not Kind.NULL:
        raise ValueFault("the property is required, and must not be null", name)


def _array(inner: Convert) -> Convert:
    def convert(value: object) -> Exact:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray):
            raise wrong(value, Kind.ARRAY)
        return each_item(value, inner)

    return convert


def _map(inner: Convert) -> Convert:
    """Return what writes a dict, or the pairs of one."""

    def convert(value: object) -> Exact:
        pairs = value.items() if isinstance(value, Mapping) else value
        if not isinstance(value, Mapping | list):
            raise wrong(value, Kind.MAP)
        found: dict[str, Exact] = {}
        for key, one in pairs:  # type: ignore[attr-defined]  # a dict's items, or a list
            try:
                found[str(key)] = inner(one)
            except ValueFault as fault:
                raise fault.within(f"[{key!r}]") from None
        return found

    return convert


def _integer(bits: int) -> Convert:
    limit = 2 ** (bits - 1)

    def convert(value: object) -> Exact:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise wrong(value, Kind.INTEGER)
        number = int(value.__index__())
        if bits < 64 and not -limit <= number < limit:
            raise ValueFault(f"{number} does not fit {bits} bits")
        return number

    return convert


def _number(bits: int) -> Convert:
    largest = MAX_FLOAT32 if bits == 32 else MAX_FLOAT64

    def convert(value: object) -> Exact:
        if isinstance(value, bool) or not hasattr(value, "__float__"):
            raise wrong(value, Kind.NUMBER)
        found: int | float = value if type(value) is int else float(value)
        if not -largest <= found <= largest:
            raise ValueFault(f"{found} does not fit {bits} bits")
        return found

    return convert


def _text(value: object) -> Exact:
    if not isinstance(value, str):
        raise wrong(value, Kind.TEXT)
    return value


def _bytes(value: object) -> Exact:
    if isinstance(value, bytes | bytearray | memoryview):
        return binascii.b2a_base64(bytes(value), newline=False).decode()
    raise wrong(value, Kind.BYTES)


def _boolean(value: object) -> Exact:
    if not isinstance(value, bool):
        raise wrong(value, Kind.BOOLEAN)
    return value


def _null(value: object) -> Exact:
    raise wrong(value, Kind.NULL)


def _date(value: object) -> Exact:
    if isinstance(value, str):
        return value
    if not hasattr(value, "isoformat") or hasattr(value, "hour"):
        raise wrong(value, Kind.DATE)
    return str(value.isoformat())


def _timestamp(value: object) -> Exact:
    if isinstance(value, str):
        return value
    if not hasattr(value, "isoformat") or not hasattr(value, "hour"):
        raise wrong(value, Kind.TIMESTAMP)
    if getattr(value, "tzinfo", None) is None:
        raise ValueFault(f"{value} has no time zone; give tzinfo=datetime.timezone.utc")
    return str(value.isoformat()).replace("+00:00", "Z")


def _as_it_is(value: object) -> Exact:
    json_text(value)  # type: ignore[arg-type]  # raises for what is no JSON
    return value  # type: ignore[return-value]


def _parsed(value: object) -> Exact:
    try:
        return loads(str(value), exact=True)
    except (ValueError, RecursionError) as error:
        raise ValueFault(f"a text is no JSON: {error}") from None


_SCALARS: dict[Kind, Convert] = {
    Kind.TEXT: _text,
    Kind.BYTES: _bytes,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.BOOLEAN: _boolean,
    Kind.NULL: _null,
}
