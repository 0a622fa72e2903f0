"""The compiled writer of JSON against the reference: equal bytes, or the reference's words."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from parley.errors import SchemaEncodeError
from parley.serdes import derived_schema, native
from parley.serdes.json_schema.format import JsonFormat
from parley.types import Json

from .test_json import encoder, kinds, rows, schema

pytestmark = pytest.mark.skipif(
    native.why_reference is not None, reason=f"no compiled writer: {native.why_reference}"
)
PREFIX = b"\0\0\0\0\7"
UTC = dt.UTC


def hold(
    array: pa.Array, described: Json | None = None, *, compiled: bool | None = True
) -> list[bytes | None]:
    """Hold the compiled writer to the reference, for a column and for parts of it; return the texts
    of the column. `compiled` says whether it writes the column, None that it may.
    """
    given_schema = (
        derived_schema(array.type, value_format="json") if described is None else schema(described)
    )
    made = JsonFormat(given_schema)
    texts: list[bytes | None] = []
    for part in (array.slice(2, 3), array.slice(1), array.slice(0, 0), array):
        found = made.encode_messages(part, PREFIX)
        assert compiled is None or (found is not None) is compiled
        texts = made.encode_column(part)
        if found is not None:
            found.validate(full=True)
            assert found.to_pylist() == [None if one is None else PREFIX + one for one in texts]
    return texts


@settings(max_examples=50)
@given(data=st.data(), kind=kinds())
def test_random_columns(data: st.DataObject, kind: pa.DataType) -> None:
    values = data.draw(st.lists(rows(kind), max_size=5))
    hold(pa.array([*values, None, *values], kind))


def test_numbers_have_the_digits_that_python_gives_them() -> None:
    chance = random.Random(11)
    bits = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(20_000)]
    powers = [sign * 10.0**exponent for exponent in range(-320, 309) for sign in (1, -1)]
    near = [number * 10.0**exponent for exponent in range(-8, 20) for number in (1.5, 9.99, 123456)]
    ties = [chance.randrange(2**53) / 2 ** chance.randrange(40) for _ in range(50_000)]
    values = [one for one in (*bits, *powers, *near, *ties) if abs(one) <= 1.7976931348623157e308]
    texts = hold(pa.array([*values, 0.0, -0.0, 5e-324, 1e16, 123456789012345680.0]))
    assert texts[-5:] == [b"0.0", b"-0.0", b"5e-324", b"1e+16", b"1.2345678901234568e+17"]
    hold(pa.array([one for one in values if abs(one) < 3e38], pa.float32()))
    ends = [2**63 - 1, -(2**63), 0, -1, 10, -10]
    assert hold(pa.array(ends)) == [str(one).encode() for one in ends]


def test_moments_are_those_of_python() -> None:
    chance = random.Random(12)
    first, last = dt.date(1, 1, 1).toordinal(), dt.date(9999, 12, 31).toordinal()
    days = [dt.date.fromordinal(chance.randint(first, last)) for _ in range(5_000)]
    days += [dt.date(year, month, 1) for year in (1, 4, 1900, 2000, 9999) for month in range(1, 13)]
    days += [dt.date(2000, 2, 29), dt.date(1904, 2, 29), dt.date(9999, 12, 31)]
    hold(pa.array(days))
    times = [
        dt.datetime.combine(day, dt.time(23, 59, 59, chance.choice([0, 1, 999_999])), UTC)
        for day in days
    ]
    for unit in ("s", "ms", "us"):
        hold(pa.array(times, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, "UTC"), safe=False))


def test_texts_are_escaped_as_python_does() -> None:
    every = "".join(map(chr, range(0x250))) + '"\\/\u2028\ud7ff\ue000\U0001f600'
    array = pa.array([every, *every, ""])
    hold(array)
    hold(array.cast(pa.large_string()))
    hold(pa.array([one.encode() for one in ("", "a", "ab", "abc", every)]))
    hold(pa.array([{every: 1}, {every: None}], pa.struct([(every, pa.int8())])))


REQUIRED: Json = {
    "type": "object",
    "properties": {
        "zz": {"type": "integer", "connect.type": "int16"},
        "aa": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "mm": {"type": "null"},
        "kk": {"type": "number"},
    },
    "required": ["zz", "aa", "mm"],
}


def test_what_is_missing_is_left_out_or_null_in_the_order_of_the_columns() -> None:
    kind = pa.struct(
        [("aa", pa.string()), ("mm", pa.null()), ("kk", pa.int32()), ("zz", pa.int64())]
    )
    rows = [
        {"zz": 1, "aa": "x", "kk": 2}, {"zz": 1, "kk": None}, {"zz": -(2**15)}, None,
    ]  # fmt: skip
    assert hold(pa.array(rows, kind), REQUIRED) == [
        b'{"aa":"x","kk":2,"zz":1,"mm":null}',
        b'{"zz":1,"aa":null,"mm":null}',
        b'{"zz":-32768,"aa":null,"mm":null}',
        None,
    ]


@pytest.mark.parametrize(
    ("column", "described", "why"),
    [
        ([{"zz": None}], REQUIRED, "the property is required"),
        ([{"zz": 2**15}], REQUIRED, "does not fit 16 bits"),
        ([float("nan")], None, "nan does not fit 64 bits"),
        ([float("inf")], {"type": "number"}, "inf does not fit"),
        ([1e39], {"type": "number", "connect.type": "float32"}, "does not fit 32 bits"),
    ],
)
def test_what_does_not_fit_is_left_to_the_reference_which_names_it(
    column: list[object], described: Json, why: str
) -> None:
    array = pa.array(column)
    if described is REQUIRED:
        kind = pa.struct([("zz", pa.int64()), ("aa", pa.string()), ("mm", pa.null())])
        array = pa.array(column, kind)
    made = JsonFormat(
        derived_schema(array.type, value_format="json") if described is None else schema(described)
    )
    assert made.encode_messages(array, PREFIX) is None
    with pytest.raises(SchemaEncodeError, match=why):
        encoder(described).encode_values(array)


def test_of_two_equal_keys_the_reference_says_which_counts() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    pairs = pa.array([[("a", 1), ("b", 2), ("a", 3)]], kind)
    assert (
        JsonFormat(derived_schema(kind, value_format="json")).encode_messages(pairs, PREFIX) is None
    )
    (text,) = encoder(None).encode_values(pairs).array.to_pylist()
    assert json.loads(text) == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1], pa.uint8()),
        pa.array(["a"]).dictionary_encode(),
        pa.array([[1, 2]], pa.list_(pa.int8(), 2)),
        pa.array([dt.datetime(2026, 7, 1, tzinfo=UTC)], pa.timestamp("us", "Europe/Oslo")),
    ],
    ids=lambda array: str(array.type),
)
def test_types_that_are_rare_stay_with_the_reference(array: pa.Array) -> None:
    hold(array, compiled=False)
    assert encoder(None).encode_values(array).array.null_count == 0


def test_a_text_that_may_be_any_json_stays_with_the_reference() -> None:
    assert hold(pa.array(['{"a": 1}']), True, compiled=False) == [b'{"a":1}']
