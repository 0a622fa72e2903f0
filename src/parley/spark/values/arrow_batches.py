"""`arrowBatches=true`: rows that are Arrow record batches of many records.

Spark makes rows of what a source's tasks yield, and Arrow of those again for a sink's. Where it
computes nothing in between, that is most of the work. A batch that is one value of one row passes
as it is: the source packs (`packed`), the sink unpacks (`unpacked`), and the records' columns go
along in the metadata of the column (`batches_schema`, `record_columns`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from parley.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

KEY = "parley.columns"
"""Of the column's metadata: the records' columns, in Spark's JSON."""
BATCH, RECORDS = "batch", "records"
"""The columns: a batch in Arrow's IPC stream format, and the number of records in it."""


def batches_schema(columns: StructType) -> StructType:
    """Return the columns of rows whose batches have these columns."""
    from pyspark.sql import types

    batch = types.StructField(BATCH, types.BinaryType(), False, {KEY: columns.json()})
    return types.StructType([batch, types.StructField(RECORDS, types.IntegerType(), False)])


def batch_column(schema: StructType) -> str | None:
    """Return the name of the column of batches; None of rows that have none."""
    return next((str(one.name) for one in schema.fields if KEY in (one.metadata or {})), None)


def record_columns(schema: StructType) -> StructType:
    """Return the columns of records: those inside of batches, or the rows' own.

    Raises ConfigError for batches that have columns beside them: nobody could say of which record.
    """
    name = batch_column(schema)
    if name is None:
        return schema
    others = [one for one in schema.names if one != name]
    if others not in ([], [RECORDS]):
        named = ", ".join(f'"{one}"' for one in others if one != RECORDS)
        raise ConfigError(
            f'the rows are Arrow batches of many records (column "{name}"), and {named} '
            "would belong to none of them: drop it, or read without arrowBatches"
        )
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema[name].metadata[KEY]))


def columns_of_batches(schema: StructType) -> StructType:
    """Return the columns of the records of a read. Raises ConfigError for a schema of the user's
    own, which hides them.
    """
    if batch_column(schema) is None:
        raise ConfigError(
            "arrowBatches=true makes columns of its own: choose those of the records with the "
            "option columns, and not with schema()"
        )
    return record_columns(schema)


def packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of records as a batch of one row."""
    import pyarrow as pa

    from parley.arrow import one_int32

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data = sink.getvalue()
    ends = pa.py_buffer(struct.pack("<2i", 0, data.size))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])
    fields = [pa.field(BATCH, pa.binary(), False), pa.field(RECORDS, pa.int32(), False)]
    columns = [column, one_int32(batch.num_rows)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def unpacked(rows: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of records that rows have in the column of that name, without copies."""
    import pyarrow as pa

    for some in rows:
        for value in some.column(name):
            with pa.ipc.open_stream(value.as_buffer()) as stream:
                yield from stream
