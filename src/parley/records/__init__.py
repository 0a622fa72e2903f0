"""Record batches of magic 0, 1 and 2: split, decode into columns, encode, check, convert.

Everything per batch or per fetch is here (positions, control batches, aborted transactions,
compacted gaps); everything per record is the kernel's.

Map: Reading: `split` finds batches, `pieces` cuts them, `decode` makes `columns`, `first` makes the
records of many small fetches at once, `checksum` looks at none. Writing: `gathered`, `encode`,
`control`, `keyed`. Brokers: `append`, `convert`, `numbering`, `retain`. `layout` says where header
fields stand; `failures` makes errors, `info` says which kernel runs. `single` decompresses
messages, `digest` compares runs of records.
"""

from parley.kernel import (
    HEADER_BYTES,
    RECORD_BYTES,
    Buffer,
    Codec,
    Columns,
    ConsumerRecord,
    GatheredBatches,
    GatheredColumns,
    HeadersColumn,
    KernelErrorKind,
    ListedRecords,
    RecordCursor,
    RecordGatherer,
    RowHandle,
    TimestampType,
    VarColumn,
    Want,
)
from parley.records.append import (
    CheckedBatch,
    assign_offsets,
    check_batch,
    keyless_records,
    records_outside,
)
from parley.records.checksum import crc32, crc_is_right
from parley.records.columns import (
    Record,
    columns_from_records,
    int32s,
    int64s,
    record_cursor,
    records,
    var_column,
    var_values,
)
from parley.records.control import end_marker
from parley.records.convert import convert, needs_conversion, offsets_of
from parley.records.decode import DecodedChunk, ReadOptions, decode_columns
from parley.records.digest import RunDigest, digest_runs, record_hashes
from parley.records.encode import (
    EncodedBatch,
    WriteOptions,
    encode_batches,
    group_rows,
    next_sequence,
    partition_keys,
    stamp_producer,
)
from parley.records.failures import kind_of
from parley.records.first import RecordBytes, first_records
from parley.records.gathered import encode_gathered, gather, gathered_columns, row_handle
from parley.records.info import NATIVE_REMEDY, PURE_COST, KernelInfo, kernel_info, warn_if_pure
from parley.records.keyed import keyed_batch
from parley.records.numbering import Wrapper, number_messages
from parley.records.retain import KeyedRow, delete_horizon, emptied, keyed_rows, retain
from parley.records.split import RawBatch, first_batch_bytes, follow_fronts, iter_batches, split

__all__ = [
    "HEADER_BYTES",
    "NATIVE_REMEDY",
    "PURE_COST",
    "RECORD_BYTES",
    "Buffer",
    "CheckedBatch",
    "Codec",
    "Columns",
    "ConsumerRecord",
    "DecodedChunk",
    "EncodedBatch",
    "GatheredBatches",
    "GatheredColumns",
    "HeadersColumn",
    "KernelErrorKind",
    "KernelInfo",
    "KeyedRow",
    "ListedRecords",
    "RawBatch",
    "ReadOptions",
    "Record",
    "RecordBytes",
    "RecordCursor",
    "RecordGatherer",
    "RowHandle",
    "RunDigest",
    "TimestampType",
    "VarColumn",
    "Want",
    "Wrapper",
    "WriteOptions",
    "assign_offsets",
    "check_batch",
    "columns_from_records",
    "convert",
    "crc32",
    "crc_is_right",
    "decode_columns",
    "delete_horizon",
    "digest_runs",
    "emptied",
    "encode_batches",
    "encode_gathered",
    "end_marker",
    "first_batch_bytes",
    "first_records",
    "follow_fronts",
    "gather",
    "gathered_columns",
    "group_rows",
    "int32s",
    "int64s",
    "iter_batches",
    "kernel_info",
    "keyed_batch",
    "keyed_rows",
    "keyless_records",
    "kind_of",
    "needs_conversion",
    "next_sequence",
    "number_messages",
    "offsets_of",
    "partition_keys",
    "record_cursor",
    "record_hashes",
    "records",
    "records_outside",
    "retain",
    "row_handle",
    "split",
    "stamp_producer",
    "var_column",
    "var_values",
    "warn_if_pure",
]
