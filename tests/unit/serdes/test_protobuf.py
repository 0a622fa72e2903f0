"""Protobuf into columns and back: every type, random columns, damaged and evolved messages.

The oracles: classes that protoc makes, and protobuf's own JSON.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import cache

import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings, strategies as st

from parley.errors import ConfigError, SchemaDecodeError, SchemaEncodeError, SchemaError
from parley.serdes import (
    ColumnDecoder,
    ColumnEncoder,
    DecodedValues,
    Deserializer,
    GlobalId,
    Schema,
    SchemaId,
    Serializer,
    derived_schema,
    framing,
)

from ...support.protoc import protoc_class, protoc_pool
from .test_avro_decoder import Source, binary

UTC = dt.UTC
EVERY = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
message Every {
  int32 a = 1; sint64 b = 2; uint32 c = 3; uint64 d = 4; fixed64 e = 5; float f = 6; double g = 7;
  bool h = 8; string i = 9; bytes j = 10; Status status = 11;
  optional int32 maybe = 12; optional Status maybe_status = 13;
  repeated int64 numbers = 14; repeated Line lines = 15; repeated Status statuses = 16;
  map<string, Line> by_name = 17; map<int32, Status> by_number = 18;
  Line line = 19;
  oneof choice { string left = 20; Line right = 21; }
  google.protobuf.Timestamp made = 22; google.protobuf.Duration took = 23;
  google.protobuf.StringValue text = 24; google.protobuf.UInt64Value big = 25;
  google.protobuf.Struct any_object = 26; google.protobuf.Value any_value = 27;
  google.protobuf.ListValue any_list = 28; repeated google.protobuf.Timestamp times = 29;
  google.protobuf.Any something = 30; Nothing nothing = 31;
}
message Line { string what = 1; double much = 2; }
message Nothing {}
enum Status { UNKNOWN = 0; PAID = 1; SENT = 2; }
"""
STAMP = pa.timestamp("us", tz="UTC")
LINE = pa.struct([pa.field("what", pa.string(), False), pa.field("much", pa.float64(), False)])
PROTO2 = """
syntax = "proto2";
message Two {
  required int32 id = 1; optional string name = 2; optional int32 size = 3 [default = 7];
  optional Color color = 4 [default = BLUE]; optional Color other = 5;
  optional group Part = 6 { optional string text = 1; }
  enum Color { RED = 0; BLUE = 1; }
}
"""


def schema(text: str) -> Schema:
    return Schema(text, "PROTOBUF")


def made_decoder(text: str, **options: object) -> ColumnDecoder:
    return ColumnDecoder(None, schema(text), value_format="protobuf", framing="none", **options)  # type: ignore[arg-type]


decoder_of = cache(made_decoder)


def decoded(text: str, *messages: bytes | None, **options: object) -> DecodedValues:
    decoder = decoder_of(text) if not options else made_decoder(text, **options)
    found = decoder.decode_values(binary(*messages))
    found.array.validate(full=True)
    assert found.array.type == decoder.data_type
    return found


def encoder(text: str | None) -> ColumnEncoder:
    chosen = None if text is None else schema(text)
    return ColumnEncoder(None, schema=chosen, value_format="protobuf", framing="none")


def theirs(text: str, name: str, document: object) -> bytes:
    """Return the data of a document of JSON, as a program with protoc's classes writes it."""
    made = protoc_class(text, name)()
    json_format.ParseDict(document, made, descriptor_pool=protoc_pool(text))
    return bytes(made.SerializeToString())


