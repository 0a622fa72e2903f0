"""`arrowBatches=true`: rows that are Arrow record batches of many records.

Spark makes rows of what a source's tasks yield, and Arrow of those again for a sink's. Where it
computes nothing in between, that is most of the work. A batch that is one value of one row passes
as it is: the source packs (`packed`), the sink unpacks (`unpacked`), and the records' columns go
along in the metadata of the column (`batches_schema`, `columns_inside`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from parley.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

KEY = "parley.columns"
"""Of the column's metadata: the records' columns, in Spark's JSON."""
BATCH, RECORDS = "batch", "records"
"""The columns: a batch in Arrow's IPC stream format, and the number of records in it."""


def batches_schema(columns: StructType) -> StructType:
    """Return the columns of rows whose batches have these columns."""
    from pyspark.sql import types

    batch = types.StructField(BATCH, types.BinaryType(), False, {KEY: columns.json()})
    return types.StructType([batch, types.StructField(RECORDS, types.IntegerType(), False)])


def columns_inside(schema: StructType) -> StructType | None:
    """Return the columns of the records in rows' batches; None for rows that are none.

    Raises ConfigError for rows that have columns beside them: nobody could say of which record.
    """
    found = next((field for field in schema.fields if _is_batch(field)), None)
    if found is None:
        return None
    others = [field.name for field in schema.fields if not _is_batch(field)]
    if others not in ([], [RECORDS]):
        named = ", ".join(f'"{name}"' for name in others if name != RECORDS)
        raise ConfigError(
            f'the rows are Arrow batches of many records (column "{found.name}"), and {named} '
            "would belong to none of them: drop it, or read without arrowBatches"
        )
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(found.metadata[KEY]))


def packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of records as a batch of one row."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data = sink.getvalue()
    ends = pa.py_buffer(struct.pack("<2i", 0, data.size))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])
    fields = [pa.field(BATCH, pa.binary(), False), pa.field(RECORDS, pa.int32(), False)]
    counts = pa.array([batch.num_rows], pa.int32())
    return pa.RecordBatch.from_arrays([column, counts], schema=pa.schema(fields))


def unpacked(rows: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of records that rows have in the column of that name, without copies."""
    import pyarrow as pa

    for some in rows:
        for value in some.column(name):
            with pa.ipc.open_stream(value.as_buffer()) as stream:
                yield from stream


def batch_column(schema: StructType) -> str:
    """Return the name of the column of batches, of rows that have one."""
    return next(str(field.name) for field in schema.fields if _is_batch(field))


def _is_batch(field: StructField) -> bool:
    return KEY in (field.metadata or {})
