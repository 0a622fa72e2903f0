"""The kernel in pure Python: slower, needs no compiler, and is the oracle of the native one.

Map: `magic2` and `legacy` decode, `encode` encodes, `scan` follows headers, `columns` are what
comes out, of which a `cursor` makes records; `rows` makes them of lists, `gather` of
records that are sent; `compress` and `lz4`,
`crc`, `murmur2`, `group`; `digest` hashes records, with `xxh64`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parley.kernel.contract import (
    MAX_COLUMN_BYTES,
    NO_OFFSET_LIMIT,
    SPAN_FIELDS,
    Buffer,
    Decoded,
    DecodeOptions,
    KernelError,
    KernelErrorKind,
    ScanOptions,
)
from parley.kernel.functions import Place, RecordCursor
from parley.kernel.record import ConsumerRecord
from parley.kernel.reference.columns import ColumnsBuilder
from parley.kernel.reference.compress import compress, decompress
from parley.kernel.reference.crc import crc32, crc32c
from parley.kernel.reference.cursor import record_cursor
from parley.kernel.reference.digest import digest_runs, record_hashes
from parley.kernel.reference.encode import encode
from parley.kernel.reference.gather import (
    RecordGatherer,
    RowHandle,
    encode_gathered,
    gather,
    gathered_columns,
    row_handle,
)
from parley.kernel.reference.group import group_rows
from parley.kernel.reference.legacy import MAGIC_AT, cut_legacy, decode_legacy, scan_legacy
from parley.kernel.reference.magic2 import cut_magic2, decode_batch, decompress_batch
from parley.kernel.reference.murmur2 import murmur2_partitions
from parley.kernel.reference.rows import bytes_column
from parley.kernel.reference.scan import follow_fronts, scan_batches

NAME = "python"
VERSION = "1"

__all__ = [
    "NAME",
    "VERSION",
    "ConsumerRecord",
    "RecordGatherer",
    "RowHandle",
    "bytes_column",
    "compress",
    "crc32",
    "crc32c",
    "cut_batch",
    "decode",
    "decompress",
    "digest_runs",
    "encode",
    "encode_gathered",
    "first_records",
    "follow_fronts",
    "gather",
    "gathered_columns",
    "group_rows",
    "murmur2_partitions",
    "record_cursor",
    "record_hashes",
    "row_handle",
    "scan_batches",
    "scan_legacy",
]


def decode(data: Buffer, spans: Buffer, options: DecodeOptions) -> Decoded:
    """Return the records of as many spans as the options' limits admit, as columns."""
    view = memoryview(data).cast("B")
    builder = ColumnsBuilder(options)
    used = 0  # decompressed bytes so far
    table = memoryview(spans).cast("B").cast("q")
    for index in range(len(table) // SPAN_FIELDS):
        roomy = (
            builder.begin_span() and builder.rows < options.max_rows and used < options.max_bytes
        )
        if index and not roomy:
            return Decoded(builder.finish(), index)
        start, end = table[SPAN_FIELDS * index], table[SPAN_FIELDS * index + 1]
        if index:
            builder.first_offset = max(options.first_offset, table[SPAN_FIELDS * index - 2])
        try:
            magic = _magic(view, start, end)
            if magic == 2:
                plain, count = decompress_batch(view, start, end, options)
                if index and (
                    builder.rows + count > options.max_rows or used + len(plain) > MAX_COLUMN_BYTES
                ):
                    return Decoded(builder.finish(), index)
                decode_batch(view, start, plain, count, builder)
                used += len(plain)
            else:
                room = MAX_COLUMN_BYTES - used if index else MAX_COLUMN_BYTES
                read = decode_legacy(view, (start, end), options, builder, room)
                if read is None:
                    return Decoded(builder.finish(), index)
                used += read
        except KernelError as error:
            error.span = index
            raise
    return Decoded(builder.finish(), len(table) // SPAN_FIELDS)


def first_records(
    fetches: Sequence[tuple[Buffer, int, Place]], options: DecodeOptions
) -> Sequence[RecordCursor | None]:
    """Return the first records of each fetch; None where it has to be looked at step by step."""
    found: list[RecordCursor | None] = []
    rows = 0
    for data, position, place in fetches:
        made = _first_records(data, position, place, options)
        found.append(made)
        rows += 0 if made is None else len(made)
        if rows >= options.max_rows:
            break
    return found


def _first_records(
    data: Buffer, position: int, place: Place, options: DecodeOptions
) -> RecordCursor | None:
    scan = scan_batches(data, 0, ScanOptions(position=position))
    spans = memoryview(scan.table).cast("B").cast("q")
    if not spans:
        return None
    wanted = replace(options, first_offset=position, end_offset=NO_OFFSET_LIMIT)
    try:
        decoded = decode(data, spans, wanted)
    except KernelError:
        return None
    done = decoded.spans_done * SPAN_FIELDS
    after = scan.next_offset if done == len(spans) else spans[done - 2]
    return record_cursor(decoded.columns, *place, after) if decoded.columns.rows else None


def _magic(view: memoryview, start: int, end: int) -> int:
    """Return the magic of a span, checked as far as it can be read."""
    if not 0 <= start <= end <= len(view):
        raise KernelError(KernelErrorKind.ARGUMENT, f"span {start}..{end} of {len(view)} bytes")
    if end - start <= MAGIC_AT:
        raise KernelError(KernelErrorKind.MALFORMED, f"{end - start} bytes are no batch")
    magic = view[start + MAGIC_AT]
    if magic > 2:
        raise KernelError(KernelErrorKind.MAGIC, f"magic {magic} does not exist")
    return magic


def cut_batch(
    data: Buffer, start: int, end: int, options: DecodeOptions, most: int
) -> tuple[Buffer, Buffer]:
    """Return a span's records as uncompressed spans of up to `most`, and their table."""
    view = memoryview(data).cast("B")
    options = replace(options, max_span_rows=MAX_COLUMN_BYTES)
    if most < 1:
        raise KernelError(KernelErrorKind.ARGUMENT, "a piece has at least one record")
    cut = cut_magic2 if _magic(view, start, end) == 2 else cut_legacy
    return cut(view, start, end, options, most)