FULL = {
    "a": -5, "b": "-6", "c": 4_000_000_000, "d": "18446744073709551615", "e": "1", "f": 0.5,
    "g": 1e300, "h": True, "i": "é", "j": "AP8=", "status": "PAID", "maybe": 0,
    "maybeStatus": "UNKNOWN", "numbers": ["1", "2"], "lines": [{"what": "tea", "much": 2}],
    "statuses": ["SENT", 9], "byName": {"b": {"what": "x"}, "a": {}}, "byNumber": {"2": "PAID"},
    "line": {}, "right": {"much": 1}, "made": "2026-11-03T04:05:06.000000789Z", "took": "-1.5s",
    "text": "", "big": "18446744073709551615", "anyObject": {"x": [1, None]}, "anyValue": None,
    "anyList": ["a"], "times": ["0001-01-01T00:00:00Z"],
    "something": {"@type": "type.googleapis.com/shop.Line", "what": "in"}, "nothing": {},
}  # fmt: skip


def test_every_type() -> None:
    found = decoded(EVERY, theirs(EVERY, "shop.Every", FULL), b"", None)
    full, empty, nothing = found.array.to_pylist()
    assert nothing is None
    assert full["something"]["type_url"] == "type.googleapis.com/shop.Line"
    del full["something"]
    line = {"what": "x", "much": 0.0}
    assert full == {
        "a": -5, "b": -6, "c": 4_000_000_000, "d": Decimal(2**64 - 1), "e": Decimal(1), "f": 0.5,
        "g": 1e300, "h": True, "i": "é", "j": b"\0\xff", "status": "PAID", "maybe": 0,
        "maybe_status": "UNKNOWN", "numbers": [1, 2], "lines": [{"what": "tea", "much": 2.0}],
        "statuses": ["SENT", "9"], "by_name": [("a", {"what": "", "much": 0.0}), ("b", line)],
        "by_number": [(2, "PAID")], "line": {"what": "", "much": 0.0}, "left": None,
        "right": {"what": "", "much": 1.0}, "made": dt.datetime(2026, 11, 3, 4, 5, 6, tzinfo=UTC),
        "took": -dt.timedelta(seconds=1.5), "text": "", "big": Decimal(2**64 - 1),
        "any_object": '{"x":[1.0,null]}', "any_value": "null", "any_list": '["a"]',
        "times": [dt.datetime(1, 1, 1, tzinfo=UTC)], "nothing": {},
    }  # fmt: skip
    assert empty == {
        "a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0.0, "g": 0.0, "h": False, "i": "", "j": b"",
        "status": "UNKNOWN", "maybe": None, "maybe_status": None, "numbers": [], "lines": [],
        "statuses": [], "by_name": [], "by_number": [], "line": None, "left": None, "right": None,
        "made": None, "took": None, "text": None, "big": None, "any_object": None,
        "any_value": None, "any_list": None, "times": [], "something": None, "nothing": None,
    }  # fmt: skip


def test_types_of_columns_and_some_of_them() -> None:
    kind = decoded(EVERY).array.type
    assert {one.name: one.nullable for one in kind if one.nullable} == dict.fromkeys(
        ("maybe", "maybe_status", "line", "left", "right", "made", "took", "text", "big",
         "any_object", "any_value", "any_list", "something", "nothing"), True,
    )  # fmt: skip
    assert kind.field("by_name").type == pa.map_(pa.string(), pa.field("value", LINE, False))
    assert kind.field("lines").type == pa.list_(pa.field("element", LINE, False))
    assert (kind.field("made").type, kind.field("took").type) == (STAMP, pa.duration("us"))
    some = decoded(EVERY, theirs(EVERY, "shop.Every", FULL), columns=["line", "a"])
    assert some.array.to_pylist() == [{"line": {"what": "", "much": 0.0}, "a": -5}]
    with pytest.raises(ConfigError, match=r"shop\.Every has no field lin\b"):
        decoded(EVERY, columns=["lin"])


def test_proto2_says_what_is_there() -> None:
    data = theirs(PROTO2, "Two", {"id": 1, "other": "RED", "part": {"text": "x"}})
    unknown = b"\x08\x01\x28\x05"  # `other` is 5, which its enum does not have
    found = decoded(PROTO2, data, unknown, b"\x12\x01a", b"\x08\x01\x12\x01\xff")
    first = {
        "id": 1,
        "name": None,
        "size": 7,
        "color": "BLUE",
        "other": "RED",
        "part": {"text": "x"},
    }
    second = {**first, "other": None, "part": None}
    assert found.array.to_pylist() == [first, second, None, None]
    assert "required fields of Two are missing: id" in found.faults[2].why
    assert "not a utf8 string" in found.faults[3].why


