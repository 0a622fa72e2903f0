"""What the kernels find in many fetches at once: the same in both, and what the step-by-step ways
find in each alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.property.test_consumer_record_differential import fields
from tests.property.test_kernel_differential import DAMAGE, batches

from parley.client import FetchOptions
from parley.client.consumer.records import CompletedFetch, fill_small
from parley.client.fetch.state import RawFetch
from parley.client.fetch.wire import find_tails
from parley.errors import CorruptRecordError
from parley.kernel import ConsumerRecord, Kernel, reference
from parley.kernel.contract import DecodeOptions, ScanOptions
from parley.records import ReadOptions, RecordBytes, decode_columns, first_records, record_cursor
from parley.records.control import end_marker
from parley.types import TopicPartition

native = pytest.importorskip(
    "parley.kernel.native", reason="the compiled kernel is not built", exc_type=ImportError
)
Rows = list[tuple[object, ...]]
PLACE = ("topic", 3, ((5, 1), (2**40, 4), (2**63 - 1, 9)))


@st.composite
def fetched(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a fetch: batches one after the other, whose offsets may go back, some
    damaged, the last one cut off.
    """
    data = bytearray(b"".join(draw(st.lists(batches(), max_size=4))))
    for where, byte in draw(st.just([]) | DAMAGE):
        if data:
            data[int(where * len(data))] = byte
    return bytes(data[: len(data) - draw(st.sampled_from([0, 0, 1, 30]))])


FETCHES = st.lists(
    st.tuples(
        fetched(), st.sampled_from([0, 1, 128, 2**31, 2**62 + 1]), st.just(PLACE)
    ),
    max_size=4,
)  # fmt: skip


def taken(found: Any) -> list[tuple[Rows, int] | None]:
    """Return the records of cursors, and the position after them."""
    return [
        None if one is None else ([fields(row) for row in one.take(2**20)], one.position)
        for one in found
    ]


@given(FETCHES, st.sampled_from([1, 3, 8, 2**31 - 1]), st.booleans())
def test_first_records_are_the_same_in_both_kernels(
    fetches: list[Any], most: int, check_crc: bool
) -> None:
    options = DecodeOptions(max_rows=most, check_crc=check_crc)
    found = [taken(kernel.first_records(fetches, options)) for kernel in (native, reference)]
    assert found[0] == found[1]


@given(FETCHES, st.sampled_from([1, 3, 8]))
def test_first_records_are_those_that_decoding_step_by_step_finds(
    fetches: list[Any], most: int
) -> None:
    options = ReadOptions(max_rows=most)
    asked = [RecordBytes(*fetch) for fetch in fetches]
    found = taken(first_records(asked, options))
    assert len(found) == len(asked) or sum(len(one[0]) for one in found if one) >= most
    for fetch, first in zip(asked, found, strict=False):
        rows, ends, whole = step_by_step(fetch, options)
        if first is None:
            assert not whole or not rows
        else:
            assert first[0] == rows[: len(first[0])]
            assert first[1] in ends  # a position that reading step by step reaches, too
            if whole and first[1] == ends[-1]:
                assert first[0] == rows


def step_by_step(fetch: RecordBytes, options: ReadOptions) -> tuple[Rows, list[int], bool]:
    """Return all records, the positions after chunks, and whether there was nothing damaged."""
    rows: list[ConsumerRecord] = []
    ends = [fetch.position]
    topic, partition, epochs = fetch.place
    try:
        for chunk in decode_columns(fetch.data, first_offset=fetch.position, options=options):
            where = (topic, partition)
            rows += record_cursor(chunk.columns, where, epochs, chunk.next_offset).take(2**20)
            ends.append(chunk.next_offset)
    except CorruptRecordError:
        return [fields(row) for row in rows], ends, False
    return [fields(row) for row in rows], ends, True


@pytest.mark.parametrize("kernel", [native, reference], ids=lambda kernel: kernel.NAME)
@given(st.lists(fetched(), max_size=4), st.sampled_from([0, 1, 2, 1024]))
def test_fronts_are_those_of_a_scan(kernel: Kernel, fetches: list[bytes], most: int) -> None:
    options = ScanOptions(max_epochs=most)
    for data, (end, next_offset, epochs) in zip(
        fetches, kernel.follow_fronts(fetches, most), strict=True
    ):
        scan = reference.scan_batches(data, 0, options)
        assert (end, next_offset) == (scan.end, scan.next_offset)
        pairs = memoryview(scan.epochs).cast("B").cast("q").tolist()
        assert [number for pair in epochs for number in pair] == pairs


@pytest.mark.parametrize("kernel", [native, reference], ids=lambda kernel: kernel.NAME)
def test_a_fetch_without_records_is_left_to_decoding(kernel: Kernel) -> None:
    marker = end_marker(7, 0, 0, commit=True, now_ms=0)
    found = kernel.first_records([(marker, 0, PLACE), (b"", 0, PLACE)], DecodeOptions())
    assert list(found) == [None, None]


# ── as a consumer uses it ────────────────────────────────────────────────────

TP = TopicPartition("topic", 3)
SMALL_BATCHES = FetchOptions(max_batch_rows=5)


def raw_fetch(data: bytes, position: int) -> RawFetch:
    (tail,) = find_tails([memoryview(data)])
    after = max(tail.next_offset, position)
    return RawFetch(TP, position, None, memoryview(data), (), after, tail.epochs)


def read(fetch: CompletedFetch, fill: Callable[[CompletedFetch], object]) -> tuple[object, ...]:
    """Return the records of a fetch, its error, and how far it was read."""
    rows: Rows = []
    while not (fetch.finish() or fetch.done):
        fill(fetch)
        rows += [fields(row) for row in fetch.records.take(3)]
    return rows, str(fetch.error), fetch.reached()


@given(st.lists(st.tuples(fetched(), st.sampled_from([0, 1, 128, 2**31])), max_size=3))
def test_small_fetches_give_a_consumer_what_large_ones_do(given_bytes: list[Any]) -> None:
    def together(fetch: CompletedFetch) -> None:
        if fetch.is_small:
            fill_small([fetch], SMALL_BATCHES)
        else:
            fetch.fill_rows()

    for data, position in given_bytes:
        raw = raw_fetch(data, position)
        one = read(CompletedFetch(raw, SMALL_BATCHES), together)
        assert one == read(CompletedFetch(raw, SMALL_BATCHES), CompletedFetch.fill_rows)


@given(st.lists(fetched(), min_size=1, max_size=5))
def test_a_piece_of_several_fetches_fills_those_in_front(given_bytes: list[bytes]) -> None:
    fetches = [CompletedFetch(raw_fetch(data, 0), SMALL_BATCHES) for data in given_bytes]
    fill_small(fetches, SMALL_BATCHES)
    filled = [one for one in fetches if len(one.records) or one.done]
    assert filled == fetches[: len(filled)]
    rows = sum(len(one.records) for one in fetches)
    assert len(filled) == len(fetches) or rows >= SMALL_BATCHES.max_batch_rows
