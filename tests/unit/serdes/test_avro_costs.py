"""What an Avro schema of a stranger may cost: schemas that name records again and again."""

from __future__ import annotations

import json

import pytest

from parley.errors import SchemaError
from parley.serdes.avro import defaults, parse_schema, resolution, resolving
from parley.serdes.avro.columns import arrow_type
from parley.serdes.avro.model import AvroType, Union
from parley.serdes.avro.reading import compile_reader
from parley.serdes.avro.writing import compile_writer
from parley.types import Json

from .test_avro_decoder import encoded
from .test_avro_resolution import Described, field, record, serialized


def doubled(levels: int, leaf: Described) -> Described:
    """Return a record that holds the next one twice, and so on, with defaults if the leaf has."""
    more: Described = {"default": {}} if "default" in leaf else {}
    made = record(f"R{levels}", leaf)
    for level in range(levels - 1, -1, -1):
        made = record(f"R{level}", field("a", made, **more), field("b", f"R{level + 1}", **more))
    return made


@pytest.fixture
def paired(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of types that were paired or passed over, at each step."""
    counts: list[int] = []
    count = resolving._Resolver._count

    def counting(self: resolving._Resolver[object]) -> None:
        count(self)
        counts.append(self._parts)

    monkeypatch.setattr(resolving._Resolver, "_count", counting)
    return counts


def test_pairing_schemas_grows_with_their_length(paired: list[int]) -> None:
    """Read, passed over, and with a leaf that cannot be read below unions that allow for that."""
    most = []
    for levels in (20, 40):
        paired.clear()
        writer = doubled(levels, field("a", "int"))
        held = record("Holder", field("skipped", writer), field("read", "R0"))
        texts = [json.dumps(one) for one in (held, record("Holder", field("read", writer)))]
        compile_reader(*map(parse_schema, texts), plain=True)
        optional = json.dumps(writer)
        for level in range(1, levels + 1):
            optional = optional.replace(f'"type": "R{level}"', f'"type": ["null", "R{level}"]')
        reader = optional.replace('"int"', '"string"')
        with pytest.raises(SchemaError, match="int cannot be read as string"):
            compile_reader(parse_schema(optional), parse_schema(reader), plain=True)
        most.append(len(paired))
    assert most[1] < 2.5 * most[0]
    assert most[1] < 2_000


def test_failures_that_unions_allow_for_are_found_once(paired: list[int]) -> None:
    def chain(levels: int, leaf: str) -> Json:
        made = record(f"R{levels}", field("bad", leaf))
        for level in range(levels - 1, -1, -1):
            fields = [field("a", ["null", made]), field("b", ["null", f"R{level + 1}"])]
            made = record(f"R{level}", *fields, field("bad", leaf))
        return record("Top", field("u", ["null", made]))

    writer, reader = (parse_schema(json.dumps(chain(40, leaf))) for leaf in ("int", "string"))
    compile_reader(writer, reader)
    assert len(paired) < 1_000


def web(namespace: str, size: int) -> AvroType:
    """Return records of which each has a union of those before it, and the first one of all."""
    names = [f"{namespace}.W{i}" for i in range(size)]
    inner = [record(names[i], field("u", ["null", *names[: i + 1]])) for i in range(1, size)]
    return parse_schema(json.dumps(record(names[0], field("u", ["null", *inner]))))


def test_unions_within_the_records_of_unions_are_compared_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []
    compare = resolution.Readability._compare

    def counting(self: resolution.Readability, reader: AvroType, writer: AvroType) -> bool:
        counts.append(0)
        return compare(self, reader, writer)

    monkeypatch.setattr(resolution.Readability, "_compare", counting)
    most = []
    for size in (10, 20):
        counts.clear()
        compile_reader(web("w", size), web("r", size))
        most.append(len(counts))
    assert most[1] < 9 * most[0], "each pair of branches once in each union"
    monkeypatch.setattr(resolution, "MAX_COMPARED", 1_000)
    with pytest.raises(SchemaError, match="takes more than 1000 comparisons"):
        compile_reader(web("w", 20), web("r", 20))


def test_what_is_known_of_one_branch_holds_for_the_next() -> None:
    """That r.A can be read is assumed while r.B within it is looked at, and it cannot."""

    def read_as(namespace: str, leaf: str, within: Json) -> Described:
        return record(f"{namespace}.A", field("b", within), field("leaf", leaf))

    within = record("r.B", field("a", ["null", "r.A"]))
    reader = parse_schema(json.dumps([read_as("r", "string", within), read_as("s", "int", "r.B")]))
    writer = parse_schema(
        json.dumps(read_as("w", "int", record("w.B", field("a", ["null", "w.A"]))))
    )
    assert isinstance(reader, Union)
    known = resolution.Readability()
    for _ in range(2):
        assert [known.can_read(one, writer) for one in reader.branches] == [False, False]
        assert not known.can_read(reader, writer)
    good = parse_schema(json.dumps(read_as("r", "int", within)))
    assert resolution.Readability().can_read(good, writer)


def test_writer_and_reader_have_parts_without_number_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolving, "MAX_PARTS", 50)
    wide = parse_schema(json.dumps(record("W", *(field(f"f{i}", "int") for i in range(60)))))
    with pytest.raises(SchemaError, match="more than 50 parts"):
        compile_reader(wide, wide)


@pytest.mark.parametrize("leaf", ["null", {"type": "fixed", "name": "F", "size": 0}, record("E")])
def test_values_without_bytes_are_not_as_many_as_a_schema_likes(leaf: Json) -> None:
    parse_schema(json.dumps(doubled(8, field("a", leaf))))
    with pytest.raises(
        SchemaError, match="the record R0 has more than 10000 values that take no bytes"
    ):
        parse_schema(json.dumps(doubled(30, field("a", leaf))))
    paid = record("P", field("a", leaf), field("list", {"type": "array", "items": "P"}))
    parse_schema(json.dumps(paid))


def test_columns_are_counted() -> None:
    assert arrow_type(parse_schema(json.dumps(doubled(11, field("a", "int"))))).num_fields == 2
    with pytest.raises(SchemaError, match=r"a: the schema has more than 10000 columns"):
        arrow_type(parse_schema(json.dumps(doubled(30, field("a", "int")))))


def test_types_that_lead_far_into_each_other_are_refused() -> None:
    chain = [record("R0", field("a", "int"))]
    chain += [record(f"R{i}", field("a", f"R{i - 1}")) for i in range(1, 500)]
    *before, last = map(json.dumps, chain)
    with pytest.raises(SchemaError, match="nested too deep"):
        arrow_type(parse_schema(last, before))


def test_defaults_are_compared_with_each_record_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "MAX_COMPARED", 20_000)
    other = record("B", field("x", ["null", "A", "B"]))
    both: list[Json] = [record("A", field("x", ["null", "A", other])), "B"]
    for leaf in (None, 1):
        default: Json = leaf
        for _ in range(80):
            default = {"x": default}
        text = json.dumps(record("T", field("f", both, default=default)))
        if leaf is None:
            assert serialized(json.loads(text), {}) == encoded(json.loads(text), {})
        else:
            with pytest.raises(SchemaError, match=r"^f: the default .* does not fit"):
                parse_schema(text)


def test_defaults_that_hold_very_much_are_refused() -> None:
    compile_writer(parse_schema(json.dumps(doubled(10, field("a", "int", default=0)))))
    with pytest.raises(SchemaError, match="the defaults of the schema hold more than 100000"):
        parse_schema(json.dumps(doubled(40, field("a", "int", default=0))))


def test_a_default_is_compared_so_often_and_no_more() -> None:
    wide = record("W", *(field(f"f{i}", "int", default=0) for i in range(1_000)))
    text = record("T", field("a", {"type": "array", "items": wide}, default=[{}] * 2_000))
    with pytest.raises(SchemaError, match=r"^a: the defaults take too long"):
        parse_schema(json.dumps(text))
