"""Which columns a read yields and how they are typed: parley's own schema, or Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from parley.arrow import (
    RECORD_SCHEMA,
    spark_schema,
    to_digest_batch,
    to_record_batch,
    to_spark_batch,
    want_for,
)
from parley.errors import ConfigError, nearest_hint
from parley.records import Columns, Want
from parley.types import Names, TopicPartition, texts


class BatchShape(Protocol):
    """What `FetchOptions.shape` needs: the columns to decode, and how to make a batch."""

    want: int
    timestamp_scale: int

    def build(self, columns: Columns, tp: TopicPartition) -> pa.RecordBatch:
        """Return the columns as a RecordBatch."""
        ...


class _RecordShape:
    timestamp_scale = 1

    def __init__(self, names: Sequence[str]) -> None:
        self.want = want_for(names)

    def build(self, columns: Columns, tp: TopicPartition) -> pa.RecordBatch:
        return to_record_batch(columns)


class _SparkShape:
    timestamp_scale = 1000

    def __init__(self, schema: pa.Schema) -> None:
        self.want = want_for(schema.names)
        self.schema = schema

    def build(self, columns: Columns, tp: TopicPartition) -> pa.RecordBatch:
        return to_spark_batch(columns, tp.topic, tp.partition, self.schema)


class _DigestShape:
    timestamp_scale = 1

    def __init__(self, timestamps: bool, keys: bool) -> None:
        self.want = int(Want.ALL if timestamps else Want.ALL & ~Want.TIMESTAMPS)
        self._keys = keys

    def build(self, columns: Columns, tp: TopicPartition) -> pa.RecordBatch:
        return to_digest_batch(columns, keys=self._keys)


def record_shape(columns: Names | None = None) -> BatchShape:
    """Return the shape of `RECORD_SCHEMA`, or of those of its columns that are named.

    A column that is not named is not even decoded. Raises ConfigError for an unknown name.
    """
    names = RECORD_SCHEMA.names if columns is None else texts("columns", columns, "columns")
    for name in names:
        if name not in RECORD_SCHEMA.names:
            raise ConfigError(
                f'there is no column "{name}" to read.{nearest_hint(name, RECORD_SCHEMA.names)}'
            )
    return _RecordShape(names)


def spark_shape(schema: pa.Schema | None = None, *, include_headers: bool = False) -> BatchShape:
    """Return the shape of Spark's `kafka` source: `schema` names any columns, in any order."""
    return _SparkShape(spark_schema(include_headers) if schema is None else schema)


def digest_shape(*, timestamps: bool = True, keys: bool = False) -> BatchShape:
    """Return the shape whose rows have a hash of each record in place of the record.

    `parley.arrow.to_digest_batch` has the columns; the hash is made where records are decoded.
    """
    return _DigestShape(timestamps, keys)


class _Shaped(Protocol):
    @property
    def shape(self) -> BatchShape | None: ...


def default_shape(options: _Shaped) -> BatchShape:
    """Return the shape that the fetch options name, or all of RECORD_SCHEMA."""
    return options.shape if options.shape is not None else record_shape()
