"""What a share consumer makes of the bytes that a broker sent: its records, gaps,
and what it could not read.
"""

from __future__ import annotations

import asyncio
import struct

import pytest

from parley.arrow import RECORD_SCHEMA
from parley.client.consumer.records import CompletedFetch, ConsumerRecord
from parley.client.group.share.acquired import AcquiredRange
from parley.client.group.share.book import GAP, AcknowledgeType, Grant
from parley.client.share.fetched import SharedFetch
from parley.client.share.options import ShareConsumerOptions
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.types import TopicPartition

TP, GRANT = TopicPartition("jobs", 0), Grant(1, 0, b"j" * 16)
RELEASE = AcknowledgeType.RELEASE
COLUMNS = ("offset", "value", "delivery_count")


def batch(base: int, count: int) -> bytes:
    rows = [Record(at, 1_000 + at, 0, None, b"%d" % (base + at)) for at in range(count)]
    (made,) = encode_batches(columns_from_records(rows, with_offsets=False), None, WriteOptions())
    return struct.pack(">q", base) + bytes(made.data)[8:]  # the checksum leaves the base offset out


def fetched(data: bytes, *ranges: tuple[int, int, int]) -> SharedFetch:
    acquired = [AcquiredRange(*one) for one in ranges]
    return SharedFetch(TP, GRANT, memoryview(data), acquired, None, ShareConsumerOptions())


async def taken(fetch: SharedFetch, most: int = 100) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while not fetch.exhausted and len(found) < most:
        await fetch.fill()
        found += fetch.take(most - len(found))
    return found


async def test_records_of_whole_batches_that_were_not_acquired_are_left_out() -> None:
    fetch = fetched(batch(0, 5) + batch(5, 5), (1, 2, 1), (7, 8, 3))
    rows = await taken(fetch)
    assert [(row.offset, row.value, row.delivery_count) for row in rows] == [
        (1, b"1", 1), (2, b"2", 1), (7, b"7", 3), (8, b"8", 3),
    ]  # fmt: skip
    assert fetch.settled() == [(GAP, []), (RELEASE, [])]


async def test_a_batch_has_the_rows_that_were_acquired_and_their_delivery_counts() -> None:
    fetch = fetched(batch(0, 5) + batch(5, 5) + batch(20, 2), (1, 2, 1), (7, 8, 3), (15, 16, 1))
    assert fetch.left == 6
    await fetch.fill_batch()
    made = fetch.take_batch()
    assert made is not None
    assert made.schema.names == [*RECORD_SCHEMA.names, "delivery_count"]
    found = zip(*(made.column(name).to_pylist() for name in COLUMNS), strict=True)
    assert list(found) == [(1, b"1", 1), (2, b"2", 1), (7, b"7", 3), (8, b"8", 3)]
    await fetch.fill_batch()
    assert fetch.take_batch() is None
    assert fetch.exhausted
    assert fetch.settled() == [(GAP, [(15, 16)]), (RELEASE, [])]


async def test_records_and_batches_may_alternate() -> None:
    fetch = fetched(batch(0, 4) + batch(6, 4), (0, 9, 1))
    assert [row.offset for row in await taken(fetch, 3)] == [0, 1, 2]
    await fetch.fill_batch()  # decoded, and not taken
    assert fetch.left == 7
    assert [row.offset for row in await taken(fetch, 1)] == [3]
    await fetch.fill_batch()
    made = fetch.take_batch()
    assert made is not None
    assert made.column("offset").to_pylist() == [6, 7, 8, 9]
    assert made.column("delivery_count").to_pylist() == [1] * 4
    assert (fetch.exhausted, fetch.left) == (True, 0)
    assert fetch.settled() == [(GAP, [(4, 5)]), (RELEASE, [])]


async def test_a_batch_that_nobody_wants_any_more_is_given_back() -> None:
    fetch = fetched(batch(0, 2), (0, 1, 1))
    await fetch.fill_batch()
    assert sorted(dict(fetch.given_up())[RELEASE]) == [(0, 0), (1, 1)]


async def test_offsets_between_batches_are_gaps_and_those_behind_them_were_not_read() -> None:
    fetch = fetched(batch(0, 2) + batch(6, 2), (0, 20, 1))
    assert [row.offset for row in await taken(fetch)] == [0, 1, 6, 7]
    assert fetch.settled() == [(GAP, [(2, 5)]), (RELEASE, [(8, 20)])]


async def test_what_lies_behind_damage_is_released() -> None:
    damaged = bytearray(batch(5, 5))
    damaged[-1] ^= 1
    fetch = fetched(batch(0, 5) + bytes(damaged), (0, 9, 1))
    assert [row.offset for row in await taken(fetch)] == [0, 1, 2, 3, 4]
    assert fetch.error is not None
    assert fetch.error.offset == 5
    assert fetch.settled() == [(GAP, []), (RELEASE, [(5, 9)])]


async def test_without_bytes_everything_is_released() -> None:
    fetch = fetched(b"", (3, 9, 1))
    assert await taken(fetch) == []
    assert fetch.settled() == [(GAP, []), (RELEASE, [(3, 9)])]


async def test_what_nobody_wants_any_more_is_given_back() -> None:
    fetch = fetched(batch(0, 5), (0, 4, 1))
    assert [row.offset for row in await taken(fetch, 2)] == [0, 1]
    ways = dict(fetch.given_up())
    assert sorted(ways[RELEASE]) == [(2, 2), (3, 3), (4, 4)]
    assert not ways[GAP]


async def test_what_waits_behind_a_record_that_cannot_be_deserialized_is_given_back() -> None:
    def small(data: bytes) -> int:
        return [0, 1][int(data)]

    options = ShareConsumerOptions(value_deserializer=small)
    acquired = [AcquiredRange(0, 4, 1)]
    fetch = SharedFetch(TP, GRANT, memoryview(batch(0, 5)), acquired, None, options)
    assert [row.value for row in await taken(fetch, 2)] == [0, 1]
    await fetch.fill()
    failure = fetch.take_failure()
    assert failure is not None
    assert failure.offset == 2
    ways = dict(fetch.given_up())
    assert sorted(ways[RELEASE]) == [(3, 3), (4, 4)]
    assert not ways[GAP]


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("rows", [True, False])
async def test_decoding_that_fails_is_tried_again_and_has_lost_nothing(
    monkeypatch: pytest.MonkeyPatch, *, cancelled: bool, rows: bool
) -> None:
    fetch = fetched(batch(0, 3) + batch(5, 3), (1, 6, 2))
    fill = fetch.fill if rows else fetch.fill_batch
    where, step = (CompletedFetch, "_records") if rows else (SharedFetch, "_of_this_member")
    real = getattr(where, step)

    def exhausted(*arguments: object) -> None:
        real(*arguments)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(where, step, exhausted)
        filling = asyncio.ensure_future(fill())
        await asyncio.sleep(0)
        if cancelled:
            filling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await filling
        with pytest.raises(MemoryError):
            await (fill() if cancelled else filling)
    if rows:
        found = [(row.offset, row.delivery_count) for row in await taken(fetch)]
    else:
        found = []
        await fetch.fill_batch()
        while (made := fetch.take_batch()) is not None:
            found += zip(*(made.column(name).to_pylist() for name in COLUMNS[::2]), strict=True)
            await fetch.fill_batch()
    assert found == [(1, 2), (2, 2), (5, 2), (6, 2)]
    assert fetch.settled() == [(GAP, [(3, 4)]), (RELEASE, [])]
