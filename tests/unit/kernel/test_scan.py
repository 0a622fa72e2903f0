"""Scans: which batches are followed, which are shown, and where the walk ends. Both
kernels must say the same.
"""

from __future__ import annotations

import struct
from typing import Any

from parley.kernel.contract import DecodeOptions, ScanOptions
from parley.kernel.functions import Kernel
from parley.records import int64s, records

from .made import batch, message, record


def scanned(
    kernel: Kernel, data: bytes, start: int = 0, **options: Any
) -> tuple[list[tuple[int, ...]], Any]:
    found = kernel.scan_batches(data, start, ScanOptions(**options))
    fields = int64s(found.table).tolist()
    return [tuple(fields[at : at + 4]) for at in range(0, len(fields), 4)], found


def epochs(found: Any) -> list[int]:
    return int64s(found.epochs).tolist()


def test_a_scan_follows_batches_and_messages(kernel: Kernel) -> None:
    first, second = (
        batch(record(0), record(1), offset=10, epoch=4),
        batch(record(0), offset=15, last=4, epoch=6),
    )
    run, other = message(20) + message(21), message(22, magic=0)
    data = first + second + run + other
    at = len(first) + len(second)
    table, found = scanned(kernel, data)
    assert table == [
        (0, len(first), 12, 4),
        (len(first), at, 20, 6),
        (at, at + len(run), 22, -1),
        (at + len(run), len(data), 23, -1),
    ]
    assert (found.end, found.next_offset, found.leader_epoch) == (len(data), 23, -1)
    assert epochs(found) == [12, 4, 20, 6, 23, -1]
    assert scanned(kernel, data, len(first))[0] == table[1:]
    assert scanned(kernel, data, position=12)[0] == table[1:]
    assert scanned(kernel, data[:-1])[0] == table[:3]


def test_a_scan_ends_before_what_cannot_be(kernel: Kernel) -> None:
    good = batch(record(), offset=5)
    marker = bytearray(
        batch(record(key=struct.pack(">hh", 0, 0)), offset=9, attributes=0x30, pid=7)
    )
    marker[-1] ^= 1
    odd = [
        batch(record(), offset=-1),
        batch(record(), offset=9, last=-1),
        batch(record(), offset=2**63 - 1),
        batch(record(), offset=2**63 - 2, last=1),
        batch(record(), offset=9, size=48),
        batch(record(), offset=9, size=2**31 - 1),
        # the end of an aborted transaction without a key
        batch(record(), offset=9, attributes=0x30, pid=7),
        bytes(marker),
        message(-1),
        message(2**63 - 1),
        message(9)[:-1],
        b"",
    ]
    for data in odd:
        table, found = scanned(kernel, good + data, aborted=struct.pack("<4q", 3, 0, 7, 0))
        assert (len(table), found.end, found.next_offset) == (1, len(good), 6)


def test_a_scan_passes_over_what_was_passed(kernel: Kernel) -> None:
    """Of a batch that reaches behind the position only the rest is decoded."""
    data = (
        batch(record(0), record(1), offset=5)
        + batch(record(), offset=5)
        + batch(record(0), record(1), offset=6)
    )
    table, found = scanned(kernel, data)
    assert [row[2] for row in table] == [7, 8]
    columns = kernel.decode(data, found.table, DecodeOptions()).columns
    assert [one.offset for one in records(columns)] == [5, 6, 7]


def test_batches_without_records_only_move_the_position(kernel: Kernel) -> None:
    control = batch(record(), offset=20, attributes=0x20, epoch=9)
    empty = batch(offset=21, last=8)
    for data in (
        control + empty,
        empty.replace(b"", b"", 1) + batch(record(), offset=29, attributes=0x30),
    ):
        table, found = scanned(kernel, data)
        assert (table, found.next_offset, found.end) == ([], 30, len(data))
    good = batch(record(), offset=5)
    table, found = scanned(kernel, good + control + empty)
    assert table == [(0, len(good), 30, 5)]


def test_a_scan_leaves_aborted_transactions_out(kernel: Kernel) -> None:
    def part(offset: int, pid: int, attributes: int = 0x10) -> bytes:
        return batch(
            record(key=struct.pack(">hh", 0, 0)), offset=offset, attributes=attributes, pid=pid
        )

    commit = batch(record(key=struct.pack(">hh", 0, 1)), offset=4, attributes=0x30, pid=7)
    data = (
        part(0, 7)
        + part(1, 8)
        + part(2, 7, 0)
        + part(3, 7)
        + commit
        + part(5, 7)
        + part(6, 7, 0x30)
        + part(7, 7)
    )
    table, found = scanned(kernel, data, aborted=struct.pack("<4q", 8, 99, 7, 1))
    assert [row[2] for row in table] == [1, 2, 7, 8], (
        "the transaction of producer 7 began at 1 and was aborted at 6"
    )
    assert found.next_offset == 8


def test_a_scan_keeps_to_its_range_and_epochs(kernel: Kernel) -> None:
    data = b"".join(
        batch(record(0), record(1), offset=at, last=1, epoch=at // 4) for at in (0, 2, 4)
    )
    table, found = scanned(kernel, data, end_offset=3)
    assert (len(table), table[-1][2], found.next_offset) == (2, 3, 3)
    table, found = scanned(kernel, data, end_offset=2)
    assert (len(table), found.next_offset) == (1, 2)
    table, found = scanned(kernel, data, max_epochs=1)
    assert (len(table), found.next_offset, epochs(found)) == (2, 4, [4, 0])
    assert scanned(kernel, data, max_epochs=0)[1].end == 0
    gap = batch(record(), offset=50)
    table, found = scanned(kernel, data + gap, end_offset=40)
    assert (len(table), found.next_offset) == (3, 40)
