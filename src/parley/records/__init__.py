"""Record batches of magic 0, 1 and 2: split, decode into columns, encode, check, convert.

Everything per batch or per fetch is here (positions, control batches, aborted transactions,
compacted gaps); everything per record is the kernel's.
"""

from parley.kernel import (
    Buffer,
    Codec,
    Columns,
    HeadersColumn,
    TimestampType,
    VarColumn,
    Want,
)
from parley.records.append import CheckedBatch, assign_offsets, check_batch
from parley.records.checksum import crc_is_right
from parley.records.columns import (
    Record,
    columns_from_records,
    int32s,
    int64s,
    records,
    var_column,
    var_values,
)
from parley.records.control import end_marker
from parley.records.convert import convert, needs_conversion, offsets_of
from parley.records.decode import DecodedChunk, ReadOptions, decode_columns
from parley.records.encode import (
    EncodedBatch,
    WriteOptions,
    encode_batches,
    group_rows,
    next_sequence,
    partition_keys,
    stamp_producer,
)
from parley.records.info import KernelInfo, kernel_info, warn_if_pure
from parley.records.split import AbortedFilter, RawBatch, first_batch_bytes, follow_front, iter_batches, readable, split

__all__ = [
    "AbortedFilter",
    "Buffer",
    "CheckedBatch",
    "Codec",
    "Columns",
    "DecodedChunk",
    "EncodedBatch",
    "HeadersColumn",
    "KernelInfo",
    "RawBatch",
    "ReadOptions",
    "Record",
    "TimestampType",
    "VarColumn",
    "Want",
    "WriteOptions",
    "assign_offsets",
    "check_batch",
    "columns_from_records",
    "convert",
    "crc_is_right",
    "decode_columns",
    "encode_batches",
    "end_marker",
    "first_batch_bytes",
    "follow_front",
    "group_rows",
    "int32s",
    "int64s",
    "iter_batches",
    "kernel_info",
    "needs_conversion",
    "next_sequence",
    "offsets_of",
    "partition_keys",
    "readable",
    "records",
    "split",
    "stamp_producer",
    "var_column",
    "var_values",
    "warn_if_pure",
]