def test_a_message_within_itself_is_refused_at_once() -> None:
    text = "message Tree { optional string name = 1; repeated Tree children = 2; }"
    with pytest.raises(SchemaError, match=r"^children\.element: the message Tree contains itself"):
        decoded(text)
    found = decoded(text, theirs(text, "Tree", {"name": "a", "children": [{}]}), columns=["name"])
    assert found.array.to_pylist() == [{"name": "a"}]
    read = Deserializer(None, schema(text), value_format="protobuf", framing="none")
    write = Serializer(None, schema=schema(text), value_format="protobuf", framing="none")
    value = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    assert json_format.MessageToDict(message(read(write(value)))) == value
    deep: dict[str, object] = {}
    for _ in range(2_000):
        deep = {"children": [deep]}
    with pytest.raises(SchemaEncodeError, match="deep"):
        write(deep)


def message(value: object) -> Message:
    assert isinstance(value, Message)
    return value


def test_columns_of_messages_that_others_wrote() -> None:
    """By field numbers: new fields are unknown, those that are gone have their defaults."""
    old = 'syntax = "proto3"; package p; message A { int32 a = 1; string b = 2; int32 c = 3; }'
    new = (
        'syntax = "proto3"; package p; message Z {} '
        "message A { string bee = 2; int64 c = 3; A d = 4; }"
    )
    source = Source({SchemaId(1): schema(old), SchemaId(2): schema(new)})
    write = framing("confluent")
    data = theirs(old, "p.A", {"a": 1, "b": "x", "c": -4})
    later = theirs(new, "p.A", {"bee": "y", "c": 5, "d": {"bee": "in"}})
    wrong = theirs(new, "p.Z", {})
    messages = [
        write.write(b"\0" + data, SchemaId(1)).value,
        write.write(b"\x02\x02" + later, SchemaId(2)).value,
        write.write(b"\0" + wrong, SchemaId(2)).value,
        write.write(b"\x02\x0e" + later, SchemaId(2)).value,
        write.write(b"\0", SchemaId(9)).value,
        write.write(b"\x01", SchemaId(1)).value,
    ]
    decoder = ColumnDecoder(source, schema(old), value_format="protobuf")
    found = decoder.decode_values(binary(*messages))
    assert found.array.to_pylist() == [
        {"a": 1, "b": "x", "c": -4}, {"a": 0, "b": "y", "c": 5}, None, None, None, None,
    ]  # fmt: skip
    assert {row: fault.code for row, fault in found.faults.items()} == {
        2: "schema", 3: "schema", 4: "schema", 5: "framing",
    }  # fmt: skip
    assert "a message of p.Z, where" in found.faults[2].why
    assert "no message at the indexes 7" in found.faults[3].why
    assert source.asked == [SchemaId(1), SchemaId(2), SchemaId(9)]
    read = Deserializer(source, schema(old), value_format="protobuf")
    kept = message(read(messages[1]))
    assert kept.b == "y"  # type: ignore[attr-defined]  # a field
    assert [one.field_number for one in UnknownFieldSet(kept)] == [4]
    assert kept.SerializeToString(deterministic=True) == later
    with pytest.raises(SchemaDecodeError, match=r"no message p\.Z"):
        read(messages[2])
    as_written = Deserializer(source, value_format="protobuf")
    assert message(as_written(messages[2])).DESCRIPTOR.full_name == "p.Z"


