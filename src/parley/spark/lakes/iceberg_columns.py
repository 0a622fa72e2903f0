"""Types of columns between Spark and Iceberg, both as the JSON of their schemas: pure.

Iceberg knows a column by its id, not by its name: files carry the ids of the table's schema as
Parquet's field ids.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from parley.errors import ConfigError
from parley.spark.lakes.columns import PARTITIONS, Column, Rules
from parley.types import Json

# A name with a dot is that of a field within a column.
ICEBERG = Rules("an Iceberg table", partitions_in_files=True, not_in_partitions=".")
FIELD_ID = "PARQUET:field_id"
_TO_ICEBERG = {
    "boolean": "boolean", "integer": "int", "long": "long", "float": "float", "double": "double",
    "date": "date", "timestamp": "timestamptz", "timestamp_ntz": "timestamp", "string": "string",
    "binary": "binary",
}  # fmt: skip
_TO_SPARK = {theirs: sparks for sparks, theirs in _TO_ICEBERG.items()}
_NARROW = frozenset(("byte", "short"))
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_NESTED = {
    "list": (("elementType", "element"),),
    "map": (("keyType", "key"), ("valueType", "value")),
}
_NULLS = {"elementType": "containsNull", "valueType": "valueContainsNull"}
Fields: TypeAlias = Sequence[Mapping[str, Json]]
"""The fields of a struct in Iceberg's JSON."""


