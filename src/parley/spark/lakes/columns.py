"""Columns of rows held against columns of a table, in Spark's schema JSON: pure.

Delta's JSON of a schema is Spark's own (`StructType.json()`), so that types are compared as they
are; Iceberg's is made into it. What the table has and the rows lack is null; what the rows have and
the table lacks is added to it or refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from parley.errors import ConfigError, nearest_hint
from parley.types import Json

_SIMPLE = frozenset(
    (
        "string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary",
        "date", "timestamp", "timestamp_ntz",
    )
)  # fmt: skip
_DECIMAL = re.compile(r"decimal\(\d+,\s*\d+\)")
PARTITIONS = frozenset(("string", "long", "integer", "short", "byte", "date", "boolean"))
_SPARKS_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
SHOWN = 5
"""Of how many columns a text speaks."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What columns a lake's tables can have."""

    table: str
    """What one calls such a table."""
    not_in_names: str = ""
    partitions_in_files: bool = False
    not_in_partitions: str = ""
    """Characters that names of partition columns cannot have."""


DELTA = Rules("a Delta table", " ,;{}()\n\t=")


@dataclass(frozen=True, slots=True)
class Column:
    """A column as Spark's JSON has it."""

    name: str
    kind: Json
    """A type's name, or an object with fields, elements or keys."""
    nullable: bool = True

    def json(self) -> dict[str, Json]:
        """Return the column as an entry of a schema."""
        return {"name": self.name, "type": self.kind, "nullable": self.nullable, "metadata": {}}


@dataclass(frozen=True, slots=True)
class Fit:
    """How rows go into a table."""

    added: tuple[Column, ...] = ()
    """Columns that the table gets first."""
    required: tuple[str, ...] = ()
    """Columns in which rows must have no null: the table has none there."""


def columns_of(schema: str) -> tuple[Column, ...]:
    """Return the columns of a schema's JSON, without the columns' metadata."""
    fields = json.loads(schema)["fields"]
    return tuple(Column(one["name"], _plain(one["type"]), one["nullable"]) for one in fields)


def schema_json(columns: Iterable[Column]) -> str:
    """Return columns as a schema's JSON."""
    return json.dumps({"type": "struct", "fields": [column.json() for column in columns]})


