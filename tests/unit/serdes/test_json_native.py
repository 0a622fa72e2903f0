"""The compiled decoder of JSON against the reference: equal columns, and the reference's words."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from parley.serdes import derived_schema, native
from parley.serdes.formats import DecodedGroup
from parley.serdes.json_schema.native import decoder_of
from parley.serdes.json_schema.reading import JsonGroupDecoder
from parley.serdes.json_schema.shapes import arrow_type, parse_shape
from parley.serdes.native import NativeDecoder
from parley.types import Json

from .test_avro_native import hold_equal
from .test_json import encoder, kinds, rows

pytestmark = pytest.mark.skipif(
    native.why_reference is not None, reason=f"no compiled decoder: {native.why_reference}"
)


def hold(described: str, texts: list[bytes]) -> tuple[DecodedGroup, list[int]]:
    """Hold the compiled decoder to the reference; return what it found, and what it left over."""
    shape = parse_shape(described)
    compiled, columns = decoder_of(shape, arrow_type(shape))
    assert isinstance(compiled, NativeDecoder)
    assert columns is not None
    reference = JsonGroupDecoder(shape)
    left: list[int] = []

    class Watched(JsonGroupDecoder):
        def decode(self, datums):  # type: ignore[no-untyped-def]
            left.append(len(datums))
            return super().decode(datums)

    compiled.reference = Watched(shape)
    found = compiled.decode(texts)
    hold_equal(found, reference.decode(texts))
    return found, left


def damaged(text: bytes) -> list[bytes]:
    """Return a text cut at each byte, and with each byte changed or put there once more."""
    cut = [text[:end] for end in range(len(text))]
    changed = [
        text[:at] + bytes([text[at] ^ flip]) + text[at + 1 :]
        for at in range(len(text))
        for flip in (1, 0x10, 0x80)
    ]
    more = [
        text[:at] + one + text[at:]
        for at in range(len(text) + 1)
        for one in (b"1", b" ", b",", b"e")
    ]
    return [text, *cut, *changed, *more, text]


@settings(max_examples=30)
@given(data=st.data(), kind=kinds())
def test_random_types_and_values(data: st.DataObject, kind: pa.DataType) -> None:
    array = pa.array(data.draw(st.lists(rows(kind), max_size=4)), kind)
    texts = [one or b"null" for one in encoder(None).encode_values(array).array.to_pylist()]
    described = derived_schema(kind, value_format="json").text
    found, left = hold(described, texts)
    assert not found.faults
    assert not left, "what parley writes is read without the reference"
    noise = data.draw(st.lists(st.binary(max_size=8), max_size=4))
    hold(described, [*texts, *noise])


EVERY_KIND: dict[str, tuple[Json, Json]] = {
    "text": ({"type": "string"}, 'ä"\\\n\u0001😀'),
    "raw": ({"type": "string", "contentEncoding": "base64"}, "AAEC/w=="),
    "day": ({"type": "string", "format": "date"}, "2024-02-29"),
    "at": ({"type": "string", "format": "date-time"}, "2026-11-03T04:05:06.123456789+05:30"),
    "yes": ({"type": "boolean"}, True),
    "tiny": ({"type": "integer", "connect.type": "int8"}, -128),
    "short": ({"type": "integer", "connect.type": "int16"}, 32767),
    "whole": ({"type": "integer"}, -(2**63)),
    "single": ({"type": "number", "connect.type": "float32"}, 1.1),
    "real": ({"type": "number"}, -1.5e300),
    "list": ({"type": "array", "items": {"type": "integer"}}, [1, None, 3]),
    "map": (
        {"type": "object", "additionalProperties": {"type": "boolean"}},
        {"a": True, "b": None},
    ),
    "inner": ({"type": "object", "properties": {"x": {"type": "string"}}}, {"x": "y"}),
    "any": ({}, {"k": [1, 2.5, -0.0, 1e16, 1e-5, "ü\u001f", None, {}, []], "": False}),
    "none": ({"type": "null"}, None),
}


def every_kind() -> tuple[str, bytes]:
    properties = {name: one[0] for name, one in EVERY_KIND.items()}
    value = {name: one[1] for name, one in EVERY_KIND.items()}
    described = json.dumps({"type": "object", "properties": properties})
    return described, json.dumps(value, indent=1, ensure_ascii=False).encode()


def test_each_byte_of_every_kind_is_damaged_in_turn() -> None:
    described, text = every_kind()
    found, _ = hold(described, damaged(text))
    assert found.array[0].as_py() == found.array[-1].as_py()
    _, left = hold(described, [text, json.dumps(json.loads(text)).encode()])
    assert not left, "a text as it usually is needs no reference"


NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "127",
    "128",
    "-129",
    "32768",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1.0",
    "1.5",
    "-0.0",
    "1e2",
    "1E+2",
    "1e-2",
    "1e400",
    "-1E400",
    "1.000",
    "12345678901234567890.12",
    "1e22",
    "1e23",
    "9007199254740993.0",
    "9007199254740993.25",
    "9007199254740993.000000000000000000000000000000",
    "9007199254740993.00000000000000000000000000000000001",
    "9007199254740993000e-3",
    "9223372036854775807.0",
    "9223372036854775808.0",
    "-9223372036854775808.00",
    "-9223372036854775809.0",
    "10.0e0",
    "0e999",
    "-0.0e-999",
    "1e999999999999999999999",
    "1e-999999999999999999999",
    "9007199254740993",
    "9.223372036854775807e18",
    "3.4028234663852886e38",
    "3.5e38",
    "4.9e-324",
    "0.1",
    "123456789012345680",
    "1e15",
    "1e16",
    "123456789.125e-20",
    "01",
    "1.",
    ".5",
    "+1",
    "1e",
    "-",
    "NaN",
    "Infinity",
    "-Infinity",
    "1_000",
    "0x1",
    "1" * 30,
    "0." + "3" * 40,
]


@pytest.mark.parametrize("kind", ["integer", "number", "int8", "int16", "int32", "float32", "any"])
def test_numbers_at_their_ends(kind: str) -> None:
    described: Json = {"type": kind}
    if kind not in ("integer", "number"):
        described = {"type": "number" if "float" in kind else "integer", "connect.type": kind}
    texts = [form.format(one).encode() for one in NUMBERS for form in ("{}", " {} ", "[{}]")]
    hold("{}" if kind == "any" else json.dumps(described), texts)
    hold(json.dumps({"type": "array", "items": {} if kind == "any" else described}), texts)


TEXTS = [
    '"a"',
    '"\\u00e4"',
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
    '"\\ude00"',
    '"\\ud83d\\u0041"',
    '"\\u12"',
    '"\\x"',
    '"\t"',
    '"\\/\\b\\f\\n\\r\\t\\"\\\\"',
    '"a',
    "a",
    "'a'",
    '"a" "b"',
    '"\x7f"',
    "\ufeff1",
    "null",
    " null ",
    "nul",
    "true",
    "tru",
    "false",
    "[]",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{}",
    '{"a":1,}',
    '{"a" 1}',
    "{1:2}",
    '{"a":1,"a":2}',
    '{"a":1}{',
    "",
    " ",
    "[" * 150 + "]" * 150,
    "[" * 1500 + "]" * 1500,
    '{"a":' * 300 + "1" + "}" * 300,
    json.dumps({f"k{one}": one for one in range(20)}),
    '{"a":"x","b":1,"a":"y"}',
    '{"z":{"a":[{},1.5e3,"\\n"]},"a":"x"}',
]


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"type": "string"},
        {"type": "boolean"},
        {"type": "array", "items": {}},
        {"type": "object", "additionalProperties": {}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
        {"type": "string", "contentEncoding": "base64"},
    ],
)
def test_texts_that_are_read_in_the_same_way(described: Json) -> None:
    hold(
        json.dumps(described),
        [one.encode() for one in TEXTS] + [b"\xff", b'"\xc3"', b'"\xed\xa0\x80"'],
    )


@pytest.mark.parametrize("form", ["date", "date-time", "base64"])
def test_forms_of_texts(form: str) -> None:
    days = [
        "2026-11-03",
        "0001-01-01",
        "0000-12-31",
        "9999-12-31",
        "2023-02-29",
        "2024-02-29",
        "1900-02-29",
        "2000-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-1-01",
        "٢٠٢٦-11-03",
        "2026-11-31",
        "1970-01-01",
        "1969-12-31",
    ]
    times = [
        "T04:05:06Z",
        "T04:05:06.1Z",
        "T04:05:06.1234567Z",
        "T24:00:00Z",
        "T23:59:60Z",
        "T04:05Z",
        " 04:05:06Z",
        "T04:05:06",
        "T04:05:06+01:00",
        "T04:05:06-14:59",
        "T04:05:06+15:00",
        "T04:05:06+24:00",
        "T04:05:06+0100",
        "t04:05:06z",
        "T04:05:06.Z",
        "T00:00:00.000000001Z",
        "T04:05:06.12345678901234Z",
    ]
    raw = [
        "",
        "AA==",
        "AAA=",
        "AAAA",
        "AB==",
        "AA=",
        "A===",
        "====",
        "AA==AA==",
        "A A=",
        "AAA\\n",
        "-_==",
        "AA=A",
        "AAB=",
    ]
    texts = {
        "date": days,
        "date-time": days + [day + time for day in days for time in times],
        "base64": raw,
    }[form]
    described = {"type": "string", "contentEncoding" if form == "base64" else "format": form}
    hold(json.dumps(described), [f'"{one}"'.encode() for one in texts])


def test_objects_of_very_many_properties_are_left_to_the_reference() -> None:
    properties = {f"p{one}": {"type": "integer"} for one in range(300)}
    shape = parse_shape(json.dumps({"type": "object", "properties": properties}))
    compiled, columns = decoder_of(shape, arrow_type(shape))
    assert (type(compiled), columns) == (JsonGroupDecoder, None)
    few = dict(list(properties.items())[:200])
    text = json.dumps({name: at for at, name in enumerate(reversed(few))}).encode()
    hold(json.dumps({"type": "object", "properties": few}), [text, b"{}", text[:-1]])
