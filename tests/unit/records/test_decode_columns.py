"""Positions, ranges, chunks, control batches and aborted transactions, damaged batches."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import pytest

from parley.errors import CorruptRecordError
from parley.records import (
    DecodedChunk,
    ReadOptions,
    Record,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
    first_batch_bytes,
    records,
    split,
    stamp_producer,
)
from parley.records.layout import ABORT, COMMIT

WHERE = ("t", 3)


def made(offsets: Iterable[int], pid: int = -1, last: int | None = None, **options: Any) -> bytes:
    """Return one batch whose records have these offsets; `last` puts a
    compacted tail behind them.
    """
    rows = [Record(offset, 1000, 0, b"k", b"%020d" % offset) for offset in offsets]
    (batch,) = encode_batches(columns_from_records(rows), None, WriteOptions(**options))
    data = bytearray(batch.data)
    if options.get("magic", 2) < 2:
        return bytes(data)
    if last is not None:
        struct.pack_into(">i", data, 23, last - rows[0].offset)
    stamp_producer(data, pid, 0 if pid >= 0 else -1, 0 if pid >= 0 else -1, transactional=pid >= 0)
    return bytes(data)


def control(offset: int, pid: int, kind: int) -> bytes:
    """Return the control batch that ends a transaction."""
    marker = Record(offset, 1000, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    data = bytearray(encode_batches(columns_from_records([marker]))[0].data)
    data[22] |= 0x20
    stamp_producer(data, pid, 0, -1, transactional=True)
    return bytes(data)


def read(
    data: bytes, first: int = 0, end: int | None = None, **more: Any
) -> tuple[list[int], list[DecodedChunk]]:
    """Return the offsets shown and the chunks."""
    chunks = list(decode_columns(data, first_offset=first, end_offset=end, where=WHERE, **more))
    return [record.offset for chunk in chunks for record in records(chunk.columns)], chunks


def position(chunks: list[DecodedChunk]) -> int:
    return chunks[-1].next_offset


# ── positions ────────────────────────────────────────────────────────────────


def test_the_position_is_behind_the_last_offset_not_the_last_record() -> None:
    """Compaction removes records at either end of a batch; the batch keeps its bounds."""
    data = made([3, 5], last=9) + made([12, 13])
    shown, chunks = read(data, first=1)
    assert (shown, position(chunks)) == ([3, 5, 12, 13], 14)
    shown, chunks = read(data[: len(made([3, 5]))])
    assert (shown, position(chunks)) == ([3, 5], 10)


def test_a_gap_over_the_end_is_passed() -> None:
    shown, chunks = read(made([3, 5]) + made([20]), end=10)
    assert (shown, position(chunks)) == ([3, 5], 10)


def test_nothing_new_yields_nothing() -> None:
    """An empty fetch, a lone partial batch, and what lies wholly before the position."""
    whole = made([3, 4])
    assert read(b"") == ([], [])
    assert read(whole[:-1]) == ([], [])
    assert read(whole, first=5) == ([], [])
    assert read(whole, first=3, end=3) == ([], [])


def test_a_batch_without_records_moves_the_position() -> None:
    empty = bytearray(made([7]))[:61]
    struct.pack_into(">i", empty, 8, 49)
    struct.pack_into(">i", empty, 57, 0)
    stamp_producer(empty, -1, -1, -1, transactional=False)
    shown, chunks = read(bytes(empty), first=2)
    assert (shown, position(chunks), chunks[0].columns.rows) == ([], 8, 0)


def test_offsets_never_go_back() -> None:
    """A broken log whose batches overlap shows each offset once."""
    shown, chunks = read(made([1, 2, 3]) + made([2, 3, 4]) + made([9]))
    assert (shown, position(chunks)) == ([1, 2, 3, 4, 9], 10)


def test_the_leader_epoch_is_the_last_batchs() -> None:
    first, second = bytearray(made([1])), bytearray(made([2]))
    struct.pack_into(">i", first, 12, 4)
    struct.pack_into(">i", second, 12, 6)
    _, chunks = read(bytes(first + second))
    assert [chunk.last_leader_epoch for chunk in chunks] == [6]
    _, chunks = read(bytes(first + second), options=ReadOptions(max_rows=1))
    assert [(chunk.next_offset, chunk.last_leader_epoch) for chunk in chunks] == [(2, 4), (3, 6)]


def test_records_at_the_edges_of_int64() -> None:
    last = 2**63 - 2
    shown, chunks = read(made([last]), first=last)
    assert (shown, position(chunks)) == ([last], 2**63 - 1)
    with pytest.raises(CorruptRecordError):
        read(made([2**63 - 1]), first=last)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_old_formats_and_mixed_ones(magic: int, codec: int) -> None:
    """What a log holds after its format was changed; a start inside a
    compressed set shows the rest.
    """
    data = (
        made([0, 1, 2], magic=0)
        + made([3, 4, 5], magic=magic, codec=codec)
        + made([6, 7])
        + made([8], magic=1)
    )
    for first in range(10):
        for end in (first, first + 1, 5, 7, 9, 12):
            shown, _ = read(data, first, end)
            assert shown == list(range(first, min(end, 9)))


def test_runs_of_plain_messages_are_one_batch() -> None:
    batches = split(made(range(100), magic=1) + made([100, 101], magic=0))
    assert [(b.base_offset, b.last_offset, b.record_count, b.magic) for b in batches] == [
        (0, 99, 100, 1),
        (100, 101, 2, 0),
    ]


# ── chunks ───────────────────────────────────────────────────────────────────


def test_chunks_end_before_a_batch_would_pass_the_limits() -> None:
    data = b"".join(made(range(at, at + 10)) for at in range(0, 50, 10))
    for limits, rows in (
        ({"max_rows": 10}, [10] * 5),
        ({"max_rows": 25}, [20, 20, 10]),
        ({"max_rows": 3}, [10] * 5),
        ({"max_rows": 1000}, [50]),
        ({"max_bytes": 2 * len(data) // 5}, [20, 20, 10]),
    ):
        shown, chunks = read(data, options=ReadOptions(**limits))
        assert [chunk.columns.rows for chunk in chunks] == rows
        assert [chunk.next_offset for chunk in chunks] == [
            sum(rows[: at + 1]) for at in range(len(rows))
        ]
        assert shown == list(range(50))


def test_decompressed_bytes_bound_a_chunk() -> None:
    rows = [Record(offset, 0, 0, None, bytes(10_000)) for offset in range(40)]
    data = b"".join(
        bytes(b.data)
        for b in encode_batches(
            columns_from_records(rows), None, WriteOptions(codec=4, max_records=4)
        )
    )
    _, chunks = read(data, options=ReadOptions(max_bytes=100_000))
    assert [chunk.columns.rows for chunk in chunks] == [12, 12, 12, 4]


# ── transactions ─────────────────────────────────────────────────────────────


def test_control_batches_are_not_shown_and_move_the_position() -> None:
    shown, chunks = read(made([0, 1], pid=7) + control(2, 7, COMMIT))
    assert (shown, position(chunks)) == ([0, 1], 3)
    shown, chunks = read(control(2, 7, COMMIT), first=2)
    assert (shown, position(chunks), chunks[0].columns.rows) == ([], 3, 0)


def test_aborted_transactions_are_left_out() -> None:
    data = (
        made([0], pid=1)            # aborted
        + made([1], pid=2)          # committed
        + made([2, 3])              # of no transaction
        + made([4], pid=1)          # aborted
        + control(5, 1, ABORT)
        + made([6], pid=1)          # the next transaction of the same producer: committed
        + control(7, 2, COMMIT)
        + control(8, 1, COMMIT)
        + made([9], pid=3)          # aborted; its marker is behind the end of this fetch
    )  # fmt: skip
    assert read(data, aborted=[(3, 9), (1, 0)])[0] == [1, 2, 3, 6]
    assert read(data)[0] == [0, 1, 2, 3, 4, 6, 9]
    shown, chunks = read(data, aborted=[(3, 9), (1, 0)], first=4)
    assert (shown, position(chunks)) == ([6], 10)


def test_an_abort_that_began_before_this_fetch() -> None:
    shown, _ = read(
        made([50], pid=1) + control(51, 1, ABORT) + made([52], pid=1), first=50, aborted=[(1, 20)]
    )
    assert shown == [52]


# ── damaged bytes ────────────────────────────────────────────────────────────


def shown_before(data: bytes, first: int = 0, **more: Any) -> tuple[list[int], CorruptRecordError]:
    """Return what is shown before the error, and the error."""
    shown: list[int] = []
    chunks = decode_columns(data, first_offset=first, where=WHERE, **more)
    try:
        for chunk in chunks:
            shown += [record.offset for record in records(chunk.columns)]
    except CorruptRecordError as error:
        return shown, error
    pytest.fail("nothing was found to be damaged")


def test_a_damaged_batch_stops_behind_the_good_ones() -> None:
    damaged = bytearray(made([5, 6]))
    damaged[-1] ^= 1
    data = made([1, 2]) + made([3, 4]) + bytes(damaged) + made([7])
    for max_rows in (2, 1000):
        shown, error = shown_before(data, options=ReadOptions(max_rows=max_rows))
        assert shown == [1, 2, 3, 4]
        assert (error.topic, error.partition, error.offset) == ("t", 3, 5)
        assert "t-3, offset 5" in str(error)
        assert "CRC" in str(error)
        assert "seek past it" in str(error)
    assert shown_before(data, first=6)[1].offset == 6
    assert read(data, end=5)[0] == [1, 2, 3, 4]
    assert read(data, first=7)[0] == [7]


def test_impossible_headers_stop_behind_the_good_ones() -> None:
    good = made([1, 2])
    for junk, why in (
        (struct.pack(">qiib", 3, 100, 0, 9) + bytes(100), "magic 9"),
        (struct.pack(">qiib", 3, -5, 0, 2) + bytes(100), "-5 bytes"),
        (struct.pack(">qiib", 3, 48, 0, 2) + bytes(100), "48 bytes"),
        (struct.pack(">qiib", -3, 49, 0, 2) + bytes(100), "offsets"),
        (made([3])[:23] + b"\xff\xff\xff\xff" + made([3])[27:], "offsets"),
    ):
        shown, error = shown_before(good + junk)
        assert (shown, error.offset) == ([1, 2], 3)
        assert why in str(error)


def test_a_damaged_control_batch_is_an_error_where_it_matters() -> None:
    marker = bytearray(control(2, 7, ABORT))
    marker[-1] ^= 1
    data = made([0, 1], pid=7) + bytes(marker)
    assert read(data)[0] == [0, 1]
    shown, error = shown_before(data + made([3]), aborted=[(7, 0)])
    assert (shown, error.offset) == ([], 2)


def test_a_batch_over_its_limit_names_the_remedy() -> None:
    rows = [Record(4, 0, 0, None, bytes(5000))]
    data = bytes(encode_batches(columns_from_records(rows), None, WriteOptions(codec=1))[0].data)
    _, error = shown_before(data, options=ReadOptions(max_batch_bytes=1000))
    assert error.offset == 4
    assert "max_batch_bytes" in str(error)


def test_first_batch_bytes_reports_a_record_larger_than_the_fetch() -> None:
    data = made([1])
    assert first_batch_bytes(data) == len(data)
    assert first_batch_bytes(data[:12]) == len(data)
    assert first_batch_bytes(data[:11]) is None
