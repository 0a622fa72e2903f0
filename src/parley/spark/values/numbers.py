"""Keys and values as numbers: what Kafka's Java serializers wrote, big-endian, as columns.

`.schema("key bigint, value double")` reads what LongSerializer and DoubleSerializer wrote. Whole
columns are turned at once; no Python object is made per record.
"""

from __future__ import annotations

import array
import sys

import pyarrow as pa
import pyarrow.compute as pc

from parley.errors import ConfigError

CODES = {pa.int16(): "h", pa.int32(): "i", pa.int64(): "q", pa.float32(): "f", pa.float64(): "d"}
SERIALIZERS = {
    "smallint": "ShortSerializer",
    "int": "IntegerSerializer",
    "bigint": "LongSerializer",
    "float": "FloatSerializer",
    "double": "DoubleSerializer",
}
"""Spark types of keys and values that are numbers, and who writes them so."""
_COLUMNS = ("key", "value")


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return what to fetch for a schema: numbers as bytes, and offsets to name bad ones."""
    fields = [
        pa.field(found.name, pa.binary(), found.nullable)
        if found.name in _COLUMNS and found.type in CODES
        else found
        for found in schema
    ]
    if fields != list(schema) and "offset" not in schema.names:
        fields.append(pa.field("offset", pa.int64()))
    return pa.schema(fields)


def to_numbers(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """Return a batch of `stored_schema` as one of `schema`.

    Raises ConfigError for a key or value of another length, naming its offset in `where`.
    """
    if batch.schema.names == schema.names and batch.schema == schema:
        return batch
    columns = []
    for found in schema:
        column = batch.column(found.name)
        if column.type != found.type:
            column = _numbers(column, found, batch, where)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _numbers(column: pa.Array, wanted: pa.Field, batch: pa.RecordBatch, where: str) -> pa.Array:
    width = wanted.type.bit_width // 8
    wrong = pc.index(
        pc.fill_null(pc.not_equal(pc.binary_length(column), width), False), True
    ).as_py()
    if wrong >= 0:
        raise ConfigError(
            f"the {wanted.name} at offset {batch.column('offset')[wrong]} of {where} "
            f"has {len(column[wrong].as_py())} bytes and cannot be read as "
            f'{wanted.type}, which has {width}. Read it as "{wanted.name} binary".'
        )
    filled = pc.fill_null(column, bytes(width)) if column.null_count else column
    offsets = memoryview(filled.buffers()[1]).cast("i")
    start = offsets[filled.offset]
    data = filled.buffers()[2]
    values = array.array(CODES[wanted.type])
    if len(filled):
        values.frombytes(memoryview(data)[start : start + width * len(filled)])
    if sys.byteorder == "little":
        values.byteswap()
    numbers = pa.Array.from_buffers(wanted.type, len(filled), [None, pa.py_buffer(values)])
    return pc.if_else(column.is_valid(), numbers, None) if column.null_count else numbers
