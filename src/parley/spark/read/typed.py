"""Keys and values as typed columns: which schemas, asked for at planning, and rows in a task.

1. The readers' schemas decide the columns. They are asked for once, when a DataFrame is loaded, and
   go along with it; a stream keeps them in its checkpoint (`stream.schemas`).
2. Writers' schemas are asked for in the tasks, once in each process.
3. A column that is not wanted is not decoded, and neither is a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from parley.arrow import spark_schema
from parley.client import (
    ChosenSchema,
    FetchedBatch,
    RegistryOptions,
    Schema,
    SchemaOptions,
    SchemaRegistryClient,
    TopicPartition,
    TypedBatches,
)
from parley.errors import ConfigError, SchemaError
from parley.spark.clients import registry_for
from parley.spark.options.schema_table import NULL
from parley.spark.options.schemas import TypedOptions, in_users_words
from parley.spark.options.source import SourceOptions
from parley.spark.values.envelopes import flattened, nested_schema
from parley.spark.values.numbers import stored_schema, to_numbers
from parley.spark.values.schema import ERROR_COLUMNS, arrow_read_schema
from parley.spark.values.struct_types import difference, expected_type, spark_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from parley.spark.read.dead_letters import DeadLetters

Readers = Mapping[str, ChosenSchema]
"""The readers' schemas, by "value" and "key"."""


def choose_readers(typed: TypedOptions, kept: Mapping[str, Schema | str] | None = None) -> Readers:
    """Return the readers' schemas. Asks the registry; `kept` are those that are settled already.

    Raises SchemaNotFoundError, RegistryUnreachable, ConfigError for a latest of no subject.
    """
    schemas, registry = typed.schemas, registry_of(typed.schemas)
    found = {}
    for part in schemas.parts:
        chosen = schemas
        if kept is not None and part in kept:
            chosen = schemas.replace(**{f"{part}_schema": kept[part]})
        elif typed.topic is None and _lacks_subject(schemas, part):
            raise ConfigError(
                f"{part}Schema=latest of which subject? Several topics are read: give "
                f"{part}Subject, or {part}Schema=subject:NAME:latest"
            )
        found[part] = chosen.choose(part, typed.topic, registry)
    return found


def _lacks_subject(schemas: SchemaOptions, part: str) -> bool:
    chosen, subject = getattr(schemas, f"{part}_schema"), getattr(schemas, f"{part}_subject")
    return chosen == "latest" and subject is None


def column_types(typed: TypedOptions, readers: Readers) -> dict[str, DataType]:
    """Return Spark's types of keys and values. Raises ConfigError for what it has no type for."""
    found = {}
    for part, kind in _arrow_types(typed, readers).items():
        found[part] = spark_type(kind, part)
    return found


def settle(
    typed: TypedOptions, readers: Readers, schema: StructType
) -> tuple[TypedOptions, pa.Schema]:
    """Return the options and the Arrow schema of a read with these columns.

    A struct that names only some of a schema's fields has the others left out. Raises ConfigError
    where a column's type is another one than its schema's.
    """
    if typed.is_flat:
        typed = replace(typed, flat_columns=tuple(schema.names))
        schema = nested_schema(schema)
    types = {}
    for column in schema.fields:
        part, kind = column.name, column.dataType
        if part not in readers:
            continue
        typed, wanted = _narrowed(typed, {part: readers[part]}, part, kind)
        if (found := difference(wanted, kind, part)) is not None:
            raise ConfigError(f'column "{part}" does not fit its schema: {found}')
        types[part] = expected_type(kind)
    return typed, arrow_read_schema(schema, types, errors=typed.on_error == NULL)


def _narrowed(
    typed: TypedOptions, reader: Readers, part: str, kind: DataType
) -> tuple[TypedOptions, DataType]:
    """Return the options with the fields of `kind` alone to decode, and the type of those."""
    names = getattr(kind, "names", None)
    try:
        whole = column_types(typed, reader)[part]
    except ConfigError:  # it may be about a field that is not wanted
        if names is None:
            raise
        whole = None
    if whole is not None and (names is None or whole == kind):
        return typed, whole
    typed = typed.with_columns(part, names or ())
    return typed, column_types(typed, reader)[part]


def registry_of(schemas: SchemaOptions) -> SchemaRegistryClient | None:
    """Return this process's client of the registry."""
    options = schemas.schema_registry
    return registry_for(options) if isinstance(options, RegistryOptions) else None


