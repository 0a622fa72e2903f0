"""The compiled encoder of Avro against the reference: equal messages, or the reference's words."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from parley.errors import SchemaEncodeError
from parley.serdes import ColumnEncoder, SchemaId, framing, native
from parley.serdes.avro import parse_schema
from parley.serdes.avro.columns import arrow_type
from parley.serdes.avro.format import AvroFormat
from parley.serdes.avro.native_writing import writing_of
from parley.serdes.avro.reference import ReferenceDecoder
from parley.types import Json

from .avro_cases import records, values
from .test_avro_decoder import EVERY_TYPE, encoded, schema

pytestmark = pytest.mark.skipif(
    native.why_reference is not None, reason=f"no compiled encoder: {native.why_reference}"
)
PREFIX = b"\0\0\0\0\7"


def hold(described: Json, array: pa.Array, *, compiled: bool | None = True) -> None:
    """Hold the compiled encoder to the reference, for a column and for parts of it.

    `compiled` says whether it writes the column, None that it may.
    """
    made = AvroFormat(schema(described))
    for part in (array, array.slice(1), array.slice(2, 3), array.slice(0, 0)):
        found = made.encode_messages(part, PREFIX)
        assert compiled is None or (found is not None) is compiled
        if found is None:
            continue
        found.validate(full=True)
        rows = made.encode_column(part)
        assert found.to_pylist() == [None if one is None else PREFIX + one for one in rows]


@settings(max_examples=30)
@given(data=st.data(), described=records())
def test_random_schemas_and_columns(data: st.DataObject, described: Json) -> None:
    parsed = parse_schema(json.dumps(described))
    rows = data.draw(st.lists(values(parsed), min_size=1, max_size=5))
    reader = ReferenceDecoder(parsed, parsed)
    array = reader.decode([encoded(described, one) for one in rows]).array
    nulls = pa.nulls(1, array.type)
    hold(described, pa.concat_arrays([array, nulls, array]), compiled=None)


PLAIN = [
    name for name in EVERY_TYPE if name not in ("wide", "real", "mixed", "span", "big", "id16")
]


def test_every_type_that_lies_as_avro_has_it_is_compiled() -> None:
    fields: list[Json] = [{"name": name, "type": EVERY_TYPE[name][0]} for name in PLAIN]
    described: Json = {"type": "record", "name": "All", "fields": fields}
    kind = pa.struct([(name, EVERY_TYPE[name][2]) for name in PLAIN])
    row = {name: EVERY_TYPE[name][3] for name in PLAIN}
    hold(described, pa.array([row, None, row, row, None, row], kind))
    hold(described, pa.array([None, row, row, row], kind).take(pa.array([3, 0, 1, 2, 2])))


def test_what_lies_otherwise_is_left_to_the_reference_when_types_are_compared() -> None:
    for name in ("wide", "real", "mixed", "span", "big", "id16"):
        assert (
            writing_of(EVERY_TYPE[name][2], parse_schema(json.dumps(EVERY_TYPE[name][0]))) is None
        )
    for kind in (pa.uint8(), pa.dictionary(pa.int8(), pa.int32())):
        assert writing_of(kind, parse_schema('"int"')) is None
    assert writing_of(pa.int32(), parse_schema('"double"')) is None


ENDS: list[tuple[Json, pa.Array, int]] = [
    ("int", pa.array([0, 2**31 - 1, -(2**31)], pa.int64()), 3),
    ("int", pa.array([0, 2**31]), 1),
    ("long", pa.array([2**63 - 1, -(2**63), -1, 63, 64, -64, -65]), 7),
    ("long", pa.array([-128, 127], pa.int8()), 2),
    ({"type": "long", "logicalType": "timestamp-millis"},
     pa.array([0, -1_000, 10**15], pa.timestamp("us", "UTC")), 3),
    ({"type": "long", "logicalType": "timestamp-millis"},
     pa.array([0, -1], pa.timestamp("us", "UTC")), 1),
    ({"type": "int", "logicalType": "date"},
     pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]), 2),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.array(["B", "A"]), 2),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.array(["B", "C"]), 1),
    ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"ab", b"abc"]), 1),
    ({"type": "array", "items": "int"}, pa.array([[1], [None]], pa.list_(pa.int32())), 1),
    ("string", pa.array(["ä" * 100, ""], pa.large_string()), 2),
]  # fmt: skip
"""Schema, column, and its first row that does not fit."""


@pytest.mark.parametrize(("described", "array", "fits"), ENDS)
def test_values_at_the_ends_of_what_fits(described: Json, array: pa.Array, fits: int) -> None:
    encoder = ColumnEncoder(None, schema=schema(described), framing="none")
    hold(described, array.slice(0, fits))
    assert writing_of(array.type, parse_schema(json.dumps(described))) is not None
    if fits == len(array):
        assert len(encoder.encode_values(array).array) == fits
        return
    with pytest.raises(SchemaEncodeError) as caught:
        encoder.encode_values(array)
    # where Arrow casts a column as a whole, it does not say which row
    assert caught.value.row in (None, fits)


@pytest.mark.parametrize("kind", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 16}])
@pytest.mark.parametrize("precision", [1, 18, 38])
def test_decimals_of_every_length(kind: dict[str, Json], precision: int) -> None:
    described: Json = {**kind, "logicalType": "decimal", "precision": precision, "scale": 1}
    powers = [2**bit + step for bit in range(126) for step in (-1, 0, 1)]
    known = [one for power in powers for one in (power, -power) if abs(one) < 10**precision]
    unscaled = [Decimal(one).scaleb(-1) for one in known]
    hold(described, pa.array(unscaled, pa.decimal128(precision, 1)))


def test_framings_put_their_names_before_and_beside() -> None:
    array = pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))
    described: Json = {"type": "record", "name": "R", "fields": [
        {"name": "x", "type": "int"}, {"name": "y", "type": ["string", "null"]},
        {"name": "z", "type": "long", "default": 5}]}  # fmt: skip
    encoder = ColumnEncoder(None, schema=schema(described), ref=SchemaId(7))
    found = encoder.encode_values(array).array.to_pylist()
    assert found == [framing("confluent").write(b"\2\2\n", SchemaId(7)).value, None]


def test_the_type_of_a_column_decides_alone() -> None:
    assert arrow_type(parse_schema('"int"')) == pa.int32()
    twice = AvroFormat(schema("int"))
    for number in (1, 2):
        assert twice.encode_messages(pa.array([number], pa.int32()), b"").to_pylist() == [
            bytes([2 * number])
        ]
    assert twice.encode_messages(pa.array([1], pa.int64()), b"").to_pylist() == [b"\2"]
