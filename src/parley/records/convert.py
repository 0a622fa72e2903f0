"""Record sets from one format into another, as brokers do for old clients and for old topics.

Rules

1. Down (a fetch by a client older than the log): batches of the wanted format or an older one stay
   as they are; the others are rewritten with their own offsets and codec. Headers, producer ids and
   the transactional mark have no place in magic 0 and 1 and are lost, control batches are left out,
   timestamps are lost in magic 0.
2. Up (a produce by an old client into a newer log): magic 0 has no timestamps, they become -1.
3. zstd does not exist before magic 2: UnsupportedVersionError (Kafka's answer is
   UNSUPPORTED_COMPRESSION_TYPE, KIP-110).
"""

from __future__ import annotations

from parley.errors import UnsupportedVersionError
from parley.kernel import (
    Buffer,
    Codec,
    Columns,
    DecodeOptions,
    EncodeOptions,
    KernelError,
    Want,
    active,
    span_table,
)
from parley.records.columns import int64s
from parley.records.failures import corrupt, translate_decode
from parley.records.pieces import decode_all
from parley.records.split import RawBatch, iter_batches


def convert(
    data: Buffer,
    to_magic: int,
    *,
    first_offset: int = 0,
    upward: bool = False,
    where: tuple[str, int] | None = None,
) -> bytes:
    """Return the record set in the format `to_magic` or, unless `upward`, older ones that it holds.

    Records below `first_offset` are left out of what is rewritten. A partial tail is dropped.
    Raises CorruptRecordError for damaged bytes and UnsupportedVersionError for zstd before magic 2.
    """
    parts: list[Buffer] = []
    for batch in iter_batches(data, where):
        if batch.magic == to_magic or (batch.magic < to_magic and not upward):
            parts.append(memoryview(data).cast("B")[batch.start : batch.end])
        elif batch.is_control or batch.record_count == 0:
            continue
        else:
            if to_magic < 2 and batch.codec == Codec.ZSTD:
                raise UnsupportedVersionError(
                    "zstd batches cannot be given to a client that reads only the formats before "
                    "0.11. Use a client of 2.1 or later, or another compression for the topic.",
                    feature="zstd",
                    first_release="2.1",
                )
            parts += _convert_batch(data, batch, to_magic, first_offset, where)
    return b"".join(parts)


def needs_conversion(data: Buffer, to_magic: int) -> bool:
    """Return whether any batch is newer than a client of `to_magic` reads."""
    return any(batch.magic > to_magic for batch in iter_batches(data))


def _convert_batch(
    data: Buffer, batch: RawBatch, to_magic: int, first_offset: int, where: tuple[str, int] | None
) -> list[Buffer]:
    want = Want.ALL if to_magic == 2 else Want.ALL & ~Want.HEADERS
    options = DecodeOptions(first_offset=first_offset, want=int(want))
    parts: list[Buffer] = []
    try:
        for columns in decode_all(data, span_table([(batch.start, batch.end)]), options):
            parts += _written(columns, batch, to_magic, where)
    except KernelError as error:
        raise translate_decode(error, batch.base_offset, where) from error
    return parts


def _written(
    columns: Columns, batch: RawBatch, to_magic: int, where: tuple[str, int] | None
) -> list[Buffer]:
    parts: list[Buffer] = []
    start = 0
    while start < columns.rows:
        try:
            encoded = active.encode(columns, None, start, _options(batch, to_magic))
        except KernelError as error:
            # What cannot be written came from the batch: offsets
            # or times that no batch of that format can have.
            raise corrupt(
                f"cannot be had in format {to_magic}: {error.detail}", batch.base_offset, where
            ) from error
        parts.append(encoded.data)
        start = encoded.next_start
    return parts


def _options(batch: RawBatch, to_magic: int) -> EncodeOptions:
    append_time = batch.max_timestamp_ms if batch.timestamp_type == 1 else None
    return EncodeOptions(
        magic=to_magic,
        codec=batch.codec,
        log_append_time_ms=append_time,
        leader_epoch=batch.leader_epoch,
    )


def offsets_of(data: Buffer) -> list[int]:
    """Return the offsets of all records of the record set; for tests and small tools."""
    spans = span_table(
        (batch.start, batch.end) for batch in iter_batches(data) if not batch.is_control
    )
    found: list[int] = []
    try:
        for columns in decode_all(data, spans, DecodeOptions(want=int(Want.OFFSETS))):
            found += [] if columns.offsets is None else int64s(columns.offsets)
    except KernelError as error:
        raise translate_decode(error, 0, None) from error
    return found