def _arrow_types(typed: TypedOptions, readers: Readers) -> dict[str, pa.DataType]:
    found = {}
    for part, chosen in readers.items():
        others = {f"{one}_format": None for one in typed.schemas.parts if one != part}
        schemas = typed.schemas.replace(**{**others, f"{part}_schema": chosen.schema})
        try:
            found[part] = _batches(schemas, typed.topic or "").data_type(part)
        except SchemaError as error:
            path = f"{part}.{error.path}" if error.path else part
            remedy = (
                f"Name the fields that you want in {part}Columns."
                if error.path
                else f"Give {part}Format and {part}Schema that belong together, or leave both out, "
                "and read it as bytes."
            )
            raise ConfigError(
                f"{path} cannot be a column of Spark: {error.problem}. {remedy}"
            ) from error
        except ConfigError as error:
            said = in_users_words(str(error)).removeprefix("columns: ")
            raise ConfigError(f"{part}: {said}") from error
    return found


@lru_cache(maxsize=16)
def _batches(schemas: SchemaOptions, topic: str) -> TypedBatches:
    """Return what decodes a topic: what it has learned of writers serves the next task as well."""
    registry = registry_of(schemas)
    return TypedBatches(schemas.replace(schema_registry=registry), [topic])


class TypedRows:
    """Makes rows of what a task fetches from one partition: `stored` is what it has to fetch."""

    def __init__(
        self,
        typed: TypedOptions,
        readers: Readers,
        schema: pa.Schema,
        tp: TopicPartition,
        letters: DeadLetters | None = None,
    ) -> None:
        self._schema = schema
        self._where = str(tp)
        self._letters = letters
        self._flat = typed.flat_columns
        self._parts = parts_of(readers, schema)
        others = {f"{part}_format": None for part in readers if part not in self._parts}
        schemas = typed.with_schemas(readers).replace(**others)
        self._batches = _batches(schemas, tp.topic)
        self.stored = self._to_fetch(
            any(schemas.reads_headers(part) for part in self._parts) or letters is not None
        )

    def _to_fetch(self, with_headers: bool) -> pa.Schema:
        """Return the columns to fetch: keys and values as bytes, and what naming bad ones takes."""
        wanted = [
            found
            for found in self._schema
            if found.name not in self._parts and found.name not in ERROR_COLUMNS.values()
        ]
        fetched = {found.name: found for found in stored_schema(pa.schema(wanted))}
        fetched |= {part: pa.field(part, pa.binary()) for part in self._parts}
        others = ["offset"]
        if with_headers:
            others.append("headers")
        if self._letters is not None:
            others += ["key", "value", "timestamp"]
        for name in others:
            fetched.setdefault(name, spark_schema(include_headers=True).field(name))
        return pa.schema(list(fetched.values()))

    def __call__(self, found: FetchedBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a fetched batch.

        Raises SchemaDecodeError, naming topic, partition and offset, after the rows in front of it;
        RegistryUnreachable.
        """
        for decoded in self._batches.decode(found):
            batch = decoded.batch
            if self._letters is not None:
                batch = self._letters.sort_out(found, batch, self._parts)
            shaped = self._shaped(batch)
            yield flattened(shaped, self._flat) if self._flat else shaped

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for part in self._parts:
            wanted = self._schema.field(part) if part in self._schema.names else None
            at = batch.schema.get_field_index(part)
            if wanted is not None and batch.column(at).type != wanted.type:
                batch = batch.set_column(at, wanted, batch.column(at).cast(wanted.type))
        return to_numbers(batch, self._schema, self._where)


def parts_of(readers: Readers, schema: pa.Schema) -> tuple[str, ...]:
    """Return what has to be decoded for these columns: "value", "key", both or nothing."""
    return tuple(
        part for part in readers if part in schema.names or ERROR_COLUMNS[part] in schema.names
    )


def dead_letters_of(options: SourceOptions) -> DeadLetters | None:
    """Return where all ranges of a task put what cannot be decoded; None if that is no topic."""
    typed = options.typed
    if typed is None or typed.dead_letter_topic is None:
        return None
    from parley.spark.read.dead_letters import DeadLetters

    return DeadLetters(options.client, typed.dead_letter_topic, typed.dead_letter_limit)


def typed_rows(
    options: SourceOptions,
    readers: Readers,
    schema: pa.Schema,
    tp: TopicPartition,
    letters: DeadLetters | None,
) -> TypedRows | None:
    """Return what makes rows of what a task fetches; None where no typed column is wanted."""
    typed = options.typed
    if typed is None or not parts_of(readers, schema):
        return None
    return TypedRows(typed, readers, schema, tp, letters)
