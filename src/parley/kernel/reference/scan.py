"""Following batch headers, batches unopened; what a scan passes is contract.py's BatchScan."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from parley.kernel.contract import MAX_RUN, NO_OFFSET_LIMIT, BatchScan, Buffer, ScanOptions
from parley.kernel.functions import FrontTuple
from parley.kernel.reference.legacy import MAGIC_AT, scan_legacy
from parley.kernel.reference.magic2 import HEADER, HEADER_BYTES, control_type

_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_ABORT = 0


class _Entry(NamedTuple):
    """One batch or run of messages; `first` is None where only the inside says."""

    start: int
    end: int
    first: int | None
    last: int
    epoch: int = -1
    attributes: int = 0
    producer: int = -1
    has_records: bool = True


def scan_batches(data: Buffer, start: int, options: ScanOptions) -> BatchScan:
    """Return the batches from byte `start` on."""
    view = memoryview(data).cast("B")
    table, epochs = array("q"), array("q")
    aborted = _Aborted(options.aborted)
    position, epoch, pos = options.position, -1, start
    while position < options.end_offset:
        entry = _entry(view, pos)
        hidden = None if entry is None else aborted.hides(view, entry)
        if entry is None or hidden is None:
            break
        if entry.last < position:
            pos = entry.end
            continue
        if entry.first is not None and entry.first >= options.end_offset:
            position = options.end_offset
            break
        same_epoch = bool(epochs) and epoch == entry.epoch
        if not same_epoch and len(epochs) // 2 == options.max_epochs:
            break
        if entry.has_records and not hidden:
            table.extend((pos, entry.end, 0, 0))
        pos, epoch, position = entry.end, entry.epoch, min(entry.last + 1, options.end_offset)
        if not same_epoch:
            epochs.extend((0, epoch))
        epochs[-2] = position
        if table:
            table[-2], table[-1] = position, epoch
    return BatchScan(table.tobytes(), epochs.tobytes(), pos, position, epoch)


def follow_fronts(fetches: Sequence[Buffer], max_epochs: int) -> Sequence[FrontTuple]:
    """Return where the whole batches of each fetch end."""
    fronts: list[FrontTuple] = []
    for data in fetches:
        found = scan_batches(data, 0, ScanOptions(max_epochs=max_epochs))
        fields = memoryview(found.epochs).cast("B").cast("q").tolist()
        epochs = tuple(zip(fields[::2], fields[1::2], strict=True))
        fronts.append((found.end, found.next_offset, epochs))
    return fronts


def _entry(view: memoryview, pos: int) -> _Entry | None:
    if len(view) - pos <= MAGIC_AT:
        return None
    return _batch(view, pos) if view[pos + MAGIC_AT] == 2 else _messages(view, pos)


def _batch(view: memoryview, pos: int) -> _Entry | None:
    if len(view) - pos < HEADER_BYTES:
        return None
    (base, length, epoch, _, _, attributes, last_delta, *_times, producer, _, _, count) = (
        HEADER.unpack_from(view, pos)
    )
    end, last = pos + 12 + length, base + last_delta
    if (
        length < HEADER_BYTES - 12
        or end > len(view)
        or base < 0
        or last_delta < 0
        or last >= NO_OFFSET_LIMIT
    ):
        return None
    has_records = not attributes & _CONTROL and count != 0
    return _Entry(pos, end, base, last, epoch, attributes, producer, has_records)


def _messages(view: memoryview, pos: int) -> _Entry | None:
    run = scan_legacy(view, pos, MAX_RUN)
    if run is None or not 0 <= run.first_offset <= run.last_offset < NO_OFFSET_LIMIT:
        return None
    return _Entry(pos, run.end, None if run.codec else run.first_offset, run.last_offset)


class _Aborted:
    """Which transactional batches are of aborted transactions, batch by batch in log order."""

    def __init__(self, pairs: Buffer) -> None:
        fields = memoryview(pairs).cast("B").cast("q").tolist()
        self._waiting = sorted(zip(fields[1::2], fields[::2], strict=True), reverse=True)
        self._open: set[int] = set()

    def hides(self, view: memoryview, entry: _Entry) -> bool | None:
        """Count a batch as passed and return whether its records must not be seen; None
        where its marker is damaged.
        """
        while self._waiting and self._waiting[-1][0] <= entry.last:
            self._open.add(self._waiting.pop()[1])
        if not entry.attributes & _TRANSACTIONAL or entry.producer not in self._open:
            return False
        if not entry.attributes & _CONTROL:
            return True
        kind = control_type(view, entry.start, entry.end)
        if kind == _ABORT:
            self._open.discard(entry.producer)
        return None if kind is None else False