def as_new_table(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return columns as a new table has them: all may be null, as Delta's own sink makes them."""
    return tuple(Column(column.name, _nullable(column.kind), True) for column in columns)


def check_columns(columns: Sequence[Column], rules: Rules = DELTA) -> None:
    """Raise ConfigError for columns that no table of the lake can have."""
    by_lower: dict[str, str] = {}
    for column in columns:
        other = by_lower.setdefault(column.name.lower(), column.name)
        if other is not column.name:
            raise ConfigError(f'the rows have two columns "{column.name}": rename one of them')
        if any(char in column.name for char in rules.not_in_names):
            raise ConfigError(
                f'column "{column.name}" has a character in its name that {rules.table} cannot '
                "have there (space or one of ,;{}()=): rename it with .withColumnRenamed"
            )
        wrong = next(_not_in_lakes(column.name, column.kind), None)
        if wrong is not None:
            raise ConfigError(
                f'column "{wrong[0]}" has type {wrong[1]}, which {rules.table} cannot hold: cast '
                "it, or leave it out with .drop"
            )


def check_new_table(
    columns: Sequence[Column], partition_by: Sequence[str], rules: Rules = DELTA
) -> None:
    """Raise ConfigError for columns of which no table can be made, partitioned as options say."""
    check_columns(columns, rules)
    names = [column.name for column in columns]
    for name in partition_by:
        if name not in names:
            raise ConfigError(
                f'partitionBy names "{name}", which is no column of the '
                f"rows.{nearest_hint(name, names)}"
            )
        if any(char in name for char in rules.not_in_partitions):
            raise ConfigError(
                f'{rules.table} cannot be partitioned by "{name}", whose name has one of '
                f'"{rules.not_in_partitions}": rename it with .withColumnRenamed'
            )
    check_partitions(columns, partition_by, rules)


def check_partitions(
    columns: Sequence[Column], partition_by: Sequence[str], rules: Rules = DELTA
) -> None:
    """Raise ConfigError for partition columns of a type that makes no folders, and for rows of
    which nothing is left for files. A partition column that the rows lack is null.
    """
    for column in columns:
        if column.name in partition_by and column.kind not in PARTITIONS:
            raise ConfigError(
                f'the table cannot be partitioned by "{column.name}" of type '
                f"{_named(column.kind)}: strings, whole numbers, dates and booleans can be. Cast "
                "it; of a time take to_date"
            )
    if rules.partitions_in_files:
        return
    if all(column.name in partition_by for column in columns):
        raise ConfigError(
            "the table is partitioned by every column that the rows have "
            f"({', '.join(partition_by)}): at least one other must be there for the files"
        )


def fit(given: Sequence[Column], table: Sequence[Column], *, merge: bool, where: str) -> Fit:
    """Return how rows with `given` columns go into a table.

    Raises ConfigError for columns that the table lacks (unless `merge`), whose types differ, and
    for rows without a column that the table wants in each. The text names them.
    """
    known = {column.name: column for column in table}
    lower = {name.lower(): name for name in known}
    missing = [column for column in given if column.name not in known]
    for column in missing:
        if (other := lower.get(column.name.lower())) is not None:
            raise ConfigError(
                f'the table {where} has a column "{other}", the rows have "{column.name}": '
                f'rename it, .withColumnRenamed("{column.name}", "{other}")'
            )
    for column in given:
        if column.name in known:
            _check_type(column, known[column.name], where)
    if missing and not merge:
        drop = ", ".join(f'"{column.name}"' for column in missing[:SHOWN])
        raise ConfigError(
            f"the table {where} has no column {_list(missing)}. Its columns are "
            f"{_list(table)}. Set the option mergeSchema=true to add what is missing, or leave it "
            f"out with .drop({drop})"
        )
    names = {column.name for column in given}
    lacking = [column for column in table if not column.nullable and column.name not in names]
    if lacking:
        raise ConfigError(
            f"the table {where} wants a value in column {_list(lacking)}, which the rows lack: "
            "add it, or allow null in the table"
        )
    required = tuple(
        column.name for column in given if column.name in known and not known[column.name].nullable
    )
    # What is there already has no value in a new column.
    return Fit(tuple(Column(one.name, one.kind, True) for one in missing), required)


def _check_type(given: Column, table: Column, where: str) -> None:
    difference = next(_differences(given.name, given.kind, table.kind), None)
    if difference is None:
        return
    name, mine, theirs = difference
    remedy = "make it the same with .withColumn"
    if isinstance(given.kind, str) and isinstance(table.kind, str):
        remedy = f'cast it, .withColumn("{name}", col("{name}").cast("{_spark(table.kind)}"))'
    raise ConfigError(
        f'column "{name}" is {theirs} in the table {where} and {mine} in the rows: {remedy}'
    )


def _differences(name: str, mine: Json, theirs: Json) -> Iterator[tuple[str, str, str]]:
    """Yield where two types differ: path, this type, that type."""
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        if mine != theirs:
            yield name, _named(mine), _named(theirs)
        return
    if mine["type"] != theirs["type"]:
        yield name, _named(mine), _named(theirs)
    elif mine["type"] == "struct":
        left, right = _fields(mine), _fields(theirs)
        for field in sorted(left.keys() ^ right.keys()):
            lacks, has = ("no field", "a field") if field in left else ("a field", "no field")
            yield f"{name}.{field}", has, lacks
        for field in left.keys() & right.keys():
            yield from _differences(f"{name}.{field}", left[field][0], right[field][0])
            if left[field][1] and not right[field][1]:
                yield f"{name}.{field}", "nullable", "never null"
    else:
        for part, nulls in (
            ("elementType", "containsNull"), ("keyType", ""), ("valueType", "valueContainsNull"),
        ):  # fmt: skip
            if part in mine:
                yield from _differences(f"{name}.{part[:-4]}", mine[part], theirs[part])
                if nulls and mine[nulls] and not theirs[nulls]:
                    yield f"{name}.{part[:-4]}", "nullable", "never null"


def _fields(kind: dict[str, Json]) -> dict[str, tuple[Json, bool]]:
    fields = kind["fields"]
    assert isinstance(fields, list)
    found = {}
    for field in fields:
        assert isinstance(field, dict)
        found[str(field["name"])] = (field["type"], bool(field["nullable"]))
    return found


def _not_in_lakes(name: str, kind: Json) -> Iterator[tuple[str, str]]:
    """Yield what no table can hold: path and type."""
    if isinstance(kind, str):
        if kind not in _SIMPLE and _DECIMAL.fullmatch(kind) is None:
            yield name, kind
    elif isinstance(kind, dict) and kind["type"] == "struct":
        if not kind["fields"]:  # Parquet has none
            yield name, "struct<>"
        for field, (inner, _) in _fields(kind).items():
            yield from _not_in_lakes(f"{name}.{field}", inner)
    elif isinstance(kind, dict) and kind["type"] in ("array", "map"):
        for part in ("elementType", "keyType", "valueType"):
            if part in kind:
                yield from _not_in_lakes(f"{name}.{part[:-4]}", kind[part])
    else:
        yield name, _named(kind)


def _plain(kind: Json) -> Json:
    """Return a type without the metadata of its fields."""
    if isinstance(kind, dict):
        kind = {name: _plain(inner) for name, inner in kind.items()}
        if "metadata" in kind:
            kind["metadata"] = {}
        return kind
    return [_plain(inner) for inner in kind] if isinstance(kind, list) else kind


def _nullable(kind: Json) -> Json:
    """Return a type in which everything but a map's keys may be null."""
    if isinstance(kind, dict):
        may = ("nullable", "containsNull", "valueContainsNull")
        return {name: True if name in may else _nullable(one) for name, one in kind.items()}
    return [_nullable(one) for one in kind] if isinstance(kind, list) else kind


def _list(columns: Sequence[Column]) -> str:
    shown = ", ".join(f'"{column.name}" ({_named(column.kind)})' for column in columns[:SHOWN])
    more = len(columns) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _named(kind: Json) -> str:
    return _spark(kind) if isinstance(kind, str) else str(_type_of(kind))


def _type_of(kind: Json) -> Json:
    return kind.get("type") if isinstance(kind, dict) else kind


def _spark(kind: str) -> str:
    return _SPARKS_NAMES.get(kind, kind)
