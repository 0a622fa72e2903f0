"""The compiled decoder of Avro against the reference: equal columns, and faults in equal words."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings, strategies as st

from parley.errors import SchemaError
from parley.serdes import native
from parley.serdes.avro import AvroType, parse_schema
from parley.serdes.avro.columns import arrow_type
from parley.serdes.avro.native import AvroPlans
from parley.serdes.avro.reference import ReferenceDecoder
from parley.serdes.decoder import DecodedValues
from parley.serdes.formats import DecodedGroup, GroupDecoder
from parley.serdes.native import NativeDecoder
from parley.types import Json

from .avro_cases import evolved, records, values
from .test_avro_decoder import EVERY_TYPE, encoded

pytestmark = pytest.mark.skipif(
    native.why_reference is not None, reason=f"no compiled decoder: {native.why_reference}"
)

NUMBERS = [
    b"\x01",
    b"\x80\x80\x80\x80\x10",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x7f",
    b"\x80" * 10,
]
"""Varints at the ends of what fits 32 and 64 bits, one too large, one without an end."""


def parsed(described: Json) -> AvroType:
    return parse_schema(json.dumps(described))


def decoders(writer: Json, reader: Json) -> tuple[GroupDecoder, ReferenceDecoder]:
    """Return the compiled decoder and the reference. Raises SchemaError where there is none."""
    wanted = parsed(reader)
    plans = AvroPlans(wanted, arrow_type(wanted))
    return plans.decoder_for(parsed(writer)), ReferenceDecoder(parsed(writer), wanted)


def same_arrays(one: pa.Array, other: pa.Array) -> bool:
    """Return whether arrays are equal; what is not a number equals itself."""
    if one.type != other.type or one.is_valid() != other.is_valid():
        return False
    if pa.types.is_struct(one.type):
        return all(map(same_arrays, one.flatten(), other.flatten()))
    if pa.types.is_map(one.type):
        return bool(one.offsets == other.offsets) and all(
            map(same_arrays, (one.keys, one.items), (other.keys, other.items))
        )
    if pa.types.is_list(one.type):
        return bool(one.offsets == other.offsets) and same_arrays(one.flatten(), other.flatten())
    if pa.types.is_floating(one.type):
        no_number = pc.fill_null(pc.is_nan(one), False)
        if no_number != pc.fill_null(pc.is_nan(other), False):
            return False
        one, other = (pc.if_else(no_number, 0.0, array) for array in (one, other))
    return bool(one == other)


def is_sound(array: pa.Array) -> bool:
    """Return whether all values are within what their types allow; times of a day may not be."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def hold_equal(ours: DecodedGroup | DecodedValues, theirs: DecodedGroup | DecodedValues) -> None:
    assert ours.faults == theirs.faults
    ours.array.validate()
    assert is_sound(ours.array) == is_sound(theirs.array)
    assert same_arrays(ours.array, theirs.array), (ours.array, theirs.array)


def hold(writer: Json, reader: Json, datums: Sequence[bytes]) -> DecodedGroup:
    """Hold the compiled decoder to the reference, for each datum and its damaged forms."""
    compiled, reference = decoders(writer, reader)
    assert isinstance(compiled, NativeDecoder)
    found = compiled.decode(datums)
    hold_equal(found, reference.decode(datums))
    return found


def damaged(datum: bytes) -> list[bytes]:
    """Return a datum cut at each byte, with each byte changed, and with what does not fit there."""
    cut = [datum[:end] for end in range(len(datum))]
    changed = [
        datum[:at] + bytes([datum[at] ^ flip]) + datum[at + 1 :]
        for at in range(len(datum))
        for flip in (1, 2, 0x40, 0x80, 0xFF)
    ]
    longer = [datum[:at] + one + datum[at:] for at in range(len(datum) + 1) for one in NUMBERS]
    return [datum, *cut, *changed, *longer, datum]


