"""Avro into columns: what fastavro reads, for random schemas; every type; damaged bytes."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import time
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from parley.errors import ConfigError, SchemaDecodeError, SchemaError, SchemaNotFoundError
from parley.serdes import (
    ColumnDecoder,
    Fingerprint,
    NamedSchema,
    Schema,
    SchemaGuid,
    SchemaId,
    SchemaRef,
    SchemaReference,
    framing,
)
from parley.serdes.avro import fingerprint, parse_schema
from parley.serdes.avro.reading import compile_reader
from parley.types import Json

from .avro_cases import evolved, records, values

CITY = {
    "type": "record",
    "name": "City",
    "fields": [{"name": "name", "type": "string"}, {"name": "people", "type": "long"}],
}
UTC = dt.UTC


class Source:
    """Knows the schemas it is given, and counts how often it is asked."""

    def __init__(self, known: Mapping[SchemaRef, Schema]) -> None:
        self.known = dict(known)
        self.asked: list[SchemaRef] = []
        self.references: dict[tuple[str, int], Schema] = {}

    def get_schema_for(self, ref: SchemaRef) -> Schema:
        self.asked.append(ref)
        if ref not in self.known:
            raise SchemaNotFoundError("Schema not found", status=404, error_code=40403, url="x")
        return self.known[ref]

    def get_references(self, schema: Schema) -> Sequence[NamedSchema]:
        return [
            NamedSchema(one.name, self.references[one.subject, one.version])
            for one in schema.references
        ]


def schema(described: Json) -> Schema:
    return Schema(json.dumps(described))


def encoded(described: Json, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(described), value)
    return out.getvalue()


def framed(number: int, datum: bytes) -> bytes:
    return framing("confluent").write(datum, SchemaId(number)).value


def binary(*messages: bytes | None) -> pa.Array:
    return pa.array(messages, pa.binary())


def bare(described: Json, *data: bytes, **options: object) -> pa.Array:
    decoder = ColumnDecoder(Source({}), schema(described), framing="none", **options)  # type: ignore[arg-type]
    found = decoder.decode_values(binary(*data))
    assert found.faults == {}
    assert found.array.type == decoder.data_type
    found.array.validate(full=True)
    return found.array


def plain(value: object) -> object:
    """Return a column's value as fastavro has it: unions without their members, maps as dicts."""
    if isinstance(value, dict):
        if value and all(name.startswith("member") for name in value):
            return plain(next((one for one in value.values() if one is not None), None))
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            return {key: plain(one) for key, one in value}
        return [plain(one) for one in value]
    return value


def same(ours: object, theirs: object) -> bool:
    """Return whether values are equal; an empty map is a list in a column."""
    if isinstance(theirs, dict):
        if ours in ([], None) and not theirs:
            return True
        return (
            isinstance(ours, dict)
            and ours.keys() == theirs.keys()
            and all(same(ours[name], theirs[name]) for name in theirs)
        )
    if isinstance(theirs, list | tuple):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs or (isinstance(theirs, float) and ours == pytest.approx(theirs))


@settings(max_examples=60)
@given(data=st.data(), writer=records())
def test_columns_hold_what_fastavro_reads(data: st.DataObject, writer: Json) -> None:
    reader = data.draw(st.just(writer) | evolved(writer))
    rows = data.draw(st.lists(values(parse_schema(json.dumps(writer))), min_size=1, max_size=3))
    messages = [encoded(writer, row) for row in rows]
    try:
        compile_reader(parse_schema(json.dumps(writer)), parse_schema(json.dumps(reader)))
    except SchemaError:
        # a type that was named in a field that is gone
        assume(False)
    source = Source({SchemaId(1): schema(writer)})
    decoder = ColumnDecoder(source, schema(reader))
    found = decoder.decode_values(binary(*(framed(1, one) for one in messages)))
    assert found.faults == {}
    found.array.validate(full=True)
    for ours, message in zip(found.array.to_pylist(), messages, strict=True):
        theirs = fastavro.schemaless_reader(io.BytesIO(message), writer, reader)
        assert same(plain(ours), theirs), (ours, theirs)
    assert source.asked == [SchemaId(1)]


