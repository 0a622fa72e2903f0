"""Random Avro schemas, and random values of them."""

from __future__ import annotations

from hypothesis import strategies as st

from parley.serdes.avro import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from parley.serdes.avro.model import PRIMITIVES
from parley.types import Json

DEFAULTS: dict[str, Json] = {
    "null": None, "boolean": True, "int": 1, "long": 2, "float": 1.5, "double": 2.5,
    "bytes": "ÿ", "string": "x",
}  # fmt: skip
_SCALARS = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=6),
    "string": st.text(max_size=6),
}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2, names: list[str] | None = None) -> Json:
    """Draw a schema; names are few, so that two schemas often have the same."""
    taken: list[str] = [] if names is None else names
    kinds = ["primitive"] * 3 + (["array", "map", "record", "enum", "fixed", "union"] * (depth > 0))
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "array":
        return {"type": "array", "items": draw(schemas(depth - 1, taken))}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(depth - 1, taken))}
    if kind == "union":
        branches = draw(st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=3, unique=True))
        return list(branches)
    name = draw(st.sampled_from(["A", "B", "n.C"]))
    if name in taken:
        return "string"
    taken.append(name)
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(1, 2))}
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from(["X", "Y", "Z"]), min_size=1, unique=True))
        made: dict[str, Json] = {"type": "enum", "name": name, "symbols": list(symbols)}
        if draw(st.booleans()):
            made["default"] = symbols[0]
        return made
    return draw(records(name, depth, taken))


@st.composite
def records(
    draw: st.DrawFn, name: str = "R", depth: int = 2, names: list[str] | None = None
) -> Json:
    """Draw a record of up to three fields."""
    taken = [name] if names is None else names
    fields: list[Json] = []
    for field in draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True)):
        kind = draw(schemas(depth - 1, taken))
        one: dict[str, Json] = {"name": field, "type": kind}
        first = kind[0] if isinstance(kind, list) else kind
        if isinstance(first, str) and first in DEFAULTS and draw(st.booleans()):
            one["default"] = DEFAULTS[first]
        if draw(st.integers(0, 5)) == 0:
            one["aliases"] = [draw(st.sampled_from(["a", "b", "z"]))]
        fields.append(one)
    return {"type": "record", "name": name, "doc": "left out", "fields": fields}


PROMOTED = {
    "int": ["long", "float", "double", ["null", "int"]],
    "long": ["double", ["long", "string"]],
    "float": ["double"],
    "string": ["bytes", ["null", "string"]],
    "null": [["int", "null"]],
}


@st.composite
def evolved(draw: st.DrawFn, writer: Json) -> Json:
    """Draw a reader of a record: fields dropped, added, in another order, and of wider types."""
    assert isinstance(writer, dict)
    assert isinstance(writer["fields"], list)
    fields: list[Json] = []
    for one in draw(st.permutations(writer["fields"])):
        assert isinstance(one, dict)
        if draw(st.integers(0, 3)) == 0:
            continue
        kind = one["type"]
        wider = PROMOTED.get(kind, []) if isinstance(kind, str) else []
        fields.append({"name": one["name"], "type": draw(st.sampled_from([kind, *wider]))})
    if draw(st.booleans()):
        added: dict[str, Json] = {"name": "d", "type": ["null", {"type": "array", "items": "int"}]}
        fields.append({**added, "default": None})
        fields.append(
            {"name": "e", "type": {"type": "map", "values": "string"}, "default": {"k": "ÿ"}}
        )
    return {**writer, "fields": fields}


def values(kind: AvroType) -> st.SearchStrategy[object]:
    """Return values of a schema, as fastavro writes them."""
    if isinstance(kind, Primitive):
        return _SCALARS[kind.kind]
    if isinstance(kind, Union):
        return st.one_of([values(one) for one in kind.branches])
    if isinstance(kind, Array):
        return st.lists(values(kind.items), max_size=3)
    if isinstance(kind, Map):
        return st.dictionaries(st.text(max_size=3), values(kind.values), max_size=3)
    if isinstance(kind, Enum):
        return st.sampled_from(kind.symbols)
    if isinstance(kind, Fixed):
        return st.binary(min_size=kind.size, max_size=kind.size)
    assert isinstance(kind, Record)
    return st.fixed_dictionaries({one.name: values(one.type) for one in kind.fields})
