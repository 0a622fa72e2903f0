"""Values and columns into Avro: fastavro reads the same back, for random schemas; every type."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import uuid
from contextlib import suppress
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from parley.errors import ConfigError, SchemaDecodeError, SchemaEncodeError, SchemaError
from parley.serdes import (
    ColumnDecoder,
    ColumnEncoder,
    Deserializer,
    GlueVersion,
    Schema,
    SchemaId,
    Serializer,
    derived_schema,
    framing,
)
from parley.serdes.avro import parse_schema
from parley.serdes.avro.reading import compile_reader
from parley.types import Json

from .avro_cases import evolved, records, schemas, values
from .test_avro_decoder import CITY, EVERY_TYPE, Source, binary, encoded, plain, same, schema

UTC = dt.UTC


def serializer(described: Json) -> Serializer:
    return Serializer(None, schema=schema(described), framing="none")


def deserializer(described: Json) -> Deserializer:
    return Deserializer(None, schema(described), framing="none")


def column_encoder(described: Json) -> ColumnEncoder:
    return ColumnEncoder(None, schema=schema(described), framing="none")


def read_back(described: Json, datum: bytes) -> object:
    stream = io.BytesIO(datum)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(described), None)
    assert not stream.read(), "nothing follows the datum"
    return found


@settings(max_examples=60)
@given(data=st.data(), described=schemas())
def test_fastavro_reads_every_value_that_is_encoded(data: st.DataObject, described: Json) -> None:
    parsed = parse_schema(json.dumps(described))
    value = data.draw(values(parsed).filter(lambda one: one is not None))
    datum = serializer(described)(value)
    assert datum is not None
    assert same(value, read_back(described, datum)) or value == read_back(described, datum)
    theirs = encoded(described, value)
    assert deserializer(described)(theirs) == read_back(described, theirs)


@settings(max_examples=20)
@given(data=st.data(), described=records())
def test_columns_come_back_as_they_were(data: st.DataObject, described: Json) -> None:
    rows = data.draw(st.lists(values(parse_schema(json.dumps(described))), max_size=4))
    given_rows = binary(*(encoded(described, row) for row in rows), None)
    decoder = ColumnDecoder(None, schema(described), framing="none")
    column = decoder.decode_values(given_rows).array
    start = data.draw(st.integers(0, len(rows)))
    part = column.slice(start)
    found = column_encoder(described).encode_values(part).array
    assert decoder.decode_values(found).array.equals(part)
    for row, datum in zip(rows[start:], found.to_pylist(), strict=False):
        assert same(plain(row), read_back(described, datum)) or row == read_back(described, datum)
    assert found[-1].as_py() is None


@settings(max_examples=30)
@given(data=st.data(), writer=records())
def test_single_values_are_resolved_as_fastavro_does(data: st.DataObject, writer: Json) -> None:
    reader = data.draw(evolved(writer))
    value = data.draw(values(parse_schema(json.dumps(writer))))
    datum = encoded(writer, value)
    read = Deserializer(Source({SchemaId(1): schema(writer)}), schema(reader))
    message = framing("confluent").write(datum, SchemaId(1)).value
    try:
        compile_reader(parse_schema(json.dumps(writer)), parse_schema(json.dumps(reader)))
    except SchemaError:
        assume(False)  # a type that was named in a field that is gone
    ours = read(message)
    theirs = fastavro.schemaless_reader(io.BytesIO(datum), writer, reader)
    assert same(ours, theirs) or ours == theirs


@settings(max_examples=30)
@given(data=st.data(), described=schemas(), noise=st.binary(max_size=12))
def test_damaged_messages_raise_one_error_alone(
    data: st.DataObject, described: Json, noise: bytes
) -> None:
    good = encoded(described, data.draw(values(parse_schema(json.dumps(described)))))
    cut = data.draw(st.integers(0, len(good)))
    read = Deserializer(Source({SchemaId(1): schema(described)}))
    for datum in (noise, good[:cut] + noise, good[cut:]):
        for message in (datum, b"\0\0\0\0\1" + datum, b"\0\0\0\0\2" + datum):
            # whatever else came out would fail the test
            with suppress(SchemaDecodeError):
                read(message)


ALL = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": name, "type": one[0]} for name, one in EVERY_TYPE.items() if name != "real"
    ],
}
"""Without the union of float and double: of which branch a value was, no column says."""


def test_every_type_as_columns_and_as_values() -> None:
    without = json.loads(json.dumps(ALL).replace("logicalType", "left"))
    datum = encoded(without, {one["name"]: EVERY_TYPE[one["name"]][1] for one in ALL["fields"]})
    decoder = ColumnDecoder(None, schema(ALL), framing="none")
    column = decoder.decode_values(binary(datum, datum, None, datum)).array
    assert column_encoder(ALL).encode_values(column).array.to_pylist() == [
        datum, datum, None, datum,
    ]  # fmt: skip
    value = deserializer(ALL)(datum)
    assert isinstance(value, dict)
    assert serializer(ALL)(value) == datum
    assert value["at_ms"] == dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert value["tags"] == {"x": 1, "y": None}
    assert value["mixed"] == 5
    assert value["price"] == Decimal("-5.00")


def test_values_of_programs_are_encoded_as_fastavro_encodes_them() -> None:
    described: Json = {
        "type": "record", "name": "R",
        "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                       "scale": 3}},
            {"name": "pet", "type": [
                {"type": "record", "name": "Cat", "fields": [{"name": "lives", "type": "int"}]},
                {"type": "record", "name": "Dog", "fields": [{"name": "tricks", "type": "int"}]},
            ]},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }  # fmt: skip
    moment = dt.datetime(2026, 11, 3, 4, 5, 6, 789_000, dt.timezone(dt.timedelta(hours=2)))
    value = {
        "day": dt.date(1969, 12, 1), "at": moment, "ms": moment, "clock": dt.time(1, 2, 3, 4),
        "id": uuid.UUID(int=7), "price": Decimal("-12.5"), "pet": {"tricks": 3},
    }  # fmt: skip
    assert serializer(described)(value) == encoded(described, value)
    named = {**value, "pet": ("Dog", {"tricks": 3})}
    assert serializer(described)(named) == encoded(described, value)
    back = deserializer(described)(encoded(described, value))
    assert back == {**value, "id": str(value["id"]), "note": None}


def city(**changed: object) -> dict[str, object]:
    return {"name": "Oslo", "people": 1, **changed}


NESTED: Json = {
    "type": "record", "name": "Trip",
    "fields": [{"name": "stops", "type": {"type": "array", "items": CITY}},
               {"name": "tags", "type": {"type": "map", "values": "int"}}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("described", "value", "path", "why"),
    [
        (CITY, city(people="1"), "people", "'1' (str) is given where long is wanted"),
        (CITY, city(people=True), "people", "where long is wanted"),
        (CITY, city(people=2**63), "people", "too large for long"),
        (CITY, city(people=None), "people", "null is given"),
        (CITY, {"name": "Oslo"}, "people", "missing, and has no default"),
        (CITY, city(peopel=1), "", "no field 'peopel' (str)"),
        (CITY, city(name="\ud800"), "name", "UTF-8"),
        (CITY, [], "", "where the record City is wanted"),
        (NESTED, {"stops": [city(), city(name=b"x")], "tags": {}}, "stops[1].name", "a text"),
        (NESTED, {"stops": [], "tags": {"a": 2**31}}, "tags['a']", "too large for int"),
        ("float", 1e39, "", "too large for float"),
        ("float", 2**24 + 1, "", "16777217 (int) would be rounded to 16777216, which float has"),
        ("double", -(2**53) - 1, "", "would be rounded to -9007199254740992, which double has"),
        ("double", 10**400, "", "too large for double"),
        (["null", "double"], 2**53 + 1, "", "would be rounded"),
        ({"type": "array", "items": ["int", "string"]}, [None], "[0]", "the union has no null"),
        (["int", "string"], 1.5, "", "fits no branch"),
        ({"type": "enum", "name": "E", "symbols": ["RED"]}, "RDE", "", 'Did you mean "RED"'),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc", "", "3 bytes, where F has 2"),
        ({"type": "int", "logicalType": "date"}, dt.datetime(2026, 1, 1), "", "a date or a whole"),
        ({"type": "long", "logicalType": "timestamp-millis"}, dt.datetime(2026, 1, 1), "",
         "has no time zone"),
        ({"type": "long", "logicalType": "timestamp-millis"},
         dt.datetime(2026, 1, 1, microsecond=1, tzinfo=UTC), "", "has microseconds"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
         Decimal("1.234"), "", "more than 2 digits behind"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
         Decimal("1e999999"), "", "more digits than precision 4"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
         Decimal("NaN"), "", "a Decimal is wanted"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, "x", "", "no UUID"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_place(
    described: Json, value: object, path: str, why: str
) -> None:
    with pytest.raises(SchemaEncodeError) as caught:
        serializer(described)(value)
    assert why in str(caught.value)
    assert caught.value.path == path
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.path) == (str(caught.value), path)


def test_a_column_names_field_and_row_of_what_does_not_fit() -> None:
    kind = pa.struct([("name", pa.string()), ("people", pa.int64())])
    rows = [city(), city(), city(people=None)]
    with pytest.raises(SchemaEncodeError, match=r"row 2 cannot be encoded at people: null"):
        column_encoder(CITY).encode_values(pa.array(rows, kind))
    small: Json = {**CITY, "fields": [CITY["fields"][0], {"name": "people", "type": "int"}]}
    with pytest.raises(SchemaEncodeError, match=r"people: Integer value 3000000000 not in range"):
        column_encoder(small).encode_values(pa.array([city(people=3_000_000_000)], kind))
    for changed, why in (
        (pa.struct([("name", pa.int32()), ("people", pa.int64())]), r"name: a column of int32"),
        (pa.struct([("name", pa.string())]), r"people: the column has no such field"),
        (pa.struct([*kind, ("peopel", pa.int64())]), r'peopel:.*Did you mean "people"'),
        (pa.string(), r"where the schema has the record City"),
    ):
        with pytest.raises(SchemaError, match=why):
            column_encoder(CITY).encode_values(pa.array([], changed))
    stamp: Json = {"type": "long", "logicalType": "timestamp-micros"}
    with pytest.raises(SchemaError, match=r"has no time zone.*cast it to timestamp\[us, tz=UTC\]"):
        column_encoder(stamp).encode_values(pa.array([0], pa.timestamp("us")))
    with pytest.raises(SchemaError, match="cast it"):
        column_encoder("float").encode_values(pa.array([0.1], pa.float64()))


DERIVED = pa.struct(
    [
        pa.field("key", pa.int64(), nullable=False),
        ("small", pa.int8()), ("wide", pa.uint32()), ("half", pa.float32()), ("real", pa.float64()),
        ("yes", pa.bool_()), ("text", pa.large_string()), ("raw", pa.large_binary()),
        ("colour", pa.dictionary(pa.int32(), pa.string())), ("id", pa.binary(16)),
        ("day", pa.date32()), ("clock", pa.time64("us")), ("at", pa.timestamp("us", tz="UTC")),
        ("there", pa.timestamp("ms", tz="Europe/Oslo")), ("naive", pa.timestamp("ns")),
        ("price", pa.decimal128(9, 2)), ("huge", pa.decimal256(60, 0)), ("mac", pa.binary(6)),
        ("items", pa.list_(pa.struct([("n", pa.int32())]))),
        ("pair", pa.list_(pa.float64(), 2)), ("tags", pa.map_(pa.string(), pa.int32())),
        ("inner", pa.struct([("inner", pa.struct([("x", pa.string())]))])),
        ("nothing", pa.null()), ("span", pa.month_day_nano_interval()),
    ]
)  # fmt: skip
"""A column of everything that Avro has a type for."""


def with_uuid(column: pa.StructArray, name: str) -> pa.StructArray:
    """Return structs with a field of 16 bytes as Arrow's extension type of UUIDs."""
    children = [
        pa.ExtensionArray.from_storage(pa.uuid(), child) if field.name == name else child
        for field, child in zip(column.type, column.flatten(), strict=True)
    ]
    fields = [
        pa.field(one.name, child.type, one.nullable)
        for one, child in zip(column.type, children, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())


def test_a_schema_is_derived_from_columns() -> None:
    moment = dt.datetime(2026, 11, 3, 4, 5, 6, 789_000, UTC)
    row = {
        "key": 1, "small": -3, "wide": 2**32 - 1, "half": 0.5, "real": 0.1, "yes": True,
        "text": "ü", "raw": b"\0", "colour": "red", "id": uuid.UUID(int=9).bytes,
        "day": moment.date(), "clock": moment.time(), "at": moment, "there": moment,
        "naive": moment.replace(tzinfo=None), "price": Decimal("-1.50"), "huge": Decimal(10) ** 59,
        "mac": b"abcdef", "items": [{"n": 1}, None], "pair": [1.0, 2.0], "tags": [("a", None)],
        "inner": {"inner": {"x": "y"}}, "nothing": None, "span": (1, 2, 3_000_000),
    }  # fmt: skip
    nulls = dict.fromkeys(row) | {"key": 2}
    column = with_uuid(pa.array([row, None, nulls], DERIVED), "id")
    derived = derived_schema(column.type, "shop.Order")
    fastavro.parse_schema(json.loads(derived.text))
    found = column_encoder(json.loads(derived.text)).encode_values(column)
    back = ColumnDecoder(None, derived, framing="none").decode_values(found.array).array
    shown = back.to_pylist()
    assert shown[1] is None
    assert shown[2] == nulls
    assert shown[0] == {
        **row, "id": str(uuid.UUID(int=9)), "span": pa.MonthDayNano([1, 2, 3_000_000]),
        "naive": back.field("naive")[0].as_py(),
    }  # fmt: skip
    naive = back.field("naive").cast(pa.timestamp("us"))[0].as_py()
    assert naive == row["naive"]
    alone = ColumnEncoder(None, schema=None, framing="none").encode_values(column)
    assert alone.array == found.array, "names do not matter"
    assert json.loads(derived.text)["name"] == "shop.Order"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (pa.struct([("a", pa.struct([("b", pa.uint64())]))]), r"a\.b:.*uint64.*cast it to int64"),
        (pa.struct([("t", pa.time64("ns"))]), r't:.*time64\("us"\)'),
        (pa.struct([("m", pa.map_(pa.int32(), pa.int32()))]), r"m: Avro has no type"),
        (pa.struct([("a b", pa.int32())]), r"'a b' .*rename the field"),
        (pa.duration("s"), r"Avro has no type for a column of duration"),
    ],
)
def test_what_avro_has_no_type_for_is_refused(kind: pa.DataType, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        derived_schema(kind)


def test_framings_and_their_headers() -> None:
    rows = pa.table({"key": ["a"], "value": pa.array([city()])})
    glue = ColumnEncoder(None, schema=schema(CITY), framing="glue", ref=GlueVersion(bytes(16)))
    assert glue.encode(rows).column("value")[0].as_py().startswith(b"\x03\x00" + bytes(16))
    with pytest.raises(ConfigError, match="names a schema of a registry"):
        Serializer(None, schema=schema(CITY))
    with pytest.raises(ConfigError, match="needs a registry"):
        Serializer(None, "cities-value", framing="none")
    with pytest.raises(ConfigError, match=r'value_format="avor".*Did you mean "avro"'):
        Serializer(None, schema=schema(CITY), framing="none", value_format="avor")
    with pytest.raises(SchemaError, match="JSON, where AVRO"):
        Serializer(None, schema=Schema("{}", "JSON"), framing="none")({})
    assert Serializer(None, schema=schema(CITY), framing="none")(None) is None
    assert Deserializer(None, schema(CITY), framing="none")(None) is None


def test_a_number_goes_into_the_branch_that_keeps_it() -> None:
    for described, value, branch in (
        (["double", "long"], 1, 1),
        (["float", "double"], 0.1, 1),
        (["long", "double"], 0.1, 1),
        (["double", "string"], 1, 0),
        (["double", "string"], 2**60, 0),
        (["float", "double"], 2**24 + 1, 1),
        (["boolean", "int"], True, 0),
    ):
        datum = serializer(described)(value)  # type: ignore[arg-type]
        assert datum is not None
        assert datum[0] == 2 * branch, described
        assert deserializer(described)(datum) == value  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("value", [0.1, 1e30, -0.0, Decimal("0.1"), 2**24, 2**60, -3])
def test_numbers_that_are_kept_as_well_as_can_be(kind: str, value: float | Decimal) -> None:
    datum = serializer(kind)(value)
    assert datum == encoded(kind, value)