@settings(max_examples=30)
@given(data=st.data(), described=records(), noise=st.binary(max_size=4))
def test_damaged_messages_harm_no_other(data: st.DataObject, described: Json, noise: bytes) -> None:
    parsed = parse_schema(json.dumps(described))
    good = encoded(described, data.draw(values(parsed)))
    cut = data.draw(st.integers(0, len(good)))
    at = data.draw(st.integers(0, max(0, len(good) - 1)))
    flipped = bytearray(good or b"\0")
    flipped[at] ^= data.draw(st.integers(1, 255))
    decoder = ColumnDecoder(Source({}), schema(described), framing="none", on_schema_error="null")
    found = decoder.decode_values(
        binary(good, good[:cut], good + noise, bytes(flipped), noise, good)
    )
    found.array.validate(full=True)
    assert not {0, 5} & found.faults.keys()
    assert found.array[0] == found.array[5]
    assert (1 in found.faults) or cut == len(good) or not good[cut:]
    assert (2 in found.faults) is bool(noise)
    assert all(found.array[row].as_py() is None for row in found.faults)


EVERY_TYPE: dict[str, tuple[Json, object, pa.DataType, object]] = {
    "day": ({"type": "int", "logicalType": "date"}, 3, pa.date32(), dt.date(1970, 1, 4)),
    "ms": (
        {"type": "int", "logicalType": "time-millis"}, 1_001, pa.time64("us"),
        dt.time(0, 0, 1, 1_000),
    ),
    "us": ({"type": "long", "logicalType": "time-micros"}, 7, pa.time64("us"),
           dt.time(0, 0, 0, 7)),
    "at_ms": (
        {"type": "long", "logicalType": "timestamp-millis"}, 1_500,
        pa.timestamp("us", tz="UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
    ),
    "at_us": (
        {"type": "long", "logicalType": "timestamp-micros"}, -1, pa.timestamp("us", tz="UTC"),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    ),
    "local": (
        {"type": "long", "logicalType": "local-timestamp-millis"}, 0, pa.timestamp("us"),
        dt.datetime(1970, 1, 1),
    ),
    "price": (
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, b"\xfe\x0c",
        pa.decimal128(6, 2), Decimal("-5.00"),
    ),
    "big": (
        {"type": "fixed", "name": "Big", "size": 20, "logicalType": "decimal",
         "precision": 45, "scale": 1}, (10**44).to_bytes(20, "big"), pa.decimal256(45, 1),
        Decimal(10) ** 43,
    ),
    "id": ({"type": "string", "logicalType": "uuid"}, str(uuid.UUID(int=5)), pa.string(),
           str(uuid.UUID(int=5))),
    "id16": (
        {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
        uuid.UUID(int=6).bytes, pa.string(), str(uuid.UUID(int=6)),
    ),
    "span": (
        {"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"},
        b"\1\0\0\0\2\0\0\0\3\0\0\0", pa.month_day_nano_interval(),
        pa.MonthDayNano([1, 2, 3_000_000]),
    ),
    "raw": ({"type": "fixed", "name": "Raw", "size": 2}, b"ab", pa.binary(), b"ab"),
    "suit": ({"type": "enum", "name": "Suit", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    "maybe": (["string", "null"], None, pa.string(), None),
    "wide": (["int", "null", "long"], 2**40, pa.int64(), 2**40),
    "real": (["float", "double"], 0.5, pa.float64(), 0.5),
    "mixed": (
        ["null", "string", "int"], 5,
        pa.struct([("member0", pa.string()), ("member1", pa.int32())]),
        {"member0": None, "member1": 5},
    ),
    "tags": (
        {"type": "map", "values": ["null", "int"]}, {"x": 1, "y": None},
        pa.map_(pa.string(), pa.int32()), [("x", 1), ("y", None)],
    ),
    "list": (
        {"type": "array", "items": "long"}, [1, 2],
        pa.list_(pa.field("element", pa.int64(), nullable=False)), [1, 2],
    ),
    "none": ("null", None, pa.null(), None),
}  # fmt: skip
"""Field -> schema, what is written, the column's type, and the value in it."""


def test_every_type_of_avro() -> None:
    fields = EVERY_TYPE
    described: Json = {
        "type": "record",
        "name": "All",
        "fields": [{"name": name, "type": one[0]} for name, one in fields.items()],
    }
    without = json.loads(json.dumps(described).replace("logicalType", "left"))
    datum = encoded(without, {name: one[1] for name, one in fields.items()})
    found = bare(described, datum)
    assert {one.name: one.type for one in found.type} == {n: one[2] for n, one in fields.items()}
    row = found[0].as_py()
    for name, (_, _, _, expected) in fields.items():
        assert row[name] == expected, name
    assert found.type.field("maybe").nullable
    assert not found.type.field("day").nullable


def test_what_no_column_can_hold_is_refused_with_its_field() -> None:
    node: Json = {
        "type": "record", "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "x", "type": "int"}],
    }  # fmt: skip
    outer: Json = {"type": "record", "name": "O", "fields": [{"name": "head", "type": node}]}
    with pytest.raises(SchemaError, match=r"head\.next: the record Node contains itself"):
        ColumnDecoder(Source({}), schema(outer))
    chosen = bare(node, encoded(node, {"next": {"next": None, "x": 1}, "x": 2}), columns=["x"])
    assert chosen.to_pylist() == [{"x": 2}], "what is not selected need not be a column"
    huge: Json = {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 0}
    with pytest.raises(SchemaError, match="77 digits"):
        ColumnDecoder(Source({}), schema(huge))
    with pytest.raises(ConfigError, match=r'no field peple.*Did you mean "people"'):
        ColumnDecoder(Source({}), schema(CITY), columns=["peple"])
    with pytest.raises(SchemaError, match="JSON, where AVRO"):
        ColumnDecoder(Source({}), Schema("{}", "JSON"))


def test_writers_evolve_and_ids_alternate() -> None:
    newer = {**CITY, "fields": [*CITY["fields"], {"name": "mayor", "type": "string"}]}
    reader = {
        **CITY,
        "fields": [
            {"name": "people", "type": "double"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "land", "type": {"type": "array", "items": "string"}, "default": ["no"]},
        ],
    }
    source = Source({SchemaId(1): schema(CITY), SchemaId(2): schema(newer)})
    old = [framed(1, encoded(CITY, {"name": f"o{i}", "people": i})) for i in range(50)]
    new = [
        framed(2, encoded(newer, {"name": f"n{i}", "people": -i, "mayor": "x"})) for i in range(50)
    ]
    mixed = [one for pair in zip(old, new, strict=True) for one in pair]
    decoder = ColumnDecoder(source, schema(reader))
    for _ in range(3):
        found = decoder.decode_values(binary(*mixed, None))
        names = found.array.field("name").to_pylist()
        assert names == [f"{kind}{i}" for i in range(50) for kind in "on"] + [None]
        assert found.array[1].as_py() == {"people": 0.0, "name": "n0", "land": ["no"]}
        assert not found.array[100].is_valid
    assert source.asked == [SchemaId(1), SchemaId(2)]


def batch(*messages: bytes | None, headers: pa.Array | None = None) -> pa.RecordBatch:
    made = {
        "offset": pa.array(range(40, 40 + len(messages)), pa.int64()),
        "value": binary(*messages),
    }
    return pa.record_batch(made if headers is None else {**made, "headers": headers})


def test_a_batch_fails_at_its_first_bad_message_or_goes_on_with_null() -> None:
    good = framed(1, encoded(CITY, {"name": "Oslo", "people": 1}))
    odd = {**CITY, "fields": [{"name": "name", "type": "int"}]}
    source = Source({SchemaId(1): schema(CITY), SchemaId(3): schema(odd)})
    messages = batch(good, None, b"{}", framed(9, b""), framed(3, b"\2"), good + b"x", good)
    strict = ColumnDecoder(source, schema(CITY))
    with pytest.raises(SchemaDecodeError, match=r"cities-7, offset 42.*looks like JSON") as caught:
        strict.decode(messages, topic="cities", partition=7)
    assert (caught.value.offset, caught.value.code) == (42, "framing")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.offset) == (str(caught.value), 42)

    lenient = ColumnDecoder(source, schema(CITY), on_schema_error="null")
    found = lenient.decode(messages)
    assert found.schema.names == ["offset", "value", "_error"]
    assert [one is not None for one in found.column("value").to_pylist()] == [
        True, False, False, False, False, False, True,
    ]  # fmt: skip
    errors = found.column("_error").to_pylist()
    assert [one and one["code"] for one in errors] == [
        None, None, "framing", "schema", "schema", "datum", None,
    ]  # fmt: skip
    assert errors[2]["bytes"] == b"{}"
    assert "schema id 3 wrote cannot be read" in errors[4]["message"]
    assert "1 bytes too many" in errors[5]["message"]
    source.known[SchemaId(9)] = schema("null")
    asked = len(source.asked)
    lenient.decode(messages)
    assert source.asked[asked:] == [SchemaId(9)], "what was not there is asked for again"


def test_headers_fingerprints_references_and_keys() -> None:
    guid = SchemaGuid(bytes(range(16)))
    datum = encoded(CITY, {"name": "Oslo", "people": 1})
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    frame = framing("confluent").write(datum, guid)
    headers = pa.array([[{"key": k, "value": v} for k, v in frame.headers], None], kind)
    source = Source({guid: schema(CITY), SchemaId(1): schema(CITY)})
    found = ColumnDecoder(source, schema(CITY)).decode(
        batch(datum, framed(1, datum), headers=headers)
    )
    assert found.column("value").field("name").to_pylist() == ["Oslo", "Oslo"]

    mark = Fingerprint(fingerprint(parse_schema(json.dumps(CITY))))
    message = framing("single-object").write(datum, mark).value
    assert message[2:10].hex() == fastavro.schema.fingerprint(
        fastavro.schema.to_parsing_canonical_form(CITY), "CRC-64-AVRO"
    )
    reader = schema({**CITY, "fields": CITY["fields"][1:]})
    decoder = ColumnDecoder(source, reader, framing="single-object", known=[schema(CITY)])
    assert decoder.decode(batch(message)).column("value").to_pylist() == [{"people": 1}]
    alone = ColumnDecoder(source, reader, framing="single-object")
    with pytest.raises(SchemaDecodeError, match=r"known=\[\.\.\.\]"):
        alone.decode(batch(message))

    source.references["City", 1] = schema(CITY)
    trip: Json = {"type": "record", "name": "Trip", "fields": [{"name": "to", "type": "City"}]}
    with_reference = Schema(json.dumps(trip), references=(SchemaReference("City", "City", 1),))
    found = ColumnDecoder(source, with_reference, framing="none").decode(batch(datum))
    assert found.column("value").to_pylist() == [{"to": {"name": "Oslo", "people": 1}}]


def test_what_a_stranger_announces_costs_nothing() -> None:
    nothing: Json = {"type": "record", "name": "E", "fields": []}
    for described, data in (
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
        ({"type": "array", "items": nothing}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
        ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
        ({"type": "array", "items": "null"}, b"\x80\x80\x04" * 4 + b"\x00"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("bytes", b"\x01"),
        ("long", b"\xff" * 11),
        ("int", b"\xff\xff\xff\xff\xff\x01"),
        ("boolean", b"\x02"),
        ("string", b"\x02\xff"),
        (["null", "int"], b"\x04"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ({"type": "long", "logicalType": "timestamp-millis"}, encoded("long", 2**62)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 1}, b"\x02\x7f"),
    ):
        decoder = ColumnDecoder(Source({}), schema(described), framing="none")  # type: ignore[arg-type]
        began = time.process_time()
        found = decoder.decode_values(binary(data))
        assert time.process_time() - began < 5
        assert found.faults[0].code == "datum", described
        assert "byte" in found.faults[0].why


def test_nesting_without_end_is_a_fault() -> None:
    node: Json = {
        "type": "record", "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "x", "type": "int"}],
    }  # fmt: skip
    decoder = ColumnDecoder(Source({}), schema(node), framing="none", columns=["x"])
    found = decoder.decode_values(binary(b"\x02" * 100_000))
    assert "nested too deep" in found.faults[0].why