def test_a_damaged_byte_harms_no_other_message() -> None:
    good = theirs(EVERY, "shop.Every", FULL)
    others = [theirs(EVERY, "shop.Every", {"a": one}) for one in range(2)]
    before = decoded(EVERY, *others).array
    decoder = decoder_of(EVERY)
    for at in range(len(good)):
        damaged = [good[:at] + bytes((good[at] ^ one,)) + good[at + 1 :] for one in (0x80, 1, 255)]
        found = decoder.decode_values(binary(others[0], *damaged, good[:at], others[1]))
        found.array.validate(full=True)
        assert found.array.take([0, 5]).equals(before)
        assert found.faults.keys() <= {1, 2, 3, 4}
        assert all(fault.code == "datum" and fault.why for fault in found.faults.values())


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_rows_or_faults(messages: list[bytes]) -> None:
    for text in (EVERY, PROTO2):
        found = decoded(text, *messages)
        for row, one in enumerate(messages):
            alone = decoded(text, one)
            assert (row in found.faults) == bool(alone.faults)
            assert found.array[row].as_py() == alone.array[0].as_py()


def test_times_out_of_range_are_faults() -> None:
    text = (
        'import "google/protobuf/timestamp.proto"; '
        "message T { optional google.protobuf.Timestamp at = 1; }"
    )
    last = theirs(text, "T", {"at": "9999-12-31T23:59:59.999999999Z"})
    minus = b"\x0a\x0b\x10" + b"\xff" * 9 + b"\x01"
    later = b"\x0a\x0a\x08" + b"\xff" * 8 + b"\x7f"
    found = decoded(text, last, minus, b"", later, b"\x0a\x02\x10\x01")
    assert found.array.to_pylist() == [
        {"at": dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)}, None, {"at": None}, None,
        {"at": dt.datetime(1970, 1, 1, tzinfo=UTC)},
    ]  # fmt: skip
    assert found.faults.keys() == {1, 3}
    assert all("are no time" in one.why for one in found.faults.values())


# -- writing -----------------------------------------------------------------------------------

PLAIN = st.sampled_from(
    [pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
     STAMP, pa.duration("us"), pa.decimal128(20, 0)]
)  # fmt: skip
NAMES = st.lists(st.sampled_from(["a", "b_c", "D", "order", "message"]), min_size=1, max_size=3,
                 unique=True)  # fmt: skip


def structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    def made(names: list[str]) -> st.SearchStrategy[pa.DataType]:
        return st.tuples(*(inner for _ in names)).map(
            lambda kinds: pa.struct(
                [pa.field(name, kind, not (pa.types.is_list(kind) or pa.types.is_map(kind)))
                 for name, kind in zip(names, kinds, strict=True)]
            )
        )  # fmt: skip

    return NAMES.flatmap(made)


def repeated(kind: pa.DataType) -> st.SearchStrategy[pa.DataType]:
    keys = st.sampled_from([pa.string(), pa.int32(), pa.bool_()])
    return st.one_of(
        st.just(pa.list_(pa.field("element", kind, False))),
        keys.map(lambda key: pa.map_(key, pa.field("value", kind, False))),
    )


KINDS = structs(
    st.one_of(PLAIN, PLAIN.flatmap(repeated), structs(PLAIN), structs(PLAIN).flatmap(repeated))
)


def rows(kind: pa.DataType, *, nullable: bool) -> st.SearchStrategy[object]:
    """Draw values of a type."""
    if pa.types.is_struct(kind):
        found: st.SearchStrategy[object] = st.fixed_dictionaries(
            {one.name: rows(one.type, nullable=one.nullable) for one in kind}
        )
    elif pa.types.is_list(kind):
        found = st.lists(rows(kind.value_type, nullable=False), max_size=3)
    elif pa.types.is_map(kind):
        keys = rows(kind.key_type, nullable=False)
        pairs = st.dictionaries(keys, rows(kind.item_type, nullable=False), max_size=2)
        found = pairs.map(lambda one: sorted(one.items()))  # type: ignore[arg-type]  # keys of one kind
    elif kind == pa.decimal128(20, 0):
        found = st.integers(0, 2**64 - 1).map(Decimal)
    elif pa.types.is_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        found = st.integers(-limit, limit - 1)
    elif pa.types.is_floating(kind):
        found = st.floats(width=kind.bit_width, allow_nan=False)
    elif pa.types.is_timestamp(kind):
        found = st.datetimes(
            dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(UTC)
        )
    elif pa.types.is_duration(kind):
        limit_days = dt.timedelta(days=3_000_000)
        found = st.timedeltas(-limit_days, limit_days)
    else:
        found = {
            pa.bool_(): st.booleans(), pa.string(): st.text(max_size=4),
            pa.binary(): st.binary(max_size=4),
        }[kind]  # fmt: skip
    return st.none() | found if nullable else found


