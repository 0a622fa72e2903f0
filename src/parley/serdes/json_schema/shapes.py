"""What a JSON Schema says about columns: a tree of shapes, and Arrow's type of each.

A JSON Schema restricts values more than it types them. What has one type becomes that type; what
may be several things is kept as the text of its JSON (`Kind.ANY`): values without a type, unions
that name more than what stands beside them, and an object that lies within itself. `connect.type`
is heeded, by which Kafka Connect says how wide a number is.

A schema of a stranger costs time and memory in proportion to what columns it has, and these are
bounded.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from parley.errors import SchemaError
from parley.serdes.json_schema.references import References, named
from parley.serdes.schemas import NamedSchema
from parley.types import Json

MAX_DEPTH = 100
MAX_SHAPES = 10_000
"""Columns within columns that one schema may have."""


class Kind(enum.Enum):
    """What a value is; the text is how errors name it."""

    TEXT = "a string"
    BYTES = "a string in base64"
    DATE = "a date such as 2026-11-03"
    TIMESTAMP = "a date-time such as 2026-11-03T04:05:06Z"
    BOOLEAN = "true or false"
    INTEGER = "a whole number"
    NUMBER = "a number"
    ARRAY = "an array"
    MAP = "an object"
    OBJECT = "an object with the schema's properties"
    NULL = "null"
    ANY = "any JSON"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value is. `bits` are those of a number, `items` the values of an array or a map.

    `nullable` says whether null may stand for a required property, `open` whether an object may
    have properties that the schema does not name, `several` whether any JSON stands for one of
    several shapes, which differ.
    """

    kind: Kind
    bits: int = 64
    items: Shape | None = None
    fields: Mapping[str, Shape] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    nullable: bool = False
    open: bool = True
    several: bool = False

    def has(self, *kinds: Kind) -> bool:
        """Return whether it, or what it holds, is of one of these kinds."""
        inside = self.fields.values() if self.items is None else (self.items,)
        return self.kind in kinds or any(one.has(*kinds) for one in inside)


ANY = Shape(Kind.ANY, nullable=True)
_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_PLAIN = {
    Kind.TEXT: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.BOOLEAN: pa.bool_(),
    Kind.NULL: pa.null(),
    Kind.ANY: pa.string(),
}
_FORMATS = {"date": Kind.DATE, "date-time": Kind.TIMESTAMP}
_TYPES = {"string": Kind.TEXT, "boolean": Kind.BOOLEAN, "null": Kind.NULL, "number": Kind.NUMBER}
_WITHIN = {Kind.TEXT: (Kind.BYTES, Kind.DATE, Kind.TIMESTAMP), Kind.NUMBER: (Kind.INTEGER,)}
_SAYING_TYPES = frozenset(("type", "const", "enum"))
_CONNECT_BITS = {"int8": 8, "int16": 16, "int32": 32, "float32": 32}


def arrow_type(shape: Shape) -> pa.DataType:
    """Return the type of a shape's column. All of its fields may be null."""
    if shape.kind is Kind.INTEGER:
        return _INTEGERS[shape.bits]
    if shape.kind is Kind.NUMBER:
        return pa.float32() if shape.bits == 32 else pa.float64()
    if shape.kind is Kind.OBJECT:
        return pa.struct([(name, arrow_type(one)) for name, one in shape.fields.items()])
    if shape.items is not None:
        inner = arrow_type(shape.items)
        return pa.list_(inner) if shape.kind is Kind.ARRAY else pa.map_(pa.string(), inner)
    return _PLAIN[shape.kind]


