"""Following batch headers without opening the batches; what is ordinary stands in contract.py, BatchScan."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from parley.kernel.contract import NO_OFFSET_LIMIT, SPAN_FIELDS, BatchScan, Buffer, ScanOptions
from parley.kernel.reference.magic2 import HEADER, HEADER_BYTES

_TRANSACTIONAL, _CONTROL = 0x10, 0x20


def scan_batches(data: Buffer, start: int, options: ScanOptions) -> BatchScan:
    """Return the ordinary batches from byte `start` on."""
    view = memoryview(data).cast("B")
    watched = memoryview(options.watched).cast("B").cast("q")  # sorted: a set would cost a pass for each scan
    table = array("q")
    position, epoch, pos = options.position, -1, start
    rows = size = 0
    full, passed = False, options.passed
    while position < options.end_offset and len(view) - pos >= HEADER_BYTES:
        (base, length, leader_epoch, magic, _, attributes, last_delta, *_times, producer, _, _, count) = (
            HEADER.unpack_from(view, pos)
        )
        last = base + last_delta
        end = pos + 12 + length
        if magic != 2 or length < HEADER_BYTES - 12 or end > len(view) or base < 0 or last_delta < 0:
            break
        if last >= NO_OFFSET_LIMIT or base < passed or (attributes & _TRANSACTIONAL and _among(watched, producer)):
            break
        if last < position:
            pos, passed = end, last + 1
            continue
        if base >= options.end_offset:
            position = options.end_offset
            break
        if not attributes & _CONTROL and count != 0:
            rows_with = rows + max(count, 1)
            if table and (rows_with > options.max_rows or size + end - pos > options.max_bytes):
                full = True
                break
            rows, size = rows_with, size + end - pos
            table.extend((pos, end, 0, 0))
        pos, passed, epoch = end, last + 1, leader_epoch
        position = min(last + 1, options.end_offset)
        if table:
            table[-2:] = array("q", (position, epoch))
    return BatchScan(table.tobytes(), len(table) // SPAN_FIELDS, rows, size, pos, position, epoch, full)


def _among(numbers: memoryview, number: int) -> bool:
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number