def widened(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns in the types that they have in Iceberg, which has no small whole numbers."""
    return tuple(Column(one.name, _wide(one.kind), one.nullable) for one in columns)


def columns_of_table(fields: Fields) -> tuple[Column, ...]:
    """Return a table's columns in Spark's JSON. Types that Spark's rows cannot have keep Iceberg's
    names.
    """
    return tuple(
        Column(str(one["name"]), _sparks(one["type"]), not one["required"]) for one in fields
    )


def fields_of(columns: Sequence[Column], first_id: int = 1) -> list[Json]:
    """Return columns as fields of Iceberg's JSON, with ids from `first_id` on."""
    return _fields([column.json() for column in columns], itertools.count(first_id))


def check_types(columns: Sequence[Column], table: Sequence[Column], where: str) -> None:
    """Raise ConfigError for columns of the rows whose type in the table no rows of Spark have."""
    names = {column.name for column in columns}
    for column in table:
        wrong = next(_foreign(column.kind), None)
        if column.name in names and wrong is not None:
            raise ConfigError(
                f'column "{column.name}" of the table {where} has Iceberg\'s type {wrong}, which '
                "parley-iceberg cannot write: leave the column out with .drop, or write into "
                "another table"
            )


def with_ids(rows: pa.Schema, fields: Fields) -> pa.Schema:
    """Return the rows' schema with the table's ids as Parquet's, and in the table's types.

    >>> rows = pa.schema([("n", pa.int16())])
    >>> field = with_ids(rows, [{"id": 7, "name": "n", "required": False, "type": "int"}]).field(0)
    >>> field.type, field.metadata
    (DataType(int32), {b'PARQUET:field_id': b'7'})
    """
    by_name = {one["name"]: one for one in fields}
    return pa.schema([_with_id(field, by_name[field.name]) for field in rows])


def partition_value(text: str | None, kind: Json) -> str | int | bool | None:
    """Return the value of an identity partition as manifests have it: dates as days since 1970."""
    if text is None or kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    if kind == "date":
        return int(pa.array([text]).cast(pa.date32()).cast(pa.int32())[0].as_py())
    assert kind in PARTITIONS
    return int(text)


def _with_id(field: pa.Field, entry: Mapping[str, Json]) -> pa.Field:
    kind = _arrow(field.type, entry["type"])
    return pa.field(field.name, kind, field.nullable, {FIELD_ID: str(entry["id"])})


def _arrow(kind: pa.DataType, theirs: Json) -> pa.DataType:
    if not isinstance(theirs, Mapping):
        return pa.int32() if theirs == "int" else kind
    if pa.types.is_struct(kind):
        fields = theirs["fields"]
        assert isinstance(fields, list)
        by_name = {one["name"]: one for one in fields if isinstance(one, Mapping)}
        inner = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct([_with_id(field, by_name[field.name]) for field in inner])
    if pa.types.is_map(kind):
        key, value = (
            _with_id(field, {"id": theirs[f"{name}-id"], "type": theirs[name]})
            for field, name in ((kind.key_field, "key"), (kind.item_field, "value"))
        )
        return pa.map_(key, value)
    element = {"id": theirs["element-id"], "type": theirs["element"]}
    return pa.list_(_with_id(kind.value_field.with_name("element"), element))


def _wide(kind: Json) -> Json:
    if isinstance(kind, dict):
        return {name: _wide(inner) for name, inner in kind.items()}
    if isinstance(kind, list):
        return [_wide(inner) for inner in kind]
    return "integer" if isinstance(kind, str) and kind in _NARROW else kind


def _sparks(kind: Json) -> Json:
    if not isinstance(kind, Mapping):
        text = str(kind)
        decimal = _DECIMAL.fullmatch(text)
        return f"decimal({decimal[1]},{decimal[2]})" if decimal else _TO_SPARK.get(text, text)
    if kind["type"] == "struct":
        fields = kind["fields"]
        assert isinstance(fields, list)
        found = [one for one in fields if isinstance(one, Mapping)]
        return {"type": "struct", "fields": [one.json() for one in columns_of_table(found)]}
    made: dict[str, Json] = {"type": "array" if kind["type"] == "list" else "map"}
    for theirs, name in _NESTED[str(kind["type"])]:
        made[theirs] = _sparks(kind[name])
        if theirs in _NULLS:
            made[_NULLS[theirs]] = not kind[f"{name}-required"]
    return made


def _fields(entries: Sequence[Json], ids: Iterator[int]) -> list[Json]:
    """Number the fields of a struct before those within them, as Iceberg does."""
    found = [entry for entry in entries if isinstance(entry, Mapping)]
    numbers = [next(ids) for _ in found]
    return [
        {
            "id": number, "name": entry["name"], "required": not entry["nullable"],
            "type": _icebergs(entry["type"], ids),
        }
        for number, entry in zip(numbers, found, strict=True)
    ]  # fmt: skip


def _icebergs(kind: Json, ids: Iterator[int]) -> Json:
    if not isinstance(kind, Mapping):
        decimal = _DECIMAL.fullmatch(str(kind))
        return f"decimal({decimal[1]}, {decimal[2]})" if decimal else _TO_ICEBERG[str(kind)]
    if kind["type"] == "struct":
        fields = kind["fields"]
        assert isinstance(fields, list)
        return {"type": "struct", "fields": _fields(fields, ids)}
    name = "list" if kind["type"] == "array" else "map"
    made: dict[str, Json] = {"type": name}
    for _, theirs in _NESTED[name]:
        made[f"{theirs}-id"] = next(ids)
    for sparks, theirs in _NESTED[name]:
        made[theirs] = _icebergs(kind[sparks], ids)
        if sparks in _NULLS:
            made[f"{theirs}-required"] = not kind[_NULLS[sparks]]
    return made


def _foreign(kind: Json) -> Iterator[str]:
    """Yield the types that are not Spark's."""
    if isinstance(kind, str):
        if kind not in _TO_ICEBERG and _DECIMAL.fullmatch(kind) is None:
            yield kind
    elif isinstance(kind, Mapping) and kind["type"] == "struct":
        fields = kind["fields"]
        assert isinstance(fields, list)
        for one in fields:
            assert isinstance(one, Mapping)
            yield from _foreign(one["type"])
    elif isinstance(kind, Mapping):
        for part in ("elementType", "keyType", "valueType"):
            if part in kind:
                yield from _foreign(kind[part])
