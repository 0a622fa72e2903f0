"""Raw record bytes → batches, of any mix of formats.

Rules

1. A fetch may end inside a batch: brokers cut at the byte limit. A partial tail is ignored; it is
   fetched again from its start.
2. One response may hold several formats, as a log does after its format was changed.
3. A run of uncompressed magic-0/1 messages is one RawBatch (at most MAX_RUN messages), so that no
   object is made per record; a compressed message is one of its own.
4. What the header says is believed here only as far as the next header is found and positions are
   counted; everything else is the kernel's to check.
5. Control batches carry no records for users. With an abort marker the producer's aborted
   transaction ends (KIP-98); the list of aborted transactions comes with the fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from parley.kernel import Buffer, DecodeOptions, KernelError, ScanOptions, Want, active, span_table
from parley.records import layout
from parley.records.columns import var_values
from parley.records.failures import corrupt, translate_decode

MAX_RUN = 4096
MAX_CONTROL_RECORDS = 1024
"""Brokers write one record into a control batch; all are decoded for the first."""
_EPOCH_FIELD = 2  # of layout.BATCH_HEADER
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


class Front(NamedTuple):
    """Ordinary batches at the front of fetched bytes: where they end, the offset after them, the last one's epoch."""

    end: int
    next_offset: int
    leader_epoch: int


def follow_front(data: Buffer) -> Front | None:
    """Return the whole magic-2 batches of one leader epoch at the front, by their headers alone.

    None where there is no such batch, or where the epoch changes among them: whoever must know where
    walks through them. A fetch of 8 MiB has 500 batches, and these are followed by the kernel.
    """
    found = active.scan_batches(data, 0, ScanOptions())
    if not found.end or found.leader_epoch != layout.BATCH_HEADER.unpack_from(data)[_EPOCH_FIELD]:
        return None
    return Front(found.end, found.next_offset, found.leader_epoch)


def split(data: Buffer, where: tuple[str, int] | None = None) -> list[RawBatch]:
    """Return the whole batches at the front of `data`; a partial tail is left out.

    Raises CorruptRecordError (with `where`, a topic and partition, named) where no batch can begin.
    """
    return list(iter_batches(data, where))


def iter_batches(
    data: Buffer, where: tuple[str, int] | None = None, *, start: int = 0, expected: int = 0
) -> Iterator[RawBatch]:
    """Yield the batches of `split` one by one, from byte `start` on; an error comes after those before it.

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
            raise corrupt(f"a batch of {size} bytes is shorter than its header", max(offset, expected), where)
        if size > len(view) - pos - layout.LOG_OVERHEAD:
            return
        batch = _magic2(view, pos, size) if magic == 2 else _legacy(view, pos)
        if batch is None or batch.base_offset < 0 or not batch.base_offset <= batch.last_offset <= _MAX_OFFSET:
            raise corrupt("the offsets of a batch header cannot be", max(offset, expected), where)
        yield batch
        pos, expected = batch.end, batch.next_offset


def _magic2(view: memoryview, pos: int, size: int) -> RawBatch:
    (offset, _, epoch, _, _, attributes, last_delta, _, max_timestamp, producer, producer_epoch, sequence, count) = (
        layout.BATCH_HEADER.unpack_from(view, pos)
    )
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
        pos, run.end, run.magic, run.first_offset, run.last_offset, count, run.codec, run.timestamp_type,
        run.max_timestamp_ms,
    )  # fmt: skip


def first_batch_bytes(data: Buffer) -> int | None:
    """Return the size that the first batch announces, or None where too few bytes tell it.

    When it is larger than `data` the fetch returned no whole batch: a broker before Fetch v3
    (KIP-74) cannot return one that is larger than the fetch's limit.
    """
    view = memoryview(data).cast("B")
    if len(view) < layout.LOG_OVERHEAD:
        return None
    size: int = layout.INT32.unpack_from(view, 8)[0]
    return layout.LOG_OVERHEAD + size


def control_type(data: Buffer, batch: RawBatch, where: tuple[str, int] | None = None) -> int:
    """Return the type of a control batch's record: layout.ABORT, layout.COMMIT or another.

    Raises CorruptRecordError where the batch is damaged. Mutates nothing.
    """
    try:
        options = DecodeOptions(want=int(Want.KEYS), max_span_rows=MAX_CONTROL_RECORDS)
        columns = active.decode(data, span_table([(batch.start, batch.end)]), options).columns
    except KernelError as error:
        raise translate_decode(error, batch.base_offset, where) from error
    keys = list(var_values(columns.key)) if columns.key is not None else []
    if not keys or keys[0] is None or len(keys[0]) < layout.CONTROL_KEY.size:
        raise corrupt("a control batch without a control record", batch.base_offset, where)
    kind: int = layout.CONTROL_KEY.unpack_from(keys[0])[1]
    return kind


class AbortedFilter:
    """Tells which transactional batches of one fetch belong to aborted transactions.

    `aborted` is the fetch's list of (producer id, first offset). Batches must be shown in log order.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=itemgetter(1), reverse=True)
        self._open: set[int] = set()

    def is_aborted(self, data: Buffer, batch: RawBatch, where: tuple[str, int] | None = None) -> bool:
        """Return whether the batch's records must not be seen. Mutates: counts the batch as passed."""
        while self._waiting and self._waiting[-1][1] <= batch.last_offset:
            self._open.add(self._waiting.pop()[0])
        if not batch.is_transactional:
            return False
        if batch.is_control:
            if batch.producer_id in self._open and control_type(data, batch, where) == layout.ABORT:
                self._open.discard(batch.producer_id)
            return False
        return batch.producer_id in self._open


def readable(data: Buffer, batches: Sequence[RawBatch], aborted: Iterable[tuple[int, int]] | None) -> list[RawBatch]:
    """Return the batches that hold records for users: no control batches, no aborted ones."""
    shown = AbortedFilter(aborted or ())
    return [batch for batch in batches if not shown.is_aborted(data, batch) and not batch.is_control]
