"""JSON into columns and back: random schemas, every type, damaged texts; jsonschema as oracle."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from parley.errors import ConfigError, SchemaDecodeError, SchemaEncodeError, SchemaError
from parley.serdes import (
    ColumnDecoder,
    ColumnEncoder,
    DecodedValues,
    Deserializer,
    NamedSchema,
    Schema,
    SchemaId,
    SchemaReference,
    Serializer,
    derived_schema,
)
from parley.serdes.json_schema.reading import JsonGroupDecoder
from parley.serdes.json_schema.shapes import arrow_type, parse_shape
from parley.types import Json

from .test_avro_decoder import Source, binary

UTC = dt.UTC


def schema(described: Json) -> Schema:
    return Schema(json.dumps(described), "JSON")


def decoded(described: Json, *documents: Json | bytes, **options: object) -> DecodedValues:
    messages = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in documents]
    decoder = ColumnDecoder(None, schema(described), value_format="json", framing="none", **options)  # type: ignore[arg-type]
    found = decoder.decode_values(binary(*messages))
    found.array.validate(full=True)
    return found


def encoder(described: Json | None) -> ColumnEncoder:
    given_schema = None if described is None else schema(described)
    return ColumnEncoder(None, schema=given_schema, value_format="json", framing="none")


PLAIN = st.sampled_from(
    [pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
     pa.binary(), pa.date32(), pa.timestamp("us", tz="UTC")]
)  # fmt: skip


def kinds() -> st.SearchStrategy[pa.DataType]:
    """Draw types of columns that JSON has."""
    names = st.lists(st.text("abcü", min_size=1, max_size=2), min_size=1, max_size=3, unique=True)
    return st.recursive(
        PLAIN,
        lambda inner: st.one_of(
            inner.map(pa.list_),
            inner.map(lambda one: pa.map_(pa.string(), one)),
            names.flatmap(
                lambda keys: st.tuples(*(inner for _ in keys)).map(
                    lambda types: pa.struct(list(zip(keys, types, strict=True)))
                )
            ),
        ),
        max_leaves=5,
    )


def rows(kind: pa.DataType) -> st.SearchStrategy[object]:
    """Draw values of a type, null among them."""
    if pa.types.is_struct(kind):
        found: st.SearchStrategy[object] = st.fixed_dictionaries(
            {one.name: rows(one.type) for one in kind}
        )
    elif pa.types.is_list(kind):
        found = st.lists(rows(kind.value_type), max_size=3)
    elif pa.types.is_map(kind):
        pairs = st.dictionaries(st.text(max_size=2), rows(kind.item_type), max_size=2)
        found = pairs.map(lambda one: list(one.items()))
    elif pa.types.is_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        found = st.integers(-limit, limit - 1)
    elif pa.types.is_floating(kind):
        found = st.floats(width=kind.bit_width, allow_nan=False, allow_infinity=False)
    elif pa.types.is_timestamp(kind):
        found = st.datetimes(
            dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(UTC)
        )
    else:
        found = {
            pa.bool_(): st.booleans(), pa.string(): st.text(max_size=4),
            pa.binary(): st.binary(max_size=4), pa.date32(): st.dates(),
        }[kind]  # fmt: skip
    return st.none() | found


@settings(max_examples=60)
@given(data=st.data(), kind=kinds())
def test_columns_come_back_and_fit_their_derived_schema(
    data: st.DataObject, kind: pa.DataType
) -> None:
    column = pa.array(data.draw(st.lists(rows(kind), max_size=4)), kind)
    derived = derived_schema(kind, "T", value_format="json")
    described = json.loads(derived.text)
    jsonschema.Draft7Validator.check_schema(described)
    shape = parse_shape(derived.text)
    assert arrow_type(shape) == kind
    messages = encoder(described).encode_values(column).array.to_pylist()
    for message in messages:
        if message is not None:
            jsonschema.validate(json.loads(message), described)
    found = decoded(described, *messages) if None not in messages else None
    if found is not None:
        assert found.faults == {}
        assert found.array.equals(column)
        assert encoder(None).encode_values(column).array.to_pylist() == messages


@settings(max_examples=40)
@given(data=st.data(), kind=kinds(), noise=st.binary(max_size=6))
def test_damaged_texts_harm_no_other(data: st.DataObject, kind: pa.DataType, noise: bytes) -> None:
    described = json.loads(derived_schema(kind, "T", value_format="json").text)
    value = data.draw(rows(kind).filter(lambda one: one is not None))
    (good,) = encoder(described).encode_values(pa.array([value], kind)).array.to_pylist()
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = bytearray(good)
    flipped[at] ^= data.draw(st.integers(1, 255))
    found = decoded(described, good, good[:at], noise, bytes(flipped), good)
    assert not {0, 4} & found.faults.keys()
    assert found.array[0] == found.array[4]
    for message in (good[:at], noise, bytes(flipped)):
        # whatever else came out would fail the test
        with suppress(SchemaDecodeError):
            Deserializer(None, schema(described), value_format="json", framing="none")(message)


ORDER: Json = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"}, "small": {"type": "integer", "connect.type": "int16"},
        "name": {"type": ["null", "string"]}, "price": {"type": "number"},
        "kind": {"enum": ["a", "b"]}, "at": {"type": "string", "format": "date-time"},
        "day": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "free": {"type": "object"}, "parent": {"$ref": "#"},
        "both": {"allOf": [{"$ref": "#/definitions/line"},
                           {"properties": {"x": {"type": "null"}}}]},
        "mixed": {"type": ["integer", "number"]}, "none": False, "pair": {"type": "array",
                                                                    "items": [{"type": "string"}]},
    },
    "required": ["id"],
    "definitions": {"line": {"type": "object", "properties": {"what": {"type": "string"}}}},
}  # fmt: skip


def test_every_kind_of_schema_becomes_a_type() -> None:
    line = pa.struct([("what", pa.string())])
    expected = {
        "id": pa.int64(), "small": pa.int16(), "name": pa.string(), "price": pa.float64(),
        "kind": pa.string(), "at": pa.timestamp("us", tz="UTC"), "day": pa.date32(),
        "raw": pa.binary(), "lines": pa.list_(line), "tags": pa.map_(pa.string(), pa.bool_()),
        "either": pa.string(), "free": pa.string(), "parent": pa.string(),
        "both": pa.struct([("what", pa.string()), ("x", pa.null())]), "mixed": pa.float64(),
        "none": pa.null(), "pair": pa.list_(pa.string()),
    }  # fmt: skip
    document: Json = {
        "id": 7.0, "small": -5, "name": None, "price": 3, "kind": "b",
        "at": "2026-11-03T04:05:06.123456789+02:00", "day": "2026-11-03", "raw": "AAE=",
        "lines": [{"what": "tea", "extra": 1}, {}], "tags": {"x": True}, "either": 5,
        "free": {"a": [1, "ü"]}, "parent": {"id": 8}, "both": {"what": "x"}, "mixed": 1,
        "more": "passed over", "pair": ["a"],
    }  # fmt: skip
    found = decoded(ORDER, document)
    assert found.faults == {}
    assert {one.name: one.type for one in found.array.type} == expected
    assert found.array[0].as_py() == {
        "id": 7, "small": -5, "name": None, "price": 3.0, "kind": "b",
        "at": dt.datetime(2026, 11, 3, 2, 5, 6, 123_456, UTC), "day": dt.date(2026, 11, 3),
        "raw": b"\0\1", "lines": [{"what": "tea"}, {"what": None}], "tags": [("x", True)],
        "either": "5", "free": '{"a":[1,"ü"]}', "parent": '{"id":8}',
        "both": {"what": "x", "x": None}, "mixed": 1.0, "none": None, "pair": ['"a"'],
    }  # fmt: skip
    (back,) = encoder(ORDER).encode_values(found.array).array.to_pylist()
    assert json.loads(back)["either"] == 5
    assert json.loads(back)["free"] == {"a": [1, "ü"]}
    assert decoded(ORDER, back).array.equals(found.array)
    chosen = decoded(ORDER, document, columns=["price", "id"]).array
    assert chosen.to_pylist() == [{"price": 3.0, "id": 7}]
    with pytest.raises(ConfigError, match=r'no property prise.*Did you mean "price"'):
        decoded(ORDER, columns=["prise"])


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"id": True}, "id: True (bool) is given where a whole number is wanted"),
        ({"id": 1.5}, "id: 1.5"),
        ({"id": 2**63}, "does not fit 64 bits"),
        ({"small": 2**15}, "does not fit 16 bits"),
        ({"lines": [{"what": 1}]}, "lines[0].what: 1 (int)"),
        ({"tags": {"x": "y"}}, "tags['x']"),
        ({"at": "2026-11-03T04:05:06"}, "a date-time such as"),
        ({"day": "3.11.2026"}, "a date such as"),
        ({"raw": "AA"}, "not base64"),
        ({"none": 1}, "where null is wanted"),
        ([], "an object with the schema's properties"),
        (b"{", "no JSON"), (b"\xff", "not UTF-8"), (b'{"price": NaN}', "no number in JSON"),
        (b'{"price": 1e999}', "does not fit 64 bits"), (b'{"name": "\\ud800"}', "surrogate"),
        (b"[" * 100_000, "nested too deep"), (b"1" * 5_000, "no JSON"),
        (b'{"free":' + b"[" * 600 + b"]" * 600 + b"}", None),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_text_is_named(document: Json | bytes, why: str | None) -> None:
    found = decoded(ORDER, {"id": 1}, document)
    assert 0 not in found.faults
    if why is not None:
        assert why in found.faults[1].why
        assert found.faults[1].code == "datum"


def test_schemas_refer_to_others() -> None:
    line = schema({"type": "object", "properties": {"n": {"type": "integer"}}})
    source = Source({})
    source.references["line", 1] = line
    order = Schema(
        json.dumps({"type": "object", "properties": {"line": {"$ref": "line.json"}}}),
        "JSON",
        (SchemaReference("line.json", "line", 1),),
    )
    decoder = ColumnDecoder(source, order, value_format="json", framing="none")
    assert decoder.data_type == pa.struct([("line", pa.struct([("n", pa.int64())]))])
    for text, why in (
        ('{"properties": {"a": {"$ref": "gone.json"}}}', r"a:.*not among the references"),
        ('{"properties": {"a": {"$ref": "#/definitions/gone"}}}', r"a:.*which is not there"),
        ('{"type": "objct"}', r"no type"), ("[]", "an object, or true"), ("{", "no JSON"),
    ):  # fmt: skip
        with pytest.raises(SchemaError, match=why):
            parse_shape(text, [NamedSchema("line.json", line)])


def test_a_schema_that_grows_without_end_is_refused() -> None:
    definitions: dict[str, Json] = {
        f"d{one}": {"type": "object", "properties": {
            name: {"$ref": f"#/definitions/d{one + 1}"} for name in "abcd"}}
        for one in range(20)
    }  # fmt: skip
    definitions["d20"] = {"type": "string"}
    described: Json = {"$ref": "#/definitions/d0", "definitions": definitions}
    with pytest.raises(SchemaError, match="more than 10000 columns"):
        parse_shape(json.dumps(described))


def test_values_are_written_as_the_schema_says() -> None:
    write = Serializer(None, schema=schema(ORDER), value_format="json", framing="none")
    read = Deserializer(None, schema(ORDER), value_format="json", framing="none")
    moment = dt.datetime(2026, 11, 3, 4, 5, 6, tzinfo=UTC)
    value = {"id": 1, "at": moment, "day": moment.date(), "raw": b"\0", "free": {"a": 1}, "more": 2}
    message = write(value)
    assert message is not None
    expected = {**value, "at": "2026-11-03T04:05:06Z", "day": "2026-11-03", "raw": "AA=="}
    assert read(message) == expected
    for wrong, path, why in (
        ({"id": "1"}, "id", "a whole number is wanted"),
        ({}, "id", "required, and must not be null"),
        ({"id": 1, "small": 2**15}, "small", "16 bits"),
        ({"id": 1, "price": float("nan")}, "price", "64 bits"),
        ({"id": 1, "more": {1, 2}}, "more", "JSON cannot hold it"),
        ({"id": 1, "at": moment.replace(tzinfo=None)}, "at", "no time zone"),
        ({"id": 1, "lines": [{"what": 1}]}, "lines[0].what", "a string is wanted"),
    ):
        with pytest.raises(SchemaEncodeError) as caught:
            write(wrong)
        assert caught.value.path == path
        assert why in str(caught.value)
    closed = schema({"properties": {"name": {}}, "additionalProperties": False})
    with pytest.raises(SchemaEncodeError, match=r'no such property.*Did you mean "name"'):
        Serializer(None, schema=closed, value_format="json", framing="none")({"nam": 1})


NUMBERS = ["1e999", "-1E+999", "1.000", "12345678901234567890.12", "0.1234567890123456789", "-0",
           "5", "-0.0", "1E5", str(10**30)]  # fmt: skip


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("text", [*NUMBERS, '{"x":[%s,{}],"y":{"ü":%s,"z":"1.0"}}', "[[],%s]"])
def test_a_text_of_any_json_has_the_numbers_as_they_were_written(text: str, compiled: bool) -> None:
    described: Json = {"properties": {"a": {}, "i": {"type": "integer"}, "n": {"type": "number"}}}
    for number in NUMBERS if "%" in text else [""]:
        written = text.replace("%s", number)
        message = f'{{"a":{written},"i":1,"n":1.5}}'.encode()
        if compiled:
            found = decoded(described, message)
            assert not found.faults
        else:
            shape = parse_shape(json.dumps(described))
            found = JsonGroupDecoder(shape).decode([message])  # type: ignore[assignment]
        assert found.array.to_pylist() == [{"a": written, "i": 1, "n": 1.5}]
        assert encoder(described).encode_values(found.array).array.to_pylist() == [message]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"id":2.0,"price":-0', None), ('"id":-0,"price":1.50', None),
        ('"id":1.5', "id: 1.5 (float) is given"), ('"name":1.5', "name: 1.5 (float) is given"),
        ('"name":[1.5,-0.0]', "name: [1.5, -0.0] (list) is given"),
        ('"id":1e999', "id: inf (float)"), ('"price":1e999', "price: the number does not fit"),
    ],
)  # fmt: skip
def test_numbers_of_columns_are_the_same_beside_any_json(text: str, why: str | None) -> None:
    known: dict[str, Json] = {
        "id": {"type": "integer"}, "price": {"type": "number"}, "name": {"type": "string"},
    }  # fmt: skip
    message = f"{{{text}}}".encode()
    alone = decoded({"properties": known}, message)
    found = decoded({"properties": {**known, "a": {}}}, message)
    assert found.faults == alone.faults
    assert [(why or "-") in one.why for one in found.faults.values()] == [True] * bool(why)
    assert found.array.flatten()[:3] == alone.array.flatten()


def test_columns_that_do_not_fit_are_refused() -> None:
    for kind, why in (
        (pa.struct([("id", pa.string())]), r"id: a column of string.*a whole number"),
        (pa.struct([("name", pa.string())]), r"id: .*which is required"),
        (pa.struct([("id", pa.int64()), ("d", pa.decimal128(5, 2))]), r"d: .*cast it to float64"),
        (pa.struct([("id", pa.int64()), ("at", pa.timestamp("us"))]), r'at: .*tz="UTC"'),
    ):
        with pytest.raises(SchemaError, match=why):
            encoder(ORDER).encode_values(pa.array([], kind))
    kind = pa.struct([("id", pa.int64()), ("extra", pa.int32())])
    found = encoder(ORDER).encode_values(pa.array([{"id": 1, "extra": 2}], kind))
    assert found.array.to_pylist() == [b'{"id":1,"extra":2}']
    with pytest.raises(SchemaEncodeError, match=r"row 1 cannot be encoded at id: .*required"):
        encoder(ORDER).encode_values(pa.array([{"id": 1}, {"id": None}], kind))


DAY, MOMENT = pa.date32(), pa.timestamp("ms", tz="UTC")


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (DAY, 10**7, "at d:"), (DAY, -(10**7), "at d:"), (MOMENT, 10**15, "at d:"),
        (pa.timestamp("s", tz="Asia/Tokyo"), 253_402_300_799, "at d:"),
        (pa.list_(MOMENT), [0, None, -(10**15)], r"at d\[2\]:"),
        (pa.map_(pa.string(), pa.struct([("x", DAY)])), [("a", {"x": 1}), ("b", {"x": 10**7})],
         r"at d\['b'\].x:"),
    ],
)  # fmt: skip
def test_a_time_beyond_the_year_9999_is_named_with_its_row(
    kind: pa.DataType, value: object, path: str
) -> None:
    column = pa.array([None, {"d": None}, {"d": value}], pa.struct([("d", kind)]))
    with pytest.raises(SchemaEncodeError, match=rf"row 2 cannot be encoded {path} .*1 to 9999"):
        encoder(None).encode_values(column)


def test_writers_schemas_are_not_asked_for() -> None:
    source = Source({})
    decoder = ColumnDecoder(source, schema(ORDER), value_format="json")
    found = decoder.decode_values(binary(b'\0\0\0\0\1{"id":1}', b'\0\0\0\0\2{"id":2}'))
    assert found.array.field("id").to_pylist() == [1, 2]
    assert source.asked == []
    source.known[SchemaId(1)] = schema(ORDER)
