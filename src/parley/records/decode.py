"""Record bytes of one fetch → chunks of columns, with the position after each.

Rules

1. The position after a batch is its last offset + 1, whether its records are shown, compacted away,
   control records or aborted; so a reader never waits for an offset that does not exist.
2. A damaged batch raises after everything in front of it was yielded; the position stays at it.
3. Offsets never go back: of a batch that reaches behind the position only the rest is shown.
4. A chunk never holds part of a batch (except for the bounds asked for), and ends before the batch
   that would pass `max_rows` or `max_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from parley.errors import CorruptRecordError
from parley.kernel import NO_OFFSET_LIMIT, Buffer, Columns, DecodeOptions, KernelError, Want, active
from parley.records.failures import translate_decode
from parley.records.split import AbortedFilter, RawBatch, iter_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a decode fills and its bounds.

    `want` is a set of Want flags. `timestamp_scale` 1000 gives microseconds. `max_batch_bytes` bounds
    what one batch may decompress to; 0 means max(64 MiB, 64 x compressed).
    """

    want: int = int(Want.ALL)
    timestamp_scale: int = 1
    max_rows: int = 65_536
    max_bytes: int = 32 * 1024 * 1024
    max_batch_bytes: int = 0
    check_crc: bool = True


class DecodedChunk(NamedTuple):
    """Columns, the position after them, and the leader epoch of the last batch passed (-1: unknown).

    A chunk without rows only moves the position (control, aborted or compacted batches).
    """

    columns: Columns
    next_offset: int
    last_leader_epoch: int


_DEFAULT = ReadOptions()


def decode_columns(
    data: Buffer,
    *,
    first_offset: int,
    end_offset: int | None = None,
    aborted: Iterable[tuple[int, int]] | None = None,
    options: ReadOptions = _DEFAULT,
    where: tuple[str, int] | None = None,
) -> Iterator[DecodedChunk]:
    """Yield the records of [first_offset, end_offset) in chunks.

    `aborted` is the fetch's list of (producer id, first offset) for read_committed, None otherwise.
    `data` must not change before the iterator is exhausted or closed. Yields nothing where `data`
    holds no whole batch. Raises CorruptRecordError (rule 2), naming `where`, a topic and partition.
    """
    plan = _plan(data, first_offset, NO_OFFSET_LIMIT if end_offset is None else end_offset, aborted, options, where)
    position = first_offset
    for number, group in enumerate(plan.groups):
        done = 0
        while done < len(group):
            rest = group[done:]
            columns, count, error = _decode(data, rest, position, plan.end, options)
            if error is not None and count == 0:
                raise translate_decode(error, max(position, rest[0].base_offset), where) from error
            done += count
            last = rest[count - 1]
            position = min(last.next_offset, plan.end)
            epoch = last.leader_epoch
            if done == len(group) and number == len(plan.groups) - 1:
                position, epoch = plan.next_offset, plan.leader_epoch
            yield DecodedChunk(columns, position, epoch)
    if not plan.groups and plan.next_offset > first_offset:
        yield DecodedChunk(active.decode(b"", [], DecodeOptions(want=options.want)).columns, *plan[1:3])
    if plan.failure is not None:
        raise plan.failure


class _Plan(NamedTuple):
    groups: list[list[RawBatch]]     # batches with records to show, cut where a chunk should end
    next_offset: int                 # the position when all is done
    leader_epoch: int
    end: int
    failure: CorruptRecordError | None


def _plan(
    data: Buffer,
    first_offset: int,
    end: int,
    aborted: Iterable[tuple[int, int]] | None,
    options: ReadOptions,
    where: tuple[str, int] | None,
) -> _Plan:
    groups: list[list[RawBatch]] = []
    rows = size = 0
    position, epoch = first_offset, -1
    shown = AbortedFilter(aborted or ())
    batches = iter_batches(data, where)
    while position < end:
        try:
            batch = next(batches, None)
            if batch is None:
                break
            hidden = shown.is_aborted(data, batch, where) or batch.is_control
        except CorruptRecordError as failure:
            return _Plan(groups, position, epoch, end, failure)
        if batch.last_offset < position:
            continue
        if not hidden and batch.record_count != 0 and (batch.base_offset < end or batch.record_count < 0):
            count = max(batch.record_count, 1)
            # Rule 3: behind a batch that overlaps the one before it a new group trims at its position.
            overlaps = bool(groups) and batch.record_count > 0 and batch.base_offset < position
            if not groups or overlaps or rows + count > options.max_rows or size + batch.size > options.max_bytes:
                groups.append([])
                rows = size = 0
            groups[-1].append(batch)
            rows, size = rows + count, size + batch.size
        position, epoch = min(batch.next_offset, end), batch.leader_epoch
    return _Plan(groups, position, epoch, end, None)


def _decode(
    data: Buffer, batches: list[RawBatch], first_offset: int, end: int, options: ReadOptions
) -> tuple[Columns, int, KernelError | None]:
    """Decode from the front as far as it goes; an error counts only when the first batch has it."""
    wanted = DecodeOptions(
        first_offset=first_offset,
        end_offset=end,
        want=options.want,
        timestamp_scale=options.timestamp_scale,
        check_crc=options.check_crc,
        max_rows=options.max_rows,
        max_bytes=options.max_bytes,
        max_batch_bytes=options.max_batch_bytes,
    )
    spans = [(batch.start, batch.end) for batch in batches]
    try:
        decoded = active.decode(data, spans, wanted)
    except KernelError as error:
        if error.span <= 0:
            return Columns(0), 0, error
        decoded = active.decode(data, spans[: error.span], wanted)
    return decoded.columns, decoded.spans_done, None
