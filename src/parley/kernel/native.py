"""The compiled kernel in the contract's shapes. Importing this fails where it was not built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import parley.kernel._native as _native
from parley.kernel.contract import (
    BatchScan,
    Buffer,
    Columns,
    Decoded,
    DecodeOptions,
    Encoded,
    EncodeOptions,
    HeadersColumn,
    KernelError,
    KernelErrorKind,
    LegacyRun,
    ScanOptions,
    VarColumn,
)
from parley.kernel.functions import FrontTuple, Place, RecordCursor
from parley.kernel.gathering import GatheredBatches, GatheredColumns, Gatherer, Spread

NAME = "rust"
VERSION = _native.VERSION

crc32c = _native.crc32c
crc32 = _native.crc32
ConsumerRecord = _native.ConsumerRecord
RecordGatherer, RowHandle = _native.RecordGatherer, _native.RowHandle
gather, row_handle = _native.gather, _native.row_handle


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _native.NativeError as error:
        kind, detail, span, record = error.args
        raise KernelError(KernelErrorKind(kind), detail, span=span, record=record) from error


def _view(buffer: _native.Buffer | None) -> memoryview | None:
    return None if buffer is None else memoryview(buffer)


def _var(column: _native.Var) -> VarColumn:
    validity, offsets, data, nulls = column
    return VarColumn(_view(validity), memoryview(offsets), memoryview(data), nulls)


def _headers(column: _native.Headers | None) -> HeadersColumn | None:
    if column is None:
        return None
    ends, names, contents, count = column
    return HeadersColumn(memoryview(ends), _var(names), _var(contents), count)


def decode(data: Buffer, spans: Buffer, options: DecodeOptions) -> Decoded:
    """Return the records of as many spans as the options' limits admit, as columns."""
    with _translated():
        rows, offsets, timestamps, types, key, value, headers, done = _native.decode(
            data, spans, options
        )
    columns = Columns(
        rows=rows,
        offsets=_view(offsets),
        timestamps=_view(timestamps),
        timestamp_types=_view(types),
        key=None if key is None else _var(key),
        value=None if value is None else _var(value),
        headers=_headers(headers),
    )
    return Decoded(columns, done)


def cut_batch(
    data: Buffer, start: int, end: int, options: DecodeOptions, most: int
) -> tuple[Buffer, Buffer]:
    """Return a span's records as uncompressed spans of up to `most`, and their table."""
    with _translated():
        pieces, table = _native.cut_batch(data, start, end, options, most)
    return memoryview(pieces), memoryview(table)


def record_cursor(
    columns: Columns,
    topic: str,
    partition: int,
    epochs: Sequence[tuple[int, int]],
    next_offset: int,
    counts: Buffer | None = None,
) -> RecordCursor:
    """Return the records of the columns; with `counts` those that have one above 0."""
    return _native.record_cursor(columns, topic, partition, epochs, next_offset, counts)


def first_records(
    fetches: Sequence[tuple[Buffer, int, Place]], options: DecodeOptions
) -> Sequence[RecordCursor | None]:
    """Return the first records of each fetch; None where it has to be looked at step by step."""
    with _translated():
        return _native.first_records(fetches, options)


def gathered_columns(gatherer: Gatherer) -> GatheredColumns:
    """Return what a closed gatherer holds, and leave nothing in it."""
    assert isinstance(gatherer, RecordGatherer)
    rows, times, partitions, key, value, headers = gatherer._columns()
    columns = Columns(
        rows=rows,
        timestamps=memoryview(times),
        key=None if key is None else _var(key),
        value=None if value is None else _var(value),
        headers=_headers(headers),
    )
    return GatheredColumns(columns, _view(partitions))


def encode_gathered(
    work: Sequence[Spread], hash_keys: bool, options: EncodeOptions
) -> list[GatheredBatches | None]:
    """Return the batches of closed gatherers, None for one whose records cannot be written so."""
    with _translated():
        made = _native.encode_gathered(work, hash_keys, options)
    return [None if one is None else _batches(*one) for one in made]


def _batches(
    times_ms: _native.Buffer,
    order: _native.Buffer | None,
    batches: list[tuple[int, _native.Buffer, int, int]],
) -> GatheredBatches:
    found: list[tuple[int, Buffer, int, int]] = [
        (partition, memoryview(data), start, records) for partition, data, start, records in batches
    ]
    return GatheredBatches(memoryview(times_ms), _view(order), found)


def encode(columns: Columns, rows: Buffer | None, start: int, options: EncodeOptions) -> Encoded:
    """Return one batch of the selected rows from position `start` on."""
    with _translated():
        data, next_start, max_timestamp_ms = _native.encode(columns, rows, start, options)
    return Encoded(memoryview(data), next_start, max_timestamp_ms)


def scan_batches(data: Buffer, start: int, options: ScanOptions) -> BatchScan:
    """Return the batches from byte `start` on."""
    table, epochs, end, next_offset, leader_epoch = _native.scan_batches(data, start, options)
    return BatchScan(memoryview(table), memoryview(epochs), end, next_offset, leader_epoch)


def follow_fronts(fetches: Sequence[Buffer], max_epochs: int) -> Sequence[FrontTuple]:
    """Return where the whole batches of each fetch end."""
    with _translated():
        return _native.follow_fronts(fetches, max_epochs)


def scan_legacy(data: Buffer, start: int, max_entries: int) -> LegacyRun | None:
    """Return the span that begins at `start`, or None where no whole magic-0/1 message stands."""
    found = _native.scan_legacy(data, start, max_entries)
    return None if found is None else LegacyRun(*found)


def murmur2_partitions(key: VarColumn, rows: Buffer | None, count: int, partitions: int) -> Buffer:
    """Return the partition of each selected key as int32, -1 where the key is null."""
    with _translated():
        return memoryview(_native.murmur2_partitions(key, rows, count, partitions))


def group_rows(targets: Buffer, partitions: int) -> tuple[Buffer, Buffer]:
    """Return the rows by their partition, and how many each partition has."""
    with _translated():
        order, counts = _native.group_rows(targets, partitions)
    return memoryview(order), memoryview(counts)


def record_hashes(columns: Columns) -> Buffer:
    """Return the hash of each record as uint64."""
    with _translated():
        return memoryview(_native.record_hashes(columns))


def digest_runs(hashes: Buffer, first: int, run: int) -> Buffer:
    """Return number of records, sum and polynomial of each run of hashes."""
    with _translated():
        return memoryview(_native.digest_runs(hashes, first, run))


def bytes_column(values: list[bytes | None]) -> VarColumn:
    """Return the column of a list of bytes and None."""
    with _translated():
        return _var(_native.bytes_column(values))


def compress(codec: int, data: Buffer, level: int | None, magic: int) -> Buffer:
    """Return the bytes compressed as the format wants them."""
    with _translated():
        return memoryview(_native.compress_bytes(codec, data, level, magic))


def decompress(codec: int, data: Buffer, max_bytes: int, magic: int) -> Buffer:
    """Return the decompressed bytes, or raise KernelError as the contract says."""
    with _translated():
        return memoryview(_native.decompress_bytes(codec, data, max_bytes, magic))