@pytest.mark.parametrize("kind", ["int", "long"])
def test_numbers_of_each_length_near_the_end_of_a_message(kind: str) -> None:
    """Where eight bytes are left a number is read at once, else byte by byte."""
    rest = {"name": "rest", "type": "bytes"}
    both: Json = {"type": "record", "name": "Two", "fields": [{"name": "n", "type": kind}, rest]}
    without: Json = {"type": "record", "name": "Two", "fields": [rest]}
    numbers = [
        bytes([low | 0x80]) + middle * (length - 2) + bytes([high])
        for length in range(2, 12)
        for low in (0, 0x55, 0x7F)
        for middle in (b"\x80", b"\xd5", b"\xff")
        for high in (0, 1, 2, 0x7F)
    ]
    numbers += [bytes([number]) for number in range(128)]
    behind = [bytes([2 * size]) + bytes(range(size)) for size in range(10)]
    datums = [number + after for number in numbers for after in behind]
    found = hold(both, both, datums)
    assert 0 < len(found.faults) < len(datums) / 2
    assert hold(both, without, datums).faults.keys() == found.faults.keys()


@settings(max_examples=40)
@given(data=st.data(), writer=records())
def test_random_schemas_and_values(data: st.DataObject, writer: Json) -> None:
    reader = data.draw(st.just(writer) | evolved(writer))
    rows = data.draw(st.lists(values(parsed(writer)), min_size=1, max_size=3))
    datums = [encoded(writer, row) for row in rows]
    noise = data.draw(st.lists(st.binary(max_size=12), max_size=5))
    try:
        decoders(writer, reader)
    except SchemaError:
        assume(False)
    found = hold(writer, reader, [*datums, *noise])
    assert not found.faults.keys() & set(range(len(datums)))


@settings(max_examples=8)
@given(data=st.data(), described=records())
def test_each_byte_of_random_messages_is_damaged_in_turn(
    data: st.DataObject, described: Json
) -> None:
    datum = encoded(described, data.draw(values(parsed(described))))
    assume(len(datum) < 60)
    hold(described, described, damaged(datum))
    fields = described["fields"]  # type: ignore[index,call-overload]
    less = {**described, "fields": fields[1:]}  # type: ignore[dict-item,index]
    try:
        decoders(described, less)
    except SchemaError:
        assume(False)
    hold(described, less, damaged(datum))


PLAIN: dict[str, object] = {
    "boolean": True,
    "int": -1,
    "long": 300,
    "float": 1.5,
    "double": -0.0,
    "bytes": b"\0",
    "string": "ä",
}


def every_type() -> tuple[Json, bytes]:
    kinds: dict[str, Json] = {name: one[0] for name, one in EVERY_TYPE.items()}
    kinds |= {f"plain_{name}": name for name in PLAIN}
    described: Json = {
        "type": "record",
        "name": "All",
        "fields": [{"name": name, "type": kind} for name, kind in kinds.items()],
    }
    without = json.loads(json.dumps(described).replace("logicalType", "left"))
    row = {name: one[1] for name, one in EVERY_TYPE.items()}
    return described, encoded(without, row | {f"plain_{name}": one for name, one in PLAIN.items()})


def test_each_byte_of_every_type_is_damaged_in_turn() -> None:
    described, datum = every_type()
    found = hold(described, described, damaged(datum))
    assert len(found.faults) > len(datum)
    assert found.array[0].as_py() == found.array[-1].as_py()


def test_what_is_not_selected_is_held_to_its_form_all_the_same() -> None:
    described, datum = every_type()
    fields = described["fields"]  # type: ignore[index,call-overload]
    for wanted in (fields[:1], fields[-1:], []):
        hold(described, {**described, "fields": wanted}, damaged(datum))  # type: ignore[dict-item]


PROMOTIONS = [
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"),
    ("float", "double"), ("string", "bytes"), ("bytes", "string"),
    ("int", {"type": "long", "logicalType": "timestamp-millis"}),
    ("string", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
    (["int", "string"], "long"), ("int", ["null", "double"]), (["null", "int"], ["string", "int"]),
    ("int", ["long", "string"]), (["float", "null"], ["double", "float"]),
    ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "float"]}),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "reader"), PROMOTIONS)
