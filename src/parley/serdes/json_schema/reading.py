"""JSON texts to values, and values to what columns hold.

Foreign bytes raise DatumFault and nothing else. Properties that are missing become null, those that
the schema does not name are passed over; a value of another type is a fault, with its place.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from parley.serdes.faults import DatumFault, ValueFault, each_item, wrong_value
from parley.serdes.formats import DecodedGroup
from parley.serdes.frames import Buffer
from parley.serdes.json_schema.numbers import Exact, Written, dumps, loads, plain
from parley.serdes.json_schema.shapes import Kind, Shape, arrow_type
from parley.types import shown

Convert = Callable[[Exact], object]

MAX_FLOAT32 = 3.4028234663852886e38
MAX_FLOAT64 = 1.7976931348623157e308
_BELOW_MICROSECONDS = re.compile(r"(\.\d{6})\d+")
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_DATE_TEXT = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def read_json(data: Buffer, *, exact: bool = False) -> Exact:
    """Return the value of a JSON text in UTF-8, with `exact` numbers as they are written.

    Raises DatumFault for other bytes.
    """
    try:
        return loads(bytes(data).decode(), exact=exact)
    except UnicodeDecodeError as error:
        raise DatumFault(f"it is not UTF-8 ({error.reason}) at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise DatumFault(f"it is no JSON: {error.msg} at character {error.pos}") from error
    except RecursionError:
        raise DatumFault("it is nested too deep") from None
    except ValueError as error:
        raise DatumFault(f"it is no JSON: {error}") from error


class JsonGroupDecoder:
    """A `GroupDecoder`: whatever schema data were written with, they say what they are."""

    def __init__(self, shape: Shape) -> None:
        self._type = arrow_type(shape)
        self._convert = compile_reader(shape)
        # a float has too few digits for whole numbers such as 9007199254740993.0
        self._exact = shape.has(Kind.ANY, Kind.INTEGER)

    def decode(self, datums: Sequence[Buffer]) -> DecodedGroup:
        """Return columns of all datums."""
        values: list[object] = []
        faults: dict[int, str] = {}
        for index, datum in enumerate(datums):
            try:
                values.append(self._convert(read_json(datum, exact=self._exact)))
            except (DatumFault, ValueFault) as error:
                faults[index] = str(error)
                values.append(None)
            except RecursionError:
                faults[index] = "it is nested too deep"
                values.append(None)
        return DecodedGroup(pa.array(values, self._type), faults)


def compile_reader(shape: Shape) -> Convert:
    """Return what makes a column's value of a JSON value. It raises ValueFault."""
    convert = _converter(shape)
    return lambda value: None if value is None else convert(value)


def _converter(shape: Shape) -> Convert:
    if shape.kind is Kind.OBJECT:
        return _object(shape)
    if shape.kind is Kind.INTEGER:
        return _integer(shape.bits)
    if shape.kind is Kind.NUMBER:
        return _number(shape.bits)
    if shape.items is not None:
        inner = compile_reader(shape.items)
        return _array(inner) if shape.kind is Kind.ARRAY else _map(inner)
    return _SCALARS[shape.kind]


def _object(shape: Shape) -> Convert:
    fields = [(name, compile_reader(one)) for name, one in shape.fields.items()]

    def convert(value: Exact) -> object:
        if not isinstance(value, dict):
            raise wrong(value, shape.kind)
        found: dict[str, object] = {}
        for name, make in fields:
            try:
                found[name] = make(value.get(name))
            except ValueFault as fault:
                raise fault.within(name) from None
        return found

    return convert


def _array(inner: Convert) -> Convert:
    def convert(value: Exact) -> object:
        if not isinstance(value, list):
            raise wrong(value, Kind.ARRAY)
        return each_item(value, inner)

    return convert


def _map(inner: Convert) -> Convert:
    def convert(value: Exact) -> object:
        if not isinstance(value, dict):
            raise wrong(value, Kind.MAP)
        found: list[tuple[str, object]] = []
        for key, one in value.items():
            try:
                found.append((_text(key), inner(one)))
            except ValueFault as fault:
                raise fault.within(f"[{key!r}]") from None
        return found

    return convert


def _integer(bits: int) -> Convert:
    limit = 2 ** (bits - 1)

    def convert(given: Exact) -> object:
        value = given.whole if isinstance(given, Written) else given
        if isinstance(value, bool) or not isinstance(value, int):
            raise _not_whole(given)
        if not -limit <= value < limit:
            raise ValueFault(f"{shown(value)} does not fit {bits} bits")
        return value

    return convert


def _not_whole(given: Exact) -> ValueFault:
    value, wanted = plain(given), Kind.INTEGER.value
    if isinstance(value, float) and value.is_integer():
        return ValueFault(f"a number that only rounds to {value} is given where {wanted} is wanted")
    return wrong_value(value, wanted)


def _number(bits: int) -> Convert:
    largest = MAX_FLOAT32 if bits == 32 else MAX_FLOAT64

    def convert(given: Exact) -> object:
        value = plain(given)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong(value, Kind.NUMBER)
        if not -largest <= value <= largest:
            raise ValueFault(f"the number does not fit {bits} bits")
        return float(value)

    return convert


def _text(value: Exact) -> str:
    if not isinstance(value, str):
        raise wrong(value, Kind.TEXT)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueFault("a string has half a surrogate pair") from None
    return value


def _any(value: Exact) -> object:
    return _text(dumps(value))


def _bytes(value: Exact) -> object:
    try:
        return binascii.a2b_base64(_text(value), strict_mode=True)
    except ValueError as error:
        raise ValueFault(f"a string is not base64: {error}") from None


def _boolean(value: Exact) -> object:
    if not isinstance(value, bool):
        raise wrong(value, Kind.BOOLEAN)
    return value


def _null(value: Exact) -> object:
    raise wrong(value, Kind.NULL)


def _date(value: Exact) -> object:
    if not isinstance(value, str) or not _DATE_TEXT.fullmatch(value):
        raise wrong(value, Kind.DATE)
    return _moment(value, pa.date32(), Kind.DATE)


def _timestamp(value: Exact) -> object:
    if not isinstance(value, str):
        raise wrong(value, Kind.TIMESTAMP)
    return _moment(_BELOW_MICROSECONDS.sub(r"\1", value), _TIMESTAMP, Kind.TIMESTAMP)


def _moment(text: str, wanted: pa.DataType, kind: Kind) -> object:
    try:
        return pa.scalar(text).cast(wanted).value
    except (pa.ArrowException, ValueError):
        raise wrong(text, kind) from None


def wrong(value: object, kind: Kind) -> ValueFault:
    """Return the fault of a value of another kind."""
    return wrong_value(plain(value), kind.value)


_SCALARS: dict[Kind, Convert] = {
    Kind.TEXT: _text,
    Kind.BYTES: _bytes,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.BOOLEAN: _boolean,
    Kind.NULL: _null,
    Kind.ANY: _any,
}
