"""Text to schema, as Avro's specification has it.

What a schema of a stranger can do is bounded: its depth, the time by its length, what its defaults
hold, and what reading nothing costs. What Avro's own parsers refuse raises SchemaError, which says
where: by the names of fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from parley.errors import SchemaError, printable
from parley.serdes.avro.defaults import Fitting, Sizes
from parley.serdes.avro.model import (
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Union,
)
from parley.serdes.avro.unpaid import check_unpaid
from parley.serdes.faults import bounded_depth
from parley.types import Json

MAX_DEPTH = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOGICAL = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
    "duration": ("fixed",),
}


def parse_schema(text: str, references: Iterable[str] = ()) -> AvroType:
    """Return the schema that a text holds.

    `references` are texts of schemas whose names it uses, each after those that it uses itself.
    Raises SchemaError for what is no schema.
    """
    parser = _Parser()
    with bounded_depth():
        for one in references:
            parser.parse(_json(one), "", "", 0)
        found = parser.parse(_json(text), "", "", 0)
        parser.check_defaults()
        check_unpaid(one for one in parser.names.values() if isinstance(one, Record))
    return found


def _json(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        # a primitive's name may stand there bare
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaError(f"the schema is no JSON: {error}") from error
    return found


class _Parser:
    """The names that are known so far, and the fields with defaults."""

    def __init__(self) -> None:
        self.names: dict[str, Record | Enum | Fixed] = {}
        self._with_default: list[tuple[str, Field]] = []

    def check_defaults(self) -> None:
        """Check all defaults: what they hold may be a record that is whole only at the end."""
        fitting, sizes = Fitting(), Sizes()
        for path, one in self._with_default:
            with _placed(path):
                if not fitting.fits(one.type, one.default):
                    raise ValueError(f"the default {_shown(one.default)} does not fit")
        for path, one in self._with_default:
            with _placed(path):
                sizes.add(one)

    def parse(self, found: Json, namespace: str, path: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested deeper than {MAX_DEPTH}", path=path)
        if isinstance(found, str):
            return self._by_name(found, namespace, path)
        if isinstance(found, list):
            return self._union(found, namespace, path, depth)
        if not isinstance(found, dict):
            raise SchemaError(f"{_shown(found)} is no type", path=path)
        kind = found.get("type")
        if kind in ("record", "error"):
            return self._record(found, namespace, path, depth)
        if kind == "enum":
            return self._enum(found, namespace, path)
        if kind == "fixed":
            return self._fixed(found, namespace, path)
        if kind == "array":
            return Array(self._inner(found, "items", namespace, path, depth))
        if kind == "map":
            return Map(self._inner(found, "values", namespace, path, depth))
        if isinstance(kind, str) and kind in PRIMITIVES:
            return Primitive(kind, _logical(found, kind))
        return self._inner_type(found, namespace, path, depth)

    def _inner_type(
        self, found: dict[str, Json], namespace: str, path: str, depth: int
    ) -> AvroType:
        if "type" not in found:
            raise SchemaError("an object without a type", path=path)
        return self.parse(found["type"], namespace, path, depth + 1)

    def _inner(
        self, found: dict[str, Json], key: str, namespace: str, path: str, depth: int
    ) -> AvroType:
        if key not in found:
            raise SchemaError(f"{found['type']} without {key}", path=path)
        return self.parse(found[key], namespace, path, depth + 1)

    def _by_name(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        whole = name if "." in name or not namespace else f"{namespace}.{name}"
        known = self.names.get(whole) or self.names.get(name)
        if known is None:
            raise SchemaError(
                f"there is no type {_shown(name)}; name what it is before, or as a reference",
                path=path,
            )
        return known

    def _union(self, found: list[Json], namespace: str, path: str, depth: int) -> Union:
        branches = tuple(self.parse(one, namespace, path, depth + 1) for one in found)
        seen: set[str] = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise SchemaError("a union within a union", path=path)
            key = branch.name if isinstance(branch, Record | Enum | Fixed) else branch.kind
            if key in seen:
                raise SchemaError(f"a union has {_shown(key)} twice", path=path)
            seen.add(key)
        return Union(branches)

    def _named(
        self, found: dict[str, Json], namespace: str, path: str
    ) -> tuple[str, str, tuple[str, ...]]:
        """Return whole name, namespace within, and aliases."""
        name, own = found.get("name"), found.get("namespace")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"{found['type']} without a name", path=path)
        if "." in name:
            whole = name
        else:
            space = own if isinstance(own, str) else namespace
            whole = f"{space}.{name}" if space else name
        if not all(_NAME.fullmatch(part) for part in whole.split(".")):
            raise SchemaError(f"{_shown(whole)} is no name", path=path)
        if whole in self.names or whole in PRIMITIVES:
            raise SchemaError(f"the name {_shown(whole)} is used twice", path=path)
        inner = whole.rpartition(".")[0]
        return whole, inner, _aliases(found, inner)

    def _record(self, found: dict[str, Json], namespace: str, path: str, depth: int) -> Record:
        whole, inner, aliases = self._named(found, namespace, path)
        record = Record(whole, aliases)
        self.names[whole] = record
        fields = found.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"the record {whole} has no list of fields", path=path)
        seen: set[str] = set()
        for one in fields:
            made = self._field(one, inner, path, depth)
            if made.name in seen:
                raise SchemaError(f"the record {whole} has a field {made.name} twice", path=path)
            seen.add(made.name)
            record.fields.append(made)
        return record

    def _field(self, found: Json, namespace: str, path: str, depth: int) -> Field:
        if not isinstance(found, dict) or not isinstance(found.get("name"), str):
            raise SchemaError(f"{_shown(found)} is no field: it has no name", path=path)
        name = str(found["name"])
        where = f"{path}.{printable(name, 100)}" if path else printable(name, 100)
        if not _NAME.fullmatch(name):
            raise SchemaError(f"{_shown(name)} is no name", path=where)
        if "type" not in found:
            raise SchemaError("a field without a type", path=where)
        made = self.parse(found["type"], namespace, where, depth + 1)
        field = Field(name, made, found.get("default"), "default" in found, _aliases(found, ""))
        if field.has_default:
            self._with_default.append((where, field))
        return field

    def _enum(self, found: dict[str, Json], namespace: str, path: str) -> Enum:
        whole, _, aliases = self._named(found, namespace, path)
        symbols, default = found.get("symbols"), found.get("default")
        if not isinstance(symbols, list) or not all(
            isinstance(one, str) and _NAME.fullmatch(one) for one in symbols
        ):
            raise SchemaError(f"the enum {whole} has no list of symbols", path=path)
        if len(set(map(str, symbols))) < len(symbols):
            raise SchemaError(f"the enum {whole} has a symbol twice", path=path)
        if default is not None and default not in symbols:
            raise SchemaError(f"the default {_shown(default)} is no symbol of {whole}", path=path)
        kept = default if isinstance(default, str) else None
        self.names[whole] = made = Enum(whole, aliases, tuple(map(str, symbols)), kept)
        return made

    def _fixed(self, found: dict[str, Json], namespace: str, path: str) -> Fixed:
        whole, _, aliases = self._named(found, namespace, path)
        size = found.get("size")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise SchemaError(f"the fixed {whole} has no size", path=path)
        made = Fixed(whole, aliases, size, _logical(found, "fixed", size))
        self.names[whole] = made
        return made


@contextmanager
def _placed(path: str) -> Iterator[None]:
    """Raise as SchemaError, with its place, what is wrong with a default."""
    try:
        yield
    except ValueError as error:
        raise SchemaError(str(error), path=path) from None


def _aliases(found: dict[str, Json], namespace: str) -> tuple[str, ...]:
    listed = found.get("aliases")
    texts = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    return tuple(one if "." in one or not namespace else f"{namespace}.{one}" for one in texts)


def _logical(found: dict[str, Json], kind: str, size: int | None = None) -> Logical | None:
    """Return the logical type; None where it does not fit, which Avro says to ignore."""
    name = found.get("logicalType")
    if not isinstance(name, str) or kind not in _LOGICAL.get(name, ()):
        return None
    if name == "duration" and size != 12:
        return None
    if name == "uuid" and size not in (None, 16):
        return None
    if name != "decimal":
        return Logical(name)
    precision, scale = found.get("precision"), found.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if precision < 1 or not 0 <= scale <= precision:
        return None
    return Logical(name, precision, scale)


def _shown(value: Json) -> str:
    return printable(json.dumps(value), 60)
