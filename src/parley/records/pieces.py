"""Batches in pieces: a batch of a few kilobytes may hold millions of records, which
are never decoded all at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from parley.kernel import (
    MAX_COLUMN_BYTES,
    SPAN_FIELDS,
    Buffer,
    Columns,
    DecodeOptions,
    KernelError,
    KernelErrorKind,
    active,
)

MAX_SPAN_ROWS = 65_536
"""A batch of more records is decoded in pieces of at most so many."""

LEAST_PIECE_ROWS = 1_024
"""A piece costs a header: smaller ones would make a batch much larger than it is."""

_PIECE_BYTES = 32 * 1024 * 1024


class Piece(NamedTuple):
    """Some records of a batch, and the position after them; None for the last."""

    columns: Columns
    next_offset: int | None


def span_limit(max_rows: int) -> int:
    """Return how many records a batch may have that is decoded in one piece."""
    return max(MAX_SPAN_ROWS, min(max_rows, MAX_COLUMN_BYTES))


def is_too_many(error: KernelError) -> bool:
    """Return whether it is the first span that holds more than is decoded at once."""
    return error.kind is KernelErrorKind.TOO_MANY and error.span <= 0


def decode_in_pieces(data: Buffer, start: int, end: int, options: DecodeOptions) -> Iterator[Piece]:
    """Yield the records of one batch, those of all pieces but the last with a position.

    Every record was looked at before the first piece comes. Raises KernelError.
    """
    most = max(LEAST_PIECE_ROWS, min(options.max_rows, MAX_SPAN_ROWS))
    pieces, spans = active.cut_batch(data, start, end, options, most)
    table = array("q", bytes(spans))
    plain = replace(options, check_crc=False, max_span_rows=MAX_COLUMN_BYTES)
    for at in range(0, len(table), SPAN_FIELDS):
        columns = active.decode(pieces, table[at : at + SPAN_FIELDS].tobytes(), plain).columns
        yield Piece(columns, table[at + 2] if at + SPAN_FIELDS < len(table) else None)


@lru_cache(maxsize=16)  # a broker asks with the same options for each record set that it is sent
def _bounded(options: DecodeOptions) -> DecodeOptions:
    return replace(
        options, max_rows=MAX_SPAN_ROWS, max_bytes=_PIECE_BYTES, max_span_rows=MAX_SPAN_ROWS
    )


def decode_all(data: Buffer, spans: bytes, options: DecodeOptions) -> Iterator[Columns]:
    """Yield the records of all spans of a table, at most about MAX_SPAN_ROWS of them
    at once. Raises KernelError.
    """
    options = _bounded(options)
    table, done = array("q", spans), 0
    while done < len(table):
        try:
            decoded = active.decode(data, table[done:].tobytes(), options)
        except KernelError as error:
            if is_too_many(error):
                for piece in decode_in_pieces(data, table[done], table[done + 1], options):
                    yield piece.columns
                done += SPAN_FIELDS
            elif error.span > 0 and error.kind is KernelErrorKind.TOO_MANY:
                before = active.decode(
                    data, table[done : done + error.span * SPAN_FIELDS].tobytes(), options
                )
                done += before.spans_done * SPAN_FIELDS
                yield before.columns
            else:
                raise
            continue
        done += decoded.spans_done * SPAN_FIELDS
        yield decoded.columns
