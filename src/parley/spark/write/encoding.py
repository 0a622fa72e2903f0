"""Columns to messages: which schema is settled before tasks start, and encoding in the tasks.

1. The registry is asked, and a schema registered, where the write is planned: once in a process,
   so that a query's micro-batches are written with one schema until it is started again.
2. A column's type is compared with its schema there as well.
3. Tasks ask for nothing but what a schema refers to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from parley.client import ColumnEncoder, RegistryOptions, Schema, schema_to_write
from parley.errors import ConfigError, SchemaEncodeError, SchemaError
from parley.spark.clients import registry_for
from parley.spark.options.schemas import in_users_words
from parley.spark.values.struct_types import expected_type
from parley.spark.write.encoding_options import EncodingOptions, PartEncoding

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_TIME_OF_NUMBER = re.compile(r"column of int64 .* has time-m\w+; cast it$")
_TO_TIME = "time_from_micros(...), with spark.sql.timeType.enabled=true"
"""What casts a number to a time of day: it is read as microseconds, whatever its schema has."""


class Settled(NamedTuple):
    """What one of key and value is written with: plain values that travel to the tasks."""

    how: PartEncoding
    registry: RegistryOptions | None
    schema: Schema
    ref: object


class Encoding:
    """How a task makes messages of its rows' columns."""

    def __init__(self, parts: Mapping[str, Settled]) -> None:
        self._parts = dict(parts)

    def encode(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """Return rows with their keys and values as messages; `first_row` is for errors.

        Raises SchemaEncodeError with column, field and row of the task.
        """
        for part, settled in self._parts.items():
            try:
                batch = _encoder(settled).encode(batch, part)
            except SchemaEncodeError as error:
                path = f"{part}.{error.path}" if error.path else part
                row = None if error.row is None else first_row + error.row
                raise SchemaEncodeError(error.reason, path=path, row=row) from error
        return batch


def settle(options: EncodingOptions, schema: StructType) -> Encoding:
    """Return how rows of these columns are encoded. Asks the registry.

    Raises SchemaError for a column that does not fit its schema, SchemaNotFoundError,
    IncompatibleSchemaError, RegistryUnreachable.
    """
    kinds = {column.name: column.dataType for column in schema.fields}
    return Encoding(
        {
            how.part: _settled(how, options.registry, expected_type(kinds[how.part]))
            for how in options.parts
            if how.part in kinds
        }
    )


@lru_cache(maxsize=32)
def _settled(how: PartEncoding, registry: RegistryOptions | None, kind: pa.DataType) -> Settled:
    try:
        encoder = ColumnEncoder(
            None if registry is None else registry_for(registry),
            how.subject,
            schema_to_write(how.part, how.value_format, how.schema, registry),
            value_format=how.value_format,
            framing=how.framing,
            message=how.message,
            auto_register_schemas=how.register,
        )
        encoder.prepare(kind)
        encoder.encode_values(pa.array([], kind), is_key=how.part == "key")
    except SchemaError as error:
        path = f"{how.part}.{error.path}" if error.path else how.part
        said = error.problem.replace("auto_register_schemas=True", "registerSchemas=true")
        if _TIME_OF_NUMBER.search(said):
            said = f"{said}: {_TO_TIME}"
        raise SchemaError(said, path=path) from error
    except ConfigError as error:
        said = str(error).replace("auto_register_schemas=True", "registerSchemas=true")
        raise ConfigError(f"{how.part}Format: {in_users_words(said)}") from error
    return Settled(how, registry, *encoder.written)


@lru_cache(maxsize=32)
def _encoder(settled: Settled) -> ColumnEncoder:
    how, registry = settled.how, settled.registry
    return ColumnEncoder(
        None if registry is None else registry_for(registry),
        how.subject,
        settled.schema,
        value_format=how.value_format,
        framing=how.framing,
        message=how.message,
        ref=settled.ref,  # type: ignore[arg-type]  # what `written` gave
    )