def test_promotions_of_numbers_at_their_ends(writer: Json, reader: Json) -> None:
    numbers = [b"\x00", b"\x02", b"\x80\x80\x80\x80\x08", b"\xfe\xff\xff\xff\x0f", *NUMBERS]
    floats = [b"\0\0\xc0\x7f", b"\0\0\xa0\x7f", b"\0\0\x80\xff", b"\1\0\0\0"]
    texts = [
        b"\x02a",
        b"\x04\xc3\xa4",
        b"\x02\x80",
        b"\x04\xe2\x82",
        b"\x06\xed\xa0\x80",
        b"\x02\xf5",
    ]
    datums = [*numbers, *floats, *texts, b"\x18" + b"\x7f" * 12, b"\x82\x01" + b"\xff" * 65, b""]
    branches = [bytes([index]) + one for index in (0, 2, 4, 1) for one in datums]
    lists = [b"\x02" + one + b"\x00" for one in numbers]
    hold(writer, reader, [*datums, *branches, *lists])


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
@pytest.mark.parametrize("precision", [1, 9, 18, 19, 38, 39, 57, 76])
def test_decimals_at_the_ends_of_their_precision(kind: str, precision: int) -> None:
    ends = [0, 1, -1, 10**precision - 1, -(10**precision) + 1, 10**precision, -(10**precision)]
    decimal = {"logicalType": "decimal", "precision": precision, "scale": 1}
    for size in (33, 34, 64, 65):
        raw = [one.to_bytes(size, "big", signed=True) for one in ends]
        if kind == "fixed":
            hold_same = {"type": "fixed", "name": "F", "size": size, **decimal}
            hold(hold_same, hold_same, raw)
            continue
        short = [one.to_bytes((one.bit_length() + 8) // 8, "big", signed=True) for one in ends]
        length = [bytes([len(one) * 2 & 0x7F | 0x80, len(one) * 2 >> 7]) for one in (*raw, *short)]
        datums = [size + one for size, one in zip(length, (*raw, *short), strict=True)]
        hold({"type": "bytes", **decimal}, {"type": "bytes", **decimal}, [*datums, b"\0"])


@pytest.mark.parametrize(("precision", "shift"), [(20, 1), (38, 18), (38, 37), (76, 38), (76, 75)])
def test_decimals_of_a_larger_scale_at_the_ends_of_their_precision(
    precision: int, shift: int
) -> None:
    writer, reader = (
        {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": scale}
        for digits, scale in ((precision - shift, 0), (precision, shift))
    )
    most = 10 ** (precision - shift)
    ends = [0, 1, -1, most - 1, 1 - most, most, -most, 10**precision - 1, 2**255, -(2**255)]
    raw = [one.to_bytes(33, "big", signed=True) for one in ends]
    found = hold(writer, reader, [b"\x42" + one for one in raw])
    assert found.faults.keys() == set(range(5, 10))


@pytest.mark.parametrize(
    ("written", "wanted", "kind"),
    [
        ("time-millis", "time-micros", "int"),
        ("timestamp-millis", "timestamp-micros", "long"),
        ("timestamp-micros", "timestamp-millis", "long"),
        ("local-timestamp-micros", "local-timestamp-nanos", "long"),
        ("timestamp-millis", "timestamp-nanos", "long"),
    ],
)
def test_times_in_another_unit_at_their_ends(written: str, wanted: str, kind: str) -> None:
    writer: Json = {"type": kind, "logicalType": written}
    reader: Json = {"type": "long", "logicalType": wanted}
    ends = [2**63 // factor - step for factor in (1, 10**3, 10**6) for step in (-1, 0, 1)]
    out = [encoded("long", one) for end in ends for one in (end, -end) if abs(one) < 2**63]
    hold(writer, reader, [*out, *NUMBERS])


def test_a_key_that_a_map_has_twice_counts_once() -> None:
    counts: Json = {"type": "map", "values": "int"}
    few = b"\x06\x02a\x02\x02b\x04\x02a\x06\x00"
    keys = [b"\x04" + f"{one:02}".encode() for one in [*range(20), 3]]
    many = bytes([2 * len(keys)]) + b"".join(key + b"\x02" for key in keys) + b"\x00"
    found = hold(counts, counts, [b"\x00", few, many, b"\x02\x02a\x02\x00", few[:-1]])
    assert found.array.to_pylist()[:2] == [[], [("a", 3), ("b", 2)]]
    assert found.faults.keys() == {4}


def test_items_without_bytes_cost_nothing_that_was_not_paid_for() -> None:
    nulls: Json = {"type": "array", "items": "null"}
    empty: Json = {"type": "map", "values": {"type": "record", "name": "E", "fields": []}}
    huge = [
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00",
        b"\xff" * 9 + b"\x01\x00\x00",
        b"\x80\x80\x08\x00",
    ]
    blocks = [b"\x03\x00\x00", b"\x03\x02\x00\x00", b"\x03\x01\x00", b"\x01\x7f\x00"]
    hold(nulls, nulls, [*huge, *blocks, b"\x02\x00"])
    hold(empty, empty, [*huge, *blocks, b"\x02\x02a\x00"])
    skipped: Json = {"type": "record", "name": "S", "fields": [{"name": "n", "type": nulls}]}
    hold(skipped, {**skipped, "fields": []}, [*huge, *blocks])  # type: ignore[dict-item]


def test_defaults_fill_what_a_writer_does_not_have() -> None:
    none: Json = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "long", "default": 7}]}
    defaults: list[tuple[Json, Json]] = [
        (["null", "string"], None), ("string", "ä"), ("bytes", "ÿ"), ("float", 1e-3),
        ({"type": "array", "items": "int"}, [1, 2]), ("boolean", True),
        ({"type": "map", "values": "double"}, {"k": 0.5}),
        (["int", "string"], 5), (["int", "long"], 6), (inner, {}),
        ({"type": "long", "logicalType": "timestamp-millis"}, 5),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\x01\x00"),
    ]  # fmt: skip
    reader: Json = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": f"f{index}", "type": kind, "default": value}
            for index, (kind, value) in enumerate(defaults)
        ],
    }
    hold(none, reader, [b"\x02", b"\x04", b"", b"\x06\x00"])