def _both(one: Shape, other: Shape) -> Shape | None:
    """Return the shape of what is of two shapes: the narrower one, and of objects all properties;
    None where they contradict each other.
    """
    nullable = one.nullable and other.nullable
    kinds = {one.kind, other.kind}
    if Kind.ANY in kinds:
        return replace(other if one.kind is Kind.ANY else one, nullable=nullable)
    if kinds == {Kind.OBJECT}:
        shared = one.fields.keys() & other.fields.keys()
        met = {name: _both(one.fields[name], other.fields[name]) for name in shared}
        known = {name: shape for name, shape in met.items() if shape is not None}
        return Shape(
            Kind.OBJECT,
            fields={**one.fields, **other.fields, **known},
            required=one.required | other.required,
            nullable=nullable,
            open=one.open and other.open,
        )
    if len(kinds) == 1:
        items = one.items and other.items and (_both(one.items, other.items) or ANY)
        return replace(one, bits=min(one.bits, other.bits), items=items, nullable=nullable)
    for narrow, wide in ((one, other), (other, one)):
        if narrow.kind in _WITHIN.get(wide.kind, ()):
            return replace(narrow, nullable=nullable)
    return None


def _all_of(parts: Sequence[Shape]) -> Shape:
    """Return the shape of what is of all shapes; any JSON where they contradict each other."""
    found, *more = parts
    for one in more:
        met = _both(found, one)
        if met is None:
            return ANY
        found = met
    return found


def _with_one_of(own: Shape, listed: Sequence[Shape]) -> Shape:
    """Return the shape of what is of a shape, and of one of others, too.

    Where these differ it is any JSON, unless the shape itself has a place for all that they name.
    """
    agreed = _agreed(listed)
    if agreed.kind is not Kind.ANY:
        return _both(own, agreed) or agreed
    nullable = own.nullable and agreed.nullable
    if own.kind is not Kind.ANY and all(_holds(own, one) for one in listed):
        return replace(own, nullable=nullable)
    return replace(agreed, nullable=nullable, several=own.several or agreed.several)


def _agreed(listed: Sequence[Shape]) -> Shape:
    """Return the shape that all have which are not null; any JSON where they differ."""
    kept = [one for one in listed if one.kind is not Kind.NULL]
    if not kept:
        return Shape(Kind.NULL, nullable=True)
    nullable = len(kept) < len(listed) or any(one.nullable for one in kept)
    if any(one != kept[0] for one in kept[1:]):
        return replace(ANY, nullable=nullable, several=any(one != ANY for one in kept))
    return replace(kept[0], nullable=nullable)


def _holds(own: Shape, other: Shape) -> bool:
    """Return whether columns of a shape have a place for all that another one names."""
    if own.kind is Kind.ANY or not (own.items or own.fields):
        return True
    if other.several:
        return False
    if own.items is not None:
        inside = [other.items] if other.items is not None else other.fields.values()
        return all(_holds(own.items, one) for one in inside)
    return all(
        name in own.fields and _holds(own.fields[name], one) for name, one in other.fields.items()
    )


def parse_shape(text: str, references: Sequence[NamedSchema] = ()) -> Shape:
    """Return the shape of a schema's values. Raises SchemaError for a text that is no schema."""
    roots = {one.name: _json(one.schema.text) for one in references}
    root = _json(text)
    return _Shapes(References(roots)).shape(root, root, "", ())


