"""What a JSON Schema says about columns: a tree of shapes, and Arrow's type of each.

A JSON Schema restricts values more than it types them. What has one type becomes that type; what
may be several things is kept as the text of its JSON (`Kind.ANY`): values without a type, unions,
and an object that lies within itself. `connect.type` is heeded, by which Kafka Connect says how
wide a number is.

A schema of a stranger costs time and memory in proportion to what columns it has, and these are
bounded.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from parley.errors import SchemaError, printable
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
    have properties that the schema does not name.
    """

    kind: Kind
    bits: int = 64
    items: Shape | None = None
    fields: Mapping[str, Shape] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    nullable: bool = False
    open: bool = True


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


def parse_shape(text: str, references: Sequence[NamedSchema] = ()) -> Shape:
    """Return the shape of a schema's values. Raises SchemaError for a text that is no schema."""
    roots = {one.name: _json(one.schema.text) for one in references}
    root = _json(text)
    return _Shapes(roots).shape(root, root, "", ())


def _json(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is no JSON: {error}") from error
    if not isinstance(found, dict | bool):
        raise SchemaError("a JSON Schema is an object, or true or false")
    return found


class _Shapes:
    """`roots` are the schemas that can be referred to, by name."""

    def __init__(self, roots: Mapping[str, Json]) -> None:
        self._roots = roots
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
            raise SchemaError(f"{_shown(node)} is no schema", path=path)
        if id(node) in above:
            return ANY  # it lies within itself
        above = (*above, id(node))
        reference = node.get("$ref")
        if isinstance(reference, str):
            target, root = self._resolved(reference, root, path)
            return self.shape(target, root, path, above)
        for key in ("oneOf", "anyOf"):
            if isinstance(node.get(key), list):
                return self._one_of(node, key, root, path, above)
        if isinstance(node.get("allOf"), list):
            return self._all_of(node, root, path, above)
        return self._typed(node, root, path, above)

    def _one_of(
        self, node: dict[str, Json], key: str, root: Json, path: str, above: tuple[int, ...]
    ) -> Shape:
        listed = node[key]
        assert isinstance(listed, list)
        found = [self.shape(one, root, path, above) for one in listed]
        kept = [one for one in found if one.kind is not Kind.NULL]
        nullable = len(kept) < len(found) or any(one.nullable for one in kept)
        if not kept:
            return Shape(Kind.NULL, nullable=True)
        if any(one != kept[0] for one in kept[1:]):
            return replace(ANY, nullable=nullable)
        return replace(kept[0], nullable=nullable)

    def _all_of(
        self, node: dict[str, Json], root: Json, path: str, above: tuple[int, ...]
    ) -> Shape:
        listed = node["allOf"]
        assert isinstance(listed, list)
        rest = {key: value for key, value in node.items() if key != "allOf"}
        parts = [self.shape(one, root, path, above) for one in listed]
        parts.append(self._typed(rest, root, path, above))
        kept = [one for one in parts if one.kind is not Kind.ANY]
        if len(kept) == 1:
            return kept[0]
        if not kept or any(one.kind is not Kind.OBJECT for one in kept):
            return kept[0] if kept and all(one == kept[0] for one in kept) else ANY
        fields: dict[str, Shape] = {}
        for one in kept:
            fields |= one.fields
        return Shape(
            Kind.OBJECT,
            fields=fields,
            required=frozenset().union(*(one.required for one in kept)),
            nullable=all(one.nullable for one in kept),
            open=all(one.open for one in kept),
        )

    def _typed(self, node: dict[str, Json], root: Json, path: str, above: tuple[int, ...]) -> Shape:
        names = _type_names(node)
        nullable = "null" in names
        kept = names - {"null"}
        if kept == {"integer", "number"}:
            kept = {"number"}
        if not kept:
            return Shape(Kind.NULL, nullable=True) if nullable else ANY
        if len(kept) > 1:
            return replace(ANY, nullable=nullable)
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

    def _resolved(self, reference: str, root: Json, path: str) -> tuple[Json, Json]:
        """Return what a `$ref` refers to, and in which schema that is."""
        name, _, pointer = reference.partition("#")
        if name:
            short = name.rpartition("/")[2]
            found = next((self._roots[one] for one in (name, short) if one in self._roots), None)
            own = root.get("$id") if isinstance(root, dict) else None
            if found is not None:
                root = found
            elif name != own:
                raise SchemaError(
                    f'"$ref" names {_shown(name)}, which is not among the references', path=path
                )
        node = root
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif (
                isinstance(node, list) and key.isascii() and key.isdigit() and int(key) < len(node)
            ):
                node = node[int(key)]
            else:
                raise SchemaError(
                    f'"$ref" names {_shown(reference)}, which is not there', path=path
                )
        return node, root


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
        raise SchemaError(f"there is no type {_shown(name)} in JSON")
    return Shape(_TYPES[name], bits=bits if name == "number" and bits == 32 else 64)


def _shown(value: Json) -> str:
    return printable(json.dumps(value), 60)