def test_a_default_of_one_of_two_records_of_one_name() -> None:
    one: Json = {"type": "record", "name": "a.X", "fields": [{"name": "v", "type": "string"}]}
    two: Json = {"type": "record", "name": "b.X", "fields": [{"name": "v", "type": "int"}]}
    union: list[Json] = [one, two]
    writer: Json = {"type": "record", "name": "R", "fields": []}
    reader: Json = {**writer, "fields": [{"name": "f", "type": union, "default": {"v": 1}}]}  # type: ignore[dict-item]
    found = hold(writer, reader, [b"", b"\0"])
    assert found.array[0].as_py() == {"f": {"member0": None, "member1": {"v": 1}}}


def test_branches_of_one_short_name_are_kept_apart() -> None:
    events = [
        {"type": "record", "name": f"{space}.Ev", "fields": [{"name": "x", "type": "int"}, *more]}
        for space, more in (("a", []), ("b", [{"name": "y", "type": "int"}]))
    ]
    writer, reader = (
        {"type": "record", "name": "Top", "fields": [{"name": "u", "type": one}]}
        for one in (events, events[::-1])
    )
    datum = encoded(writer, {"u": {"x": 2, "y": 3}})
    for other in (writer, reader):
        hold(writer, other, damaged(datum))


def test_what_only_the_reference_can_do_is_known_when_schemas_are_paired() -> None:
    node: Json = {
        "type": "record", "name": "N",
        "fields": [{"name": "x", "type": "int"}, {"name": "next", "type": ["null", "N"]}],
    }  # fmt: skip
    datum = encoded(node, {"x": 1, "next": {"x": 2, "next": None}})
    fields = node["fields"]  # type: ignore[index,call-overload]
    compiled, reference = decoders(node, {**node, "fields": fields[:1]})  # type: ignore[dict-item]
    assert isinstance(compiled, ReferenceDecoder)
    hold_equal(compiled.decode([datum, b""]), reference.decode([datum, b""]))

    chain: list[Json] = [{"type": "fixed", "name": "R0", "size": 1}]
    for level in range(1, 110):
        fields = [{"name": "a", "type": f"R{level - 1}"}]
        chain.append({"type": "record", "name": f"R{level}", "fields": fields})
    *before, last = map(json.dumps, chain)
    deep = parse_schema(last, before)
    assert AvroPlans(deep, arrow_type(deep)).compiled is None


def test_a_batch_in_which_all_is_damaged_is_read_once() -> None:
    described, datum = every_type()
    datums = [datum[:-3]] * 3_000
    found = hold(described, described, datums)
    assert len(found.faults) == found.array.null_count == len(datums)
