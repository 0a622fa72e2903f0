"""`envelope=flat`: the fields of values as columns of their own, beside those of the record.

Everything but the first and the last step of a read has values in one column: the columns that
Spark sees are flattened (`flat_schema`), those that it asks for are nested again (`nested_schema`),
and batches are flattened on their way out (`flattened`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from parley.errors import ConfigError
from parley.spark.values.schema import ERROR_COLUMNS, READ_TYPES

_VALUE = "value"
_OF_RECORDS = {*READ_TYPES, *ERROR_COLUMNS.values()} - {_VALUE}


def flat_schema(schema: StructType) -> StructType:
    """Return a read's columns with the fields of `value` first, and without it.

    Raises ConfigError where values have no fields, and for a field that is called as a column of
    the record is.
    """
    value = schema[_VALUE].dataType
    if not isinstance(value, StructType):
        raise ConfigError(
            f"envelope=flat needs values with fields, and these are {value.simpleString()}: leave "
            "the option out"
        )
    others = [field for field in schema.fields if field.name != _VALUE]
    taken = {field.name.lower(): field.name for field in others}
    for field in value.fields:
        if field.name.lower() in taken:
            raise ConfigError(
                f'envelope=flat: the values have a field "{field.name}", and records have a column '
                f'"{taken[field.name.lower()]}". Name the other fields in valueColumns, or leave '
                "envelope out and select value.*"
            )
    return StructType([*value.fields, *others])


def nested_schema(schema: StructType) -> StructType:
    """Return columns with all that are no record's own as fields of `value`, if there are any."""
    bare = [StructField(one.name, one.dataType, one.nullable) for one in schema.fields]
    others = [one for one in bare if one.name in _OF_RECORDS]
    fields = [one for one in bare if one.name not in _OF_RECORDS]
    return StructType([*others, StructField(_VALUE, StructType(fields))] if fields else others)


def flattened(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return rows with these columns; the fields of a value that is null are null."""
    columns = {
        field.name: (column, field)
        for field, column in zip(batch.schema, batch.columns, strict=True)
    }
    value, _ = columns.pop(_VALUE, (None, None))
    if value is not None:
        for field, column in zip(value.type, value.flatten(), strict=True):
            columns[field.name] = column, field.with_nullable(True)
    chosen = [columns[name] for name in names]
    schema = pa.schema([field for _, field in chosen])
    return pa.RecordBatch.from_arrays([column for column, _ in chosen], schema=schema)
