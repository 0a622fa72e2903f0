"""Columns → a batch with a hash for each record, which stands for all that the record has."""

from __future__ import annotations

import pyarrow as pa

from parley.records import Columns, record_hashes


def to_digest_batch(columns: Columns, *, keys: bool = False) -> pa.RecordBatch:
    """Return a row for each record: its place, and its hash.

    offset          int64
    timestamp_type  int32   -1 for a record without a timestamp (format 0)
    timestamp_ms    int64   only where timestamps were decoded; then they count in the hash
    hash            uint64  of key, value, headers and timestamp
    key_hash        uint64  of the key alone; with `keys`, as the next
    has_value       bool    False for a tombstone
    """
    rows = columns.rows
    found = {
        "offset": _numbers(pa.int64(), rows, columns.offsets),
        "timestamp_type": _numbers(pa.int32(), rows, columns.timestamp_types),
    }
    if columns.timestamps is not None:
        found["timestamp_ms"] = _numbers(pa.int64(), rows, columns.timestamps)
    found["hash"] = _numbers(pa.uint64(), rows, record_hashes(columns))
    if keys:
        key_hashes = record_hashes(Columns(rows=rows, key=columns.key))
        found["key_hash"] = _numbers(pa.uint64(), rows, key_hashes)
        validity = None if columns.value is None else columns.value.validity
        present = b"\xff" * (-(-rows // 8)) if validity is None else validity
        found["has_value"] = _numbers(pa.bool_(), rows, present)
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def _numbers(kind: pa.DataType, rows: int, buffer: object) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(buffer)], 0)
