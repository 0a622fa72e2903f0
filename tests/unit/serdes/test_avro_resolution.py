"""One schema's values read as another's: what fastavro reads."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

from parley.errors import SchemaError
from parley.serdes import ColumnDecoder, ColumnEncoder, Deserializer, SchemaId, Serializer
from parley.serdes.avro import parse_schema
from parley.serdes.avro.reading import compile_reader
from parley.serdes.avro.writing import compile_writer
from parley.types import Json

from .test_avro_decoder import Source, binary, encoded, framed, schema

Described = dict[str, Json]


def record(name: str, *fields: Described) -> Described:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Json, **more: Json) -> Described:
    return {"name": name, "type": kind, **more}


def ours(writer: Json, reader: Json, datum: bytes) -> object:
    read = Deserializer(Source({SchemaId(1): schema(writer)}), schema(reader))
    return read(framed(1, datum))


def theirs(writer: Json, reader: Json, datum: bytes) -> object:
    """Return what fastavro reads."""
    return fastavro.schemaless_reader(
        io.BytesIO(datum), json.loads(json.dumps(writer)), json.loads(json.dumps(reader))
    )


def serialized(described: Json, value: object) -> bytes:
    datum = Serializer(None, schema=schema(described), framing="none")(value)
    assert datum is not None
    return datum


def columns(writer: Json, reader: Json, *datums: bytes) -> pa.Array:
    decoder = ColumnDecoder(Source({SchemaId(1): schema(writer)}), schema(reader))
    found = decoder.decode_values(binary(*(framed(1, one) for one in datums)))
    assert not found.faults
    return found.array


@pytest.mark.parametrize("writers_name", ["V", "Renamed"])
def test_of_a_union_with_one_branch_beside_null_it_is_said_why_that_cannot_be_read(
    writers_name: str,
) -> None:
    writer = record(writers_name, field("a", "string"))
    reader: Json = ["null", record("V", field("a", "int"))]
    decoder = ColumnDecoder(Source({SchemaId(1): schema(writer)}), schema(reader))
    found = decoder.decode_values(binary(framed(1, encoded(writer, {"a": "x"}))))
    said = "a: string cannot be read as int" if writers_name == "V" else "V cannot read Renamed"
    assert said in found.faults[0].why
    assert "union" not in found.faults[0].why


# -- records that contain themselves ---------------------------------------------------------------

V, WIDE = field("v", "int", default=7), field("v", "long")
NEXT = field("n", ["null", "L"], default=None)
ALL = field("all", {"type": "array", "items": "L"}, default=[{"v": 1, "all": []}])
NODE, FLAT = record("L", V, NEXT, ALL), record("L", WIDE)
ONE: dict[str, object] = {"v": 3, "n": None, "all": []}
ROW: dict[str, object] = {"v": 1, "n": {"v": 2, "n": None, "all": [ONE]}, "all": [ONE, ONE]}


def test_records_that_contain_themselves_are_values() -> None:
    datum = serialized(NODE, ROW)
    assert datum == encoded(NODE, ROW)
    assert ours(NODE, NODE, datum) == theirs(NODE, NODE, datum) == ROW
    assert serialized(NODE, {}) == encoded(NODE, {})


@pytest.mark.parametrize(
    "reader", [FLAT, record("L", ALL, WIDE, NEXT, field("w", "string", default="x")), NODE]
)
def test_a_record_within_itself_is_resolved_or_passed_over(reader: Described) -> None:
    datum = encoded(NODE, ROW)
    assert ours(NODE, reader, datum) == theirs(NODE, reader, datum)
    end = field("end", "string")
    held = record("Holder", field("l", NODE), end)
    datum = encoded(held, {"l": ROW, "end": "."})
    for wanted in (record("Holder", field("l", reader), end), record("Holder", end)):
        assert ours(held, wanted, datum) == theirs(held, wanted, datum)


def test_only_the_reader_contains_itself() -> None:
    datum = encoded(FLAT, {"v": 5})
    reader = record("L", WIDE, NEXT, field("all", {"type": "array", "items": "L"}, default=[]))
    assert ours(FLAT, reader, datum) == theirs(FLAT, reader, datum) == {**ONE, "v": 5}


def test_columns_name_the_field_that_none_can_hold_or_leave_it_out() -> None:
    with pytest.raises(SchemaError, match=r"^n: the record L contains itself"):
        ColumnDecoder(None, schema(NODE), framing="none")
    chosen = ColumnDecoder(None, schema(NODE), framing="none", columns=["v"])
    assert chosen.decode_values(binary(encoded(NODE, ROW))).array.to_pylist() == [{"v": 1}]
    assert columns(NODE, FLAT, encoded(NODE, ROW)).to_pylist() == [{"v": 1}]


def test_what_cannot_be_read_of_a_record_within_itself_is_said() -> None:
    text = record("L", NEXT, field("v", "string"))
    with pytest.raises(SchemaError, match=r"^v: int cannot be read as string"):
        compile_reader(parse_schema(json.dumps(NODE)), parse_schema(json.dumps(text)))


@pytest.mark.parametrize(
    "field_of_itself",
    [
        field("a", ["null", "L"], default={}),
        field("a", {"type": "array", "items": "L"}, default=[{"v": 1}]),
        field("a", {"type": "map", "values": "L"}, default={"k": {}}),
    ],
)
def test_a_default_that_holds_itself_is_refused_with_its_field(field_of_itself: Described) -> None:
    with pytest.raises(SchemaError, match=r"^a: the default holds itself, without an end"):
        parse_schema(json.dumps(record("L", V, field_of_itself)))


def test_a_default_that_cannot_be_written_is_refused_with_its_field() -> None:
    large = parse_schema(json.dumps(record("R", field("a", "float", default=1e300))))
    with pytest.raises(SchemaError, match=r"^a: the default .* is too large for float"):
        compile_writer(large)


# -- branches of unions ----------------------------------------------------------------------------


def event(name: str, *names: str, **more: Json) -> Described:
    return {**record(name, *(field(one, "int") for one in names)), **more}


EV_A, EV_B = event("a.Ev", "x"), event("b.Ev", "x", "y")


@pytest.mark.parametrize("reader", [[EV_A, EV_B], [EV_B, EV_A], ["null", "string", EV_A, EV_B]])
def test_a_branch_is_found_by_its_full_name(reader: Json) -> None:
    written: Json = [EV_A, EV_B]
    writer, wanted = record("Top", field("u", written)), record("Top", field("u", reader))
    rows: list[tuple[str, object]] = [("a.Ev", {"x": 1}), ("b.Ev", {"x": 2, "y": 3})]
    datums = [encoded(writer, {"u": row}) for row in rows]
    for (name, value), datum in zip(rows, datums, strict=True):
        assert serialized(writer, {"u": (name, value)}) == datum
        assert ours(writer, wanted, datum) == {"u": value}
        assert theirs(writer, writer, datum) == {"u": value}
        assert ours(writer, writer, datum) == {"u": value}
    found = columns(writer, wanted, *datums).field("u")
    kept = [one for one in reader if one not in ("null", "string")]  # type: ignore[union-attr]
    shift = len(found.type) - len(kept)
    for row, (name, value) in zip(found.to_pylist(), rows, strict=True):
        place = next(i for i, one in enumerate(kept) if one["name"] == name)  # type: ignore[index,call-overload]
        members = {key: one for key, one in row.items() if one is not None}
        assert members == {f"member{place + shift}": value}


def test_a_column_of_such_a_union_is_written_as_it_was_read() -> None:
    writer = record("Top", field("u", [EV_A, EV_B]))
    datum = encoded(writer, {"u": ("b.Ev", {"x": 2, "y": 3})})
    column = columns(writer, writer, datum)
    written = ColumnEncoder(None, schema=schema(writer), framing="none").encode_values(column)
    assert written.array.to_pylist() == [datum]


@pytest.mark.parametrize(
    ("reader", "place"),
    [
        ([event("a.Ev", "x", aliases=["b.Ev"]), event("c.Ev", "x", "y")], 0),
        ([event("c.Ev", "x", "y"), event("d.New", "x", aliases=["b.Ev"])], 1),
        ([event("d.New", "x", aliases=["b.Ev"]), EV_B], 1),
        ([event("c.Ev", "x", "z"), event("d.Ev", "y")], 1),
        ([event("d.Ev", "y"), event("e.Ev", "x")], 0),
    ],
)
def test_aliases_come_before_short_names_and_full_names_before_both(
    reader: Json, place: int
) -> None:
    array = columns(EV_B, reader, encoded(EV_B, {"x": 2, "y": 3}))
    (row,) = array.to_pylist()
    assert [name for name, one in row.items() if one is not None] == [f"member{place}"]


def test_a_branch_of_the_same_full_name_is_not_passed_by_for_another() -> None:
    text = record("b.Ev", field("x", "string"))
    pair = (parse_schema(json.dumps(one)) for one in (EV_B, [EV_A, text]))
    with pytest.raises(SchemaError, match="x: int cannot be read as string"):
        compile_reader(*pair)


# -- units and scales ------------------------------------------------------------------------------


def time_of(name: str) -> Json:
    return {"type": "int" if name in ("date", "time-millis") else "long", "logicalType": name}


def decimal_of(precision: int, scale: int, size: int = 0) -> Json:
    of: Described = {"type": "fixed", "name": "D", "size": size} if size else {"type": "bytes"}
    return {**of, "logicalType": "decimal", "precision": precision, "scale": scale}


EXACT = [
    ("time-millis", "time-micros", dt.time(1, 2, 3, 4_000)),
    ("timestamp-millis", "timestamp-micros", dt.datetime(1969, 5, 6, 7, 8, 9, 10_000, dt.UTC)),
    ("timestamp-micros", "timestamp-millis", dt.datetime(2023, 5, 6, 7, 8, 9, 10_011, dt.UTC)),
    ("local-timestamp-millis", "local-timestamp-micros", dt.datetime(2023, 5, 6, 7, 8, 9, 10_000)),
    ("local-timestamp-micros", "local-timestamp-millis", dt.datetime(1900, 5, 6, 7, 8, 9, 10_011)),
]


@pytest.mark.parametrize(("written", "wanted", "value"), EXACT)
def test_times_of_another_unit_are_the_same_times(
    written: str, wanted: str, value: dt.datetime | dt.time
) -> None:
    writer, reader = (
        record("R", field("a", ["null", time_of(one)], default=None)) for one in (written, wanted)
    )
    datum = encoded(writer, {"a": value})
    assert ours(writer, reader, datum) == theirs(writer, reader, datum) == {"a": value}
    assert columns(writer, reader, datum).to_pylist() == [{"a": value}]


@pytest.mark.parametrize(
    ("written", "factor"), [("timestamp-millis", 10**6), ("timestamp-micros", 1000)]
)
def test_nanoseconds_are_made_of_times_in_other_units(written: str, factor: int) -> None:
    writer, reader = time_of(written), time_of("timestamp-nanos")
    datum = serialized(writer, -1_700_000_000_001)
    assert ours(writer, reader, datum) == -1_700_000_000_001 * factor
    column = columns(writer, reader, datum)
    assert column.cast(pa.int64()).to_pylist() == [-1_700_000_000_001 * factor]


@pytest.mark.parametrize("size", [0, 16])
def test_decimals_of_a_larger_scale_are_the_same_numbers(size: int) -> None:
    writer, reader = decimal_of(10, 2, size), decimal_of(38, 30, size)
    for text in ("-12345678.91", "0.01", "0.00"):
        datum = serialized(writer, Decimal(text))
        assert theirs(writer, writer, datum) == Decimal(text)
        found = ours(writer, reader, datum)
        assert found == Decimal(text)
        assert columns(writer, reader, datum).to_pylist() == [Decimal(text)]


MISREAD = [
    (
        time_of("timestamp-nanos"),
        time_of("timestamp-micros"),
        "timestamp-nanos .* timestamp-micros",
    ),
    (
        time_of("timestamp-nanos"),
        time_of("timestamp-millis"),
        "timestamp-nanos .* timestamp-millis",
    ),
    (time_of("date"), time_of("timestamp-millis"), "date .* timestamp-millis"),
    (time_of("time-micros"), time_of("timestamp-micros"), "time-micros .* timestamp-micros"),
    (decimal_of(10, 4), decimal_of(10, 2), r"decimal\(10, 4\) .* decimal\(10, 2\)"),
    (decimal_of(10, 2), decimal_of(10, 4), r"decimal\(10, 2\) .* decimal\(10, 4\)"),
    (decimal_of(10, 4, 8), decimal_of(9, 2, 8), r"decimal\(10, 4\) .* decimal\(9, 2\)"),
]


@pytest.mark.parametrize(("written", "wanted", "why"), MISREAD)
@pytest.mark.parametrize("optional", [False, True])
def test_what_would_be_another_number_is_refused_with_its_field(
    written: Json, wanted: Json, why: str, optional: bool
) -> None:
    writer, reader = (
        record("T", field("in", record("R", field("a", ["null", one] if optional else one))))
        for one in (written, wanted)
    )
    pair = [parse_schema(json.dumps(one)) for one in (writer, reader)]
    with pytest.raises(SchemaError, match=f"^in.a: {why} without loss; make the field"):
        compile_reader(*pair)
    found = ColumnDecoder(Source({SchemaId(1): schema(writer)}), schema(reader)).decode_values(
        binary(framed(1, b"\0"))
    )
    assert found.faults[0].code == "schema"


def test_numbers_without_a_logical_type_are_what_either_side_says() -> None:
    assert ours("long", time_of("timestamp-millis"), b"\x02").microsecond == 1000  # type: ignore[attr-defined]
    assert ours(time_of("timestamp-millis"), "long", b"\x02") == 1
    assert ours("bytes", decimal_of(4, 2), b"\x02\x07") == Decimal("0.07")
    assert ours(decimal_of(4, 2), decimal_of(3, 2), b"\x02\x07") == Decimal("0.07")
