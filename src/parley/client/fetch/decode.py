"""Raw record bytes → Arrow. Runs in the caller's thread, never in the event loop's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from parley.client.fetch.state import RawFetch
from parley.client.options.client_options import FetchOptions
from parley.client.results import FetchedBatch
from parley.client.shapes import default_shape
from parley.records import ReadOptions, decode_columns

if TYPE_CHECKING:
    from parley.client.fetch.typed import TypedBatches


def decode(
    raw: RawFetch, options: FetchOptions, typed: TypedBatches | None = None
) -> Iterator[FetchedBatch]:
    """Yield the rows of record bytes, in batches of at most `max_batch_rows` and `max_batch_bytes`
    where record batches allow it; with keys and values decoded by `typed`.

    Raises CorruptRecordError, naming topic, partition and offset, after everything in front of the
    damage was yielded. Bytes without rows (control records, aborted or compacted ones) yield
    nothing.
    """
    shape = default_shape(options)
    reading = ReadOptions(
        want=shape.want,
        timestamp_scale=shape.timestamp_scale,
        max_rows=options.max_batch_rows,
        max_bytes=options.max_batch_bytes,
        max_batch_bytes=options.max_decompressed_bytes or 0,
        check_crc=options.check_crcs,
    )
    chunks = decode_columns(
        raw.data,
        first_offset=raw.first_offset,
        end_offset=raw.end_offset,
        aborted=raw.aborted or None,
        options=reading,
        where=raw.tp,
    )
    for chunk in chunks:
        if chunk.columns.rows:
            batch = shape.build(chunk.columns, raw.tp)
            found = FetchedBatch(raw.tp, batch, chunk.next_offset, chunk.last_leader_epoch)
            if typed is None:
                yield found
            else:
                yield from typed.decode(found)