def _json(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is no JSON: {error}") from error
    if not isinstance(found, dict | bool):
        raise SchemaError("a JSON Schema is an object, or true or false")
    return found


class _Shapes:
    """Makes the shapes of one schema's parts, and counts them."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._made = 0

    def shape(self, node: Json, root: Json, path: str, above: tuple[int, ...]) -> Shape:
        """Return the shape of a part of a schema; `above` are the parts around it."""
        self._made += 1
        if len(above) > MAX_DEPTH or self._made > MAX_SHAPES:
            raise SchemaError(
                f"the schema is nested deeper than {MAX_DEPTH}, or has more than {MAX_SHAPES} "
                "columns",
                path=path,
            )
        if node is False:
            return Shape(Kind.NULL, nullable=True)
        if not isinstance(node, dict):
            if node is True:
                return ANY
            raise SchemaError(f"{named(node)} is no schema", path=path)
        if id(node) in above:
            return ANY  # it lies within itself
        above = (*above, id(node))
        reference = node.get("$ref")
        if isinstance(reference, str):
            target, root = self._references.resolved(reference, root, path)
            return self.shape(target, root, path, above)
        own = self._typed(node, root, path, above)
        others = [self._listed(node, key, root, path, above) for key in ("oneOf", "anyOf")]
        if any(others) and not _SAYING_TYPES & node.keys():
            own = replace(own, nullable=True)  # the others say it
        found = _all_of([*self._listed(node, "allOf", root, path, above), own])
        for listed in filter(None, others):
            found = _with_one_of(found, listed)
        return found

    def _listed(
        self, node: dict[str, Json], key: str, root: Json, path: str, above: tuple[int, ...]
    ) -> list[Shape]:
        listed = node.get(key)
        if not isinstance(listed, list):
            return []
        return [self.shape(one, root, path, above) for one in listed]

    def _typed(self, node: dict[str, Json], root: Json, path: str, above: tuple[int, ...]) -> Shape:
        names = _type_names(node)
        nullable = "null" in names
        kept = names - {"null"}
        if kept == {"integer", "number"}:
            kept = {"number"}
        if not kept:
            return Shape(Kind.NULL, nullable=True) if nullable else ANY
        if len(kept) > 1:
            return replace(ANY, nullable=nullable, several="properties" in node or "items" in node)
        (name,) = kept
        if name == "object":
            found = self._object(node, root, path, above)
        elif name == "array":
            found = self._array(node, root, path, above)
        else:
            found = _scalar(name, node)
        return replace(found, nullable=nullable)

    def _object(
        self, node: dict[str, Json], root: Json, path: str, above: tuple[int, ...]
    ) -> Shape:
        properties, more = node.get("properties"), node.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            fields = {
                name: self.shape(one, root, f"{path}.{name}" if path else name, above)
                for name, one in properties.items()
            }
            listed = node.get("required")
            required = frozenset(map(str, listed)) if isinstance(listed, list) else frozenset()
            return Shape(
                Kind.OBJECT,
                fields=fields,
                required=required & fields.keys(),
                open=more is not False,
            )
        if isinstance(more, dict):
            return Shape(Kind.MAP, items=self.shape(more, root, path, above))
        return ANY

    def _array(self, node: dict[str, Json], root: Json, path: str, above: tuple[int, ...]) -> Shape:
        items = node.get("items", True)
        # a list of schemas is one for each place
        inner = ANY if isinstance(items, list) else self.shape(items, root, path, above)
        return Shape(Kind.ARRAY, items=inner)


def _type_names(node: dict[str, Json]) -> set[str]:
    """Return the types that a schema allows, as far as it says."""
    said = node.get("type")
    if isinstance(said, str):
        return {said}
    if isinstance(said, list):
        return {one for one in said if isinstance(one, str)}
    listed = [node["const"]] if "const" in node else node.get("enum")
    if isinstance(listed, list) and listed:
        return {_type_of(one) for one in listed}
    if "properties" in node:
        return {"object"}
    return {"array"} if "items" in node else set()


def _type_of(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]


def _scalar(name: str, node: dict[str, Json]) -> Shape:
    connect = node.get("connect.type")
    bits = _CONNECT_BITS.get(str(connect), 64)
    if name == "integer":
        return Shape(Kind.INTEGER, bits=bits)
    if name == "string":
        if node.get("contentEncoding") == "base64" or connect == "bytes":
            return Shape(Kind.BYTES)
        return Shape(_FORMATS.get(str(node.get("format")), Kind.TEXT))
    if name not in _TYPES:
        raise SchemaError(f"there is no type {named(name)} in JSON")
    return Shape(_TYPES[name], bits=bits if name == "number" and bits == 32 else 64)
