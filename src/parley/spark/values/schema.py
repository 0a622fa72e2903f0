"""The columns of a row: which a reader yields, and which a writer takes.

Reading: key, value, topic, partition, offset, timestamp, timestampType, and headers with
`includeHeaders`. A schema of the user's own may name any of them, in any order; key and value may
be string then, or a number that one of Kafka's Java serializers wrote. Columns that are not named
are not even decoded. With a format, key and value are what their schemas say (`struct_types`).

Writing, as Spark's own sink: value must be there; topic, key, headers, partition may be. So may
timestamp, which Spark's own leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from parley.arrow import spark_schema
from parley.errors import ConfigError, nearest_hint
from parley.spark.values.numbers import SERIALIZERS

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

HEADERS_DDL = "array<struct<key:string,value:binary>>"
ERROR_DDL = "struct<code:string,message:string,bytes:binary>"
ERROR_COLUMNS = {"value": "_error", "key": "_key_error"}
"""Columns that say why a value or key could not be decoded (`onSchemaError=null`)."""
READ_TYPES = {
    "key": ("binary", "string", *SERIALIZERS),
    "value": ("binary", "string", *SERIALIZERS),
    "topic": ("string",),
    "partition": ("int",),
    "offset": ("bigint",),
    "timestamp": ("timestamp",),
    "timestampType": ("int",),
    "headers": (HEADERS_DDL,),
}
"""Columns of a read and the Spark types they may have, the default first."""
_CHOSEN = {
    "binary": pa.binary(), "string": pa.string(), "smallint": pa.int16(), "int": pa.int32(),
    "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
}  # fmt: skip
_ERROR = pa.struct([("code", pa.string()), ("message", pa.string()), ("bytes", pa.binary())])
WRITE_TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_DDL,),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""Columns of a write and the Spark types they may have."""

_CAST = {
    "timestamp": "Cast it, or drop it",
    "value": "Cast it, use to_json, or set valueFormat",
    "key": "Cast it, use to_json, or set keyFormat",
}


def read_schema_ddl(include_headers: bool) -> str:
    """Return the default schema of a read in Spark's notation."""
    names = [name for name in READ_TYPES if include_headers or name != "headers"]
    return ", ".join(f"{name} {READ_TYPES[name][0]}" for name in names)


def read_schema(
    include_headers: bool, typed: Mapping[str, DataType] | None = None, *, errors: bool = False
) -> StructType:
    """Return the default schema of a read, with `typed` keys and values, and why some have none."""
    from pyspark.sql import types

    header = types.StructType(
        [
            types.StructField("key", types.StringType()),
            types.StructField("value", types.BinaryType()),
        ]
    )
    kinds = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
        HEADERS_DDL: types.ArrayType(header),
    }
    typed = typed or {}
    names = [name for name in READ_TYPES if include_headers or name != "headers"]
    columns = [
        types.StructField(name, typed.get(name, kinds[READ_TYPES[name][0]])) for name in names
    ]
    if errors:
        texts = {"code": "string", "message": "string", "bytes": "binary"}
        error = types.StructType(
            [types.StructField(name, kinds[kind]) for name, kind in texts.items()]
        )
        columns += [
            types.StructField(name, error) for part, name in ERROR_COLUMNS.items() if part in typed
        ]
    return types.StructType(columns)


def arrow_read_schema(
    schema: StructType, typed: Mapping[str, pa.DataType] | None = None, *, errors: bool = False
) -> pa.Schema:
    """Return the Arrow schema of a read's batches: exactly what Spark expects for `schema`.

    `typed` are the types of decoded keys and values. Raises ConfigError for a column that does not
    exist or has a type that it cannot have.
    """
    default = {found.name: found for found in spark_schema(include_headers=True)}
    typed = typed or {}
    may_have = {**READ_TYPES, **_error_columns(typed, errors)}
    fields = []
    for column in schema.fields:
        kinds = may_have.get(column.name)
        if kinds is None:
            raise ConfigError(
                "a Kafka record has no column "
                f'"{column.name}".{nearest_hint(column.name, may_have)} It has: '
                f"{', '.join(may_have)}."
            )
        given = column.dataType.simpleString()
        if column.name in typed:
            kind = typed[column.name]
        elif given not in kinds:
            raise ConfigError(
                f'column "{column.name}" cannot be read as {given}: {" or ".join(kinds)} is '
                "expected"
            )
        elif column.name in ("key", "value"):
            kind = _CHOSEN[given]
        else:
            kind = _ERROR if kinds == (ERROR_DDL,) else default[column.name].type
        fields.append(pa.field(column.name, kind, nullable=column.nullable))
    if len(set(schema.names)) != len(fields):
        raise ConfigError("the schema names a column twice")
    return pa.schema(fields)


def _error_columns(typed: Mapping[str, pa.DataType], errors: bool) -> dict[str, tuple[str, ...]]:
    return {name: (ERROR_DDL,) for part, name in ERROR_COLUMNS.items() if errors and part in typed}


def selected(schema: StructType, names: Sequence[str]) -> StructType:
    """Return the columns of a read that the option `columns` names. Raises ConfigError for one that
    is not there.
    """
    from pyspark.sql.types import StructType

    known = {field.name: field for field in schema.fields}
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None:
        raise ConfigError(
            f'columns: there is no column "{wrong}".{_instead(wrong, known)} There are: '
            f"{', '.join(known)}"
        )
    return StructType([known[name] for name in names])


def _instead(wrong: str, known: Collection[str]) -> str:
    if wrong.lower() == "headers" and "headers" not in known:
        return " Set includeHeaders=true."
    by_lower = {name.lower(): name for name in known}
    return nearest_hint(by_lower.get(wrong.lower(), wrong), known)


def check_selected(schema: StructType, names: Sequence[str]) -> None:
    """Raise ConfigError where a schema of the user's own says others than the option `columns`."""
    if names and [*schema.names] != [*names]:
        raise ConfigError(
            f'columns="{", ".join(names)}" and a schema with {", ".join(schema.names)} are given: '
            "leave one of them out"
        )


def check_write_schema(
    schema: StructType, *, has_topic_option: bool, encoded: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the columns to write of the rows'; others are left out, as in Spark's own sink.

    Those in `encoded` may have any type, and must be there.

    Raises ConfigError where value is missing, no topic is said, or a type cannot be written.
    """
    given = {column.name: column.dataType.simpleString() for column in schema.fields}
    by_lower = {name.lower(): name for name in given}
    if "value" not in given:
        near = (
            f' There is "{by_lower["value"]}"; rename it.'
            if "value" in by_lower
            else nearest_hint("value", given)
        )
        raise ConfigError(f'the rows have no column "value", which is what Kafka stores.{near}')
    if "topic" not in given and not has_topic_option:
        raise ConfigError('no topic: set the option "topic", or give the rows a column "topic"')
    for name, kinds in WRITE_TYPES.items():
        if name in encoded and name not in given:
            raise ConfigError(
                f'the rows have no column "{name}", and {name}Format is given: add it, or leave '
                "the option out"
            )
        if name in given and name not in encoded and given[name] not in kinds:
            raise ConfigError(
                f'column "{name}" has type {given[name]}, which cannot be written: '
                f"{' or '.join(kinds)} is expected. "
                f"{_CAST.get(name, 'Cast it, or use to_json')}."
            )
    return tuple(
        name for name in WRITE_TYPES if name in given and not (name == "topic" and has_topic_option)
    )


def left_out(schema: StructType) -> list[str]:
    """Return the columns of rows that a write does not store."""
    return [name for name in schema.names if name not in WRITE_TYPES]