@settings(max_examples=60)
@given(data=st.data(), kind=KINDS)
def test_columns_come_back_by_their_derived_schema(data: st.DataObject, kind: pa.DataType) -> None:
    column = pa.array(data.draw(st.lists(rows(kind, nullable=True), max_size=4)), kind)
    derived = derived_schema(kind, "shop.T", value_format="protobuf")
    messages = encoder(derived.text).encode_values(column).array.to_pylist()
    assert encoder(derived.text).encode_values(column.slice(1)).array.to_pylist() == messages[1:]
    found = decoded(derived.text, *messages)
    assert found.array.type == kind
    assert found.array.to_pylist() == column.to_pylist()
    their = protoc_class(derived.text, "shop.T")
    for one in messages:
        if one is not None:
            assert their.FromString(one).SerializeToString(deterministic=True) == one


def test_values_and_messages_are_written() -> None:
    write = Serializer(None, schema=schema(EVERY), value_format="protobuf", framing="none")
    at = dt.datetime(2026, 11, 3, 4, 5, 6, 7, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    value = {
        "a": 1, "status": "PAID", "maybe_status": 2, "lines": [{"what": "tea"}], "numbers": (1, 2),
        "by_name": {"x": {"much": 2}}, "made": at, "took": dt.timedelta(seconds=-1, microseconds=1),
        "text": "", "big": 2**64 - 1, "any_object": {"x": [1, None]}, "any_value": "text",
        "any_list": [True], "left": "l", "right": None, "line": None, "times": [at], "nothing": {},
    }  # fmt: skip
    made = protoc_class(EVERY, "shop.Every").FromString(write(value) or b"")
    assert json_format.MessageToDict(made, preserving_proto_field_name=True) == {
        "a": 1, "status": "PAID", "maybe_status": "SENT", "lines": [{"what": "tea"}],
        "numbers": ["1", "2"], "by_name": {"x": {"much": 2.0}},
        "made": "2026-11-03T03:05:06.000007Z", "took": "-0.999999s", "text": "",
        "big": "18446744073709551615", "any_object": {"x": [1.0, None]}, "any_value": "text",
        "any_list": [True], "left": "l", "times": ["2026-11-03T03:05:06.000007Z"], "nothing": {},
    }  # fmt: skip
    assert write(made) == write(value) == made.SerializeToString(deterministic=True)
    assert write({"line": protoc_class(EVERY, "shop.Line")(what="x")}) == b"\x9a\x01\x03\x0a\x01x"
    assert write(None) is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": "1"}, "a: .* where a whole number"),
        ({"a": 2**31}, "a: 2147483648 .* is not from"),
        ({"c": -1}, "c: -1 .* is not from 0"),
        ({"h": 1}, "h: .* true or false"),
        ({"i": b"x"}, "i: .* a text"),
        ({"i": "\ud800"}, "i: .* surrogate"),
        ({"j": "x"}, "j: .* bytes"),
        ({"f": 1e39}, "f: .* 32 bits"),
        ({"status": "--5"}, r"status: Status has no value '--5'"),
        ({"status": "-"}, r"status: Status has no value '-'"),
        ({"status": "PAYED"}, r"status: Status has no value 'PAYED'.*PAID"),
        ({"lines": [{}, {"what": 1}]}, r"lines\[1\]\.what: "),
        ({"by_name": {"x": {"what": 1}}}, r"by_name\['x'\]\.what: "),
        ({"numbers": [1, None]}, r"numbers\[1\]: null"),
        ({"numbers": "12"}, "numbers: .* a list"),
        ({"line": []}, r"line: .* a dict or a message of shop\.Line"),
        ({"lin": {}}, "lin: Every has no such field.*line"),
        ({"left": "x", "right": {}}, "right: left is given too, and of choice"),
        ({"made": dt.datetime(2026, 1, 1)}, "made: .* no time zone"),
        ({"made": 5}, "made: .* a datetime"),
        ({"took": 5}, "took: .* a timedelta"),
        ({"any_object": [1]}, "any_object: no JSON for Struct"),
        ({"any_value": object()}, "any_value: "),
        ([], "a dict or a message"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(value: object, why: str) -> None:
    write = Serializer(None, schema=schema(EVERY), value_format="protobuf", framing="none")
    with pytest.raises(SchemaEncodeError, match=why):
        write(value)


def test_columns_that_do_not_fit() -> None:
    def encoded(kind: pa.DataType, *values: object) -> list[bytes | None]:
        found: list[bytes | None] = (
            encoder(EVERY).encode_values(pa.array(values, kind)).array.to_pylist()
        )
        return found

    for kind, why in (
        (pa.struct({"a": pa.string()}), "^a: a column of string cannot be written where .* int32"),
        (pa.struct({"f": pa.float64()}), "^f: a column of double"),
        (pa.struct({"made": pa.timestamp("us")}), "^made: .* google.protobuf.Timestamp"),
        (
            pa.struct({"lines": pa.list_(pa.struct({"whatt": pa.string()}))}),
            r"^lines\.element\.whatt: .*what",
        ),
        (pa.struct({"numbers": pa.int64()}), "^numbers: .* a repeated field"),
        (pa.int64(), r"shop\.Every"),
    ):
        with pytest.raises(SchemaError, match=why):
            encoded(kind)
    with pytest.raises(SchemaError, match=r"^id: the column has no such field, which is required"):
        encoder(PROTO2).encode_values(pa.array([], pa.struct({"name": pa.string()})))
    with pytest.raises(SchemaEncodeError, match=r"a: 2147483648 .* is not from") as caught:
        encoded(pa.struct({"a": pa.int64()}), {"a": 1}, {"a": 2**31})
    assert (caught.value.row, caught.value.path) == (1, "a")
    kind = pa.struct({
        "a": pa.uint16(), "status": pa.dictionary(pa.int8(), pa.string()), "i": pa.null(),
        "any_object": pa.string(), "made": pa.timestamp("ns", "Europe/Oslo"),
        "text": pa.large_string(), "numbers": pa.large_list(pa.int32()), "j": pa.binary(2),
        "statuses": pa.list_(pa.int32(), 2), "line": pa.struct({"much": pa.float32()}),
        "big": pa.uint64(), "by_number": pa.map_(pa.int8(), pa.string()),
    })  # fmt: skip
    row = {"a": 1, "status": "SENT", "any_object": '{"x": 1}', "made": 1_700_000_000_000_000_001,
           "text": "t", "numbers": [1], "j": b"ab", "statuses": [1, 2], "line": {"much": 0.5},
           "big": 2**64 - 1, "by_number": [(1, "PAID")]}  # fmt: skip
    (found,) = encoded(kind, row)
    made = protoc_class(EVERY, "shop.Every").FromString(found or b"")
    assert json_format.MessageToDict(made, preserving_proto_field_name=True) == {
        "a": 1, "status": "SENT", "any_object": {"x": 1.0},
        "made": "2023-11-14T22:13:20.000000001Z",
        "text": "t", "numbers": ["1"], "j": "YWI=", "statuses": ["PAID", "SENT"],
        "line": {"much": 0.5}, "big": "18446744073709551615", "by_number": {"1": "PAID"},
    }  # fmt: skip


def test_types_that_have_no_schema() -> None:
    for kind, why in (
        (pa.struct({"a": pa.date32()}), "^a: Protobuf has no type for a column of date32.*string"),
        (pa.struct({"a": pa.timestamp("us")}), '^a: .*timestamp\\("us", tz="UTC"\\)'),
        (pa.struct({"a": pa.list_(pa.list_(pa.int8()))}), r"^a\.element: .*list of structs"),
        (pa.struct({"a": pa.map_(pa.float64(), pa.int8())}), "^a: .* no keys of double"),
        (pa.struct({"a b": pa.int8()}), "^a b: no name"),
        (pa.struct({"a_b": pa.int8(), "aB": pa.int8()}), "^aB: no name"),
        (pa.int8(), "made of a struct"),
    ):
        with pytest.raises(SchemaError, match=why):
            derived_schema(kind, value_format="protobuf")
    found = derived_schema(
        pa.struct({"id": pa.int64(), "tags": pa.list_(pa.string()), "at": STAMP}), "shop.Order",
        value_format="protobuf",
    )  # fmt: skip
    assert found.text == (
        'syntax = "proto3";\npackage shop;\nimport "google/protobuf/timestamp.proto";\n'
        "message Order {\n  optional int64 id = 1;\n  repeated string tags = 2;\n"
        "  .google.protobuf.Timestamp at = 3;\n}\n"
    )


def test_which_message_is_meant() -> None:
    text = (
        'syntax = "proto3"; package p; message A { message B { int32 x = 1; } } '
        "message C { int32 y = 1; }"
    )
    source = Source({SchemaId(1): schema(text)})
    write = Serializer(
        None, schema=schema(text), value_format="protobuf", message="p.A.B", ref=SchemaId(1)
    )
    assert write({"x": 3}) == b"\0\0\0\0\1\x04\0\0\x08\x03"
    first = Serializer(None, schema=schema(text), value_format="protobuf", ref=SchemaId(1))
    assert first({}) == b"\0\0\0\0\1\0"
    read = Deserializer(source, value_format="protobuf")
    assert json_format.MessageToDict(message(read(write({"x": 3})))) == {"x": 3}
    chosen = Deserializer(source, schema(text), value_format="protobuf", message="p.C")
    with pytest.raises(SchemaDecodeError, match=r"a message of p\.A\.B, where p\.C is wanted"):
        chosen(write({"x": 3}))
    without_schema = Deserializer(source, value_format="protobuf", message="p.C")
    with pytest.raises(SchemaDecodeError, match=r"a message of p\.A\.B, where p\.C is wanted"):
        without_schema(write({"x": 3}))
    headed = Serializer(
        None, schema=schema(text), value_format="protobuf", message="p.C", ref=GlobalId(4),
        framing="apicurio-headers",
    ).frame({"y": 5})  # fmt: skip
    assert headed.headers == (("apicurio.value.globalId", b"\0\0\0\0\0\0\0\4"),)
    apicurio = Deserializer(
        Source({GlobalId(4): schema(text)}), value_format="protobuf", message="p.C",
        framing="apicurio-headers",
    )  # fmt: skip
    found = message(apicurio(headed.value, headed.headers))
    assert (found.DESCRIPTOR.full_name, json_format.MessageToDict(found)) == ("p.C", {"y": 5})
    with pytest.raises(SchemaError, match=r"no message p\.B.*p\.A\.B"):
        Serializer(
            None, schema=schema(text), value_format="protobuf", message="p.B", ref=SchemaId(1)
        ).prepare()


def test_json_is_what_google_says() -> None:
    found = decoded(EVERY, theirs(EVERY, "shop.Every", FULL)).array.to_pylist()[0]
    assert json.loads(found["any_object"]) == FULL["anyObject"]
