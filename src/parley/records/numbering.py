"""Offsets for messages of a produced set of magic 0 or 1: the producer's own mean nothing.

Rules

1. A broker counts messages in the order in which they stand, whatever their offsets: -1 (kafkajs),
   0 for all, descending ones. Those inside a compressed message count too.
2. Nothing is left out: a set comes back with every message that it had, or not at all.
3. What the offsets were is reported (`Wrapper`), since some releases refuse a compressed set for
   them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from parley.kernel import (
    Buffer,
    DecodeOptions,
    EncodeOptions,
    KernelError,
    Want,
    active,
    span_table,
)
from parley.records import layout
from parley.records.columns import int64s
from parley.records.convert import convert
from parley.records.failures import corrupt, translate_decode, translate_encode

_LEAST_OFFSET = -(2**63)


class Wrapper(NamedTuple):
    """The offsets that a producer wrote into a compressed message: its own and inner ones.

    `counted` says whether each of those in it is one more than that before it.
    """

    magic: int
    offset: int
    first_inner: int
    last_inner: int
    counted: bool


def number_messages(
    data: Buffer, sizes: Iterable[int], where: tuple[str, int] | None = None
) -> tuple[Buffer, list[Wrapper]]:
    """Return messages that count from 0, in one format, and what compressed ones held.

    `sizes` are those of the whole messages that `data` consists of. A set of both formats comes
    back in the newer one. Raises CorruptRecordError for messages that cannot be read. Mutates
    nothing.
    """
    view = memoryview(bytearray(data))
    parts: list[Buffer] = []
    wrappers: list[Wrapper] = []
    magics = set()
    at = count = 0
    for size in sizes:
        entry = view[at : at + size]
        at += size
        magics.add(entry[layout.MAGIC_AT])
        if entry[layout.MAGIC_AT + 1] & layout.CODEC_MASK:
            part, records, wrapper = _number_wrapper(entry, count, where)
            wrappers.append(wrapper)
            parts.append(part)
            count += records
        else:
            layout.INT64.pack_into(entry, 0, count)
            parts.append(entry)
            count += 1
    numbered = b"".join(parts) if wrappers else view
    return (
        convert(numbered, max(magics), upward=True, where=where) if len(magics) > 1 else numbered
    ), wrappers


def _number_wrapper(
    entry: memoryview, count: int, where: tuple[str, int] | None
) -> tuple[Buffer, int, Wrapper]:
    """Return a compressed message counted from `count`, how many it has, what it held."""
    magic, (written,) = entry[layout.MAGIC_AT], layout.INT64.unpack_from(entry)
    codec = entry[layout.MAGIC_AT + 1] & layout.CODEC_MASK
    layout.INT64.pack_into(entry, 0, 0)  # with 0 the kernel takes what stands inside as it is
    everything = Want.OFFSETS | Want.TIMESTAMPS | Want.KEYS | Want.VALUES
    span = span_table([(0, len(entry))])
    try:
        options = DecodeOptions(first_offset=_LEAST_OFFSET, want=int(Want.OFFSETS))
        found = active.decode(entry, span, options).columns
        inner, records = int64s(found.offsets or b"").tolist(), found.rows
        if not records:
            raise corrupt("the offsets in a compressed message cannot be", 0, where)
        wrapper = Wrapper(
            magic, written, inner[0], inner[-1], inner == list(range(inner[0], inner[0] + records))
        )
        if wrapper.counted and inner[0] == (count if magic == 0 else 0):
            layout.INT64.pack_into(entry, 0, count + records - 1)
            return entry, records, wrapper
        columns = active.decode(entry, span, replace(options, want=int(everything))).columns
    except KernelError as error:
        raise translate_decode(error, 0, where) from error
    append_time = entry[layout.MAGIC_AT + 1] & layout.LOG_APPEND_TIME and magic == 1
    stamp = layout.INT64.unpack_from(entry, layout.LEGACY_TIMESTAMP_AT)[0] if append_time else None
    try:
        rewritten = EncodeOptions(
            magic=magic, codec=codec, base_offset=count, log_append_time_ms=stamp
        )
        return (
            active.encode(replace(columns, offsets=None), None, 0, rewritten).data,
            records,
            wrapper,
        )
    except KernelError as error:
        raise translate_encode(error) from error
