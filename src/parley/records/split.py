"""Raw record bytes → batches, of any mix of formats.

Rules

1. A fetch may end inside a batch: brokers cut at the byte limit. A partial tail is ignored; it is
   fetched again from its start.
2. One response may hold several formats, as a log does after its format was changed.
3. A run of uncompressed magic-0/1 messages is one RawBatch (at most MAX_RUN messages), so that no
   object is made per record; a compressed message is one of its own.
4. What the header says is believed here only as far as the next header is found and positions are
   counted; everything else is the kernel's to check.
5. Readers do not walk through the batches one by one: the kernel does (`ScanOptions`), and decides
   with it which are shown. What is wrong where it stops is said here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parley.errors import CorruptRecordError
from parley.kernel import (
    MAX_CONTROL_RECORDS,
    MAX_RUN,
    Buffer,
    DecodeOptions,
    FrontTuple,
    KernelError,
    Want,
    active,
    span_table,
)
from parley.records import layout
from parley.records.failures import corrupt, translate_decode

_MAX_OFFSET = 2**63 - 2  # its successor, the next position, must still be an int64


class RawBatch(NamedTuple):
    """One batch of magic 2, or one span of magic-0/1 messages, as its header describes it.

    `start` and `end` are byte positions in the buffer that was split. For a compressed magic-0/1
    message `base_offset` equals `last_offset` (its first offset is known only inside) and
    `record_count` is -1. `producer_id` and the fields beside it are -1 where the format has none.
    """

    start: int
    end: int
    magic: int
    base_offset: int
    last_offset: int
    record_count: int
    codec: int
    timestamp_type: int
    max_timestamp_ms: int
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False

    @property
    def next_offset(self) -> int:
        """The position after this batch."""
        return self.last_offset + 1

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.end - self.start


def follow_fronts(fetches: Sequence[Buffer], max_epochs: int) -> Sequence[FrontTuple]:
    """Return the whole batches at the front of each, as their headers describe them: where they
    end, the offset after them, and (next offset, leader epoch) of the last batch of each run of one
    epoch, `max_epochs` at most. -1 is the epoch of magic 0 and 1. Where there is no batch, there
    are no epochs.
    """
    return active.follow_fronts(fetches, max_epochs)


def split(data: Buffer, where: tuple[str, int] | None = None) -> list[RawBatch]:
    """Return the whole batches at the front of `data`; a partial tail is left out.

    Raises CorruptRecordError (with `where`, a topic and partition, named) where no batch can begin.
    """
    return list(iter_batches(data, where))


def iter_batches(
    data: Buffer, where: tuple[str, int] | None = None, *, start: int = 0, expected: int = 0
) -> Iterator[RawBatch]:
    """Yield the batches of `split` from byte `start` on; an error follows those before it.

    `expected` is the least offset that an error may name.
    """
    view = memoryview(data).cast("B")
    pos = start
    while len(view) - pos > layout.MAGIC_AT:
        offset, size, _, magic = layout.ENTRY_HEAD.unpack_from(view, pos)
        least = layout.MIN_SIZE.get(magic)
        if least is None:
            raise corrupt(f"magic {magic} does not exist", max(offset, expected), where)
        if size < least:
            raise corrupt(
                f"a batch of {size} bytes is shorter than its header", max(offset, expected), where
            )
        if size > len(view) - pos - layout.LOG_OVERHEAD:
            return
        batch = _magic2(view, pos, size) if magic == 2 else _legacy(view, pos)
        if (
            batch is None
            or batch.base_offset < 0
            or not batch.base_offset <= batch.last_offset <= _MAX_OFFSET
        ):
            raise corrupt("the offsets of a batch header cannot be", max(offset, expected), where)
        yield batch
        pos, expected = batch.end, batch.next_offset


def _magic2(view: memoryview, pos: int, size: int) -> RawBatch:
    (
        offset,
        _,
        epoch,
        _,
        _,
        attributes,
        last_delta,
        _,
        max_timestamp,
        producer,
        producer_epoch,
        sequence,
        count,
    ) = layout.BATCH_HEADER.unpack_from(view, pos)
    return RawBatch(
        pos,
        pos + layout.LOG_OVERHEAD + size,
        2,
        offset,
        offset + last_delta,
        count,
        attributes & layout.CODEC_MASK,
        1 if attributes & layout.LOG_APPEND_TIME else 0,
        max_timestamp,
        epoch,
        producer,
        producer_epoch,
        sequence,
        bool(attributes & layout.TRANSACTIONAL),
        bool(attributes & layout.CONTROL),
    )


def _legacy(view: memoryview, pos: int) -> RawBatch | None:
    run = active.scan_legacy(view, pos, MAX_RUN)
    if run is None:
        return None
    count = -1 if run.codec else run.entries
    return RawBatch(
        pos, run.end, run.magic, run.first_offset, run.last_offset, count, run.codec,
        run.timestamp_type, run.max_timestamp_ms,
    )  # fmt: skip


def first_batch_bytes(data: Buffer) -> int | None:
    """Return the size that the first batch announces, or None where the bytes are too few to say.

    When it is larger than `data` the fetch returned no whole batch: a broker before Fetch v3
    (KIP-74) cannot return one that is larger than the fetch's limit.
    """
    view = memoryview(data).cast("B")
    if len(view) < layout.LOG_OVERHEAD:
        return None
    size: int = layout.INT32.unpack_from(view, 8)[0]
    return layout.LOG_OVERHEAD + size


def fault_at(
    data: Buffer, at: int, expected: int, where: tuple[str, int] | None = None
) -> CorruptRecordError | None:
    """Return what is wrong with the batch where a scan ended, or None if it is cut off.

    `expected` is the least offset that the error may name.
    """
    try:
        batch = next(iter_batches(data, where, start=at, expected=expected), None)
    except CorruptRecordError as error:
        return error
    return None if batch is None else _fault_of_marker(data, batch, where)


def _fault_of_marker(
    data: Buffer, batch: RawBatch, where: tuple[str, int] | None
) -> CorruptRecordError:
    options = DecodeOptions(want=int(Want.NOTHING), max_span_rows=MAX_CONTROL_RECORDS)
    try:
        active.decode(data, span_table([(batch.start, batch.end)]), options)
    except KernelError as error:
        found = translate_decode(error, batch.base_offset, where)
        if isinstance(found, CorruptRecordError):
            found.__cause__ = error
            return found
        raise found from error
    return corrupt("a control batch without a control record", batch.base_offset, where)
