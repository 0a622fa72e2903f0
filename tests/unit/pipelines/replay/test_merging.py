"""Partitions merged by time: each row once, partitions in their order, and no row too early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from parley.arrow import HEADERS_TYPE
from parley.client import AsyncClient, FetchedBatch, FetchOptions, PartitionRange, TopicPartition
from parley.errors import KafkaError
from parley.pipelines.replay import merging, rows as columns
from parley.pipelines.replay.merging import Merge
from parley.pipelines.replay.options import ReplayOptions
from parley.pipelines.replay.rows import Replayed

Times = list[list[list[int]]]
"""Of each partition the timestamps of its batches."""
logs: st.SearchStrategy[Times] = st.lists(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), max_size=5),
    min_size=1,
    max_size=4,
)


class Source:
    """Has batches of partitions, and hands them out in turns that chance decides."""

    def __init__(self, log: Times, turns: list[int], fails: bool = False) -> None:
        self._log, self._turns, self._fails = log, turns, fails

    async def fetch_many(
        self, ranges: Mapping[TopicPartition, PartitionRange], options: FetchOptions
    ) -> AsyncIterator[FetchedBatch]:
        ((tp, wanted),) = ranges.items()
        offset = 0
        for times in self._log[tp.partition]:
            for _ in range(self._turns.pop() if self._turns else 0):
                await asyncio.sleep(0)
            batch = batch_of(offset, times)
            offset += len(times)
            yield FetchedBatch(tp, batch, offset, 1)
        if self._fails:
            raise KafkaError("the disk is gone")
        assert wanted.end == offset


def batch_of(first: int, times: list[int]) -> pa.RecordBatch:
    count = len(times)
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.array(times, pa.timestamp("ms", tz="UTC")),
            "timestamp_type": pa.array([0] * count, pa.int8()),
            "key": pa.array([b"k"] * count),
            "value": pa.array([None] * count, pa.binary()),
            "headers": pa.array([[]] * count, HEADERS_TYPE),
        }
    )


async def merged(
    log: Times, turns: list[int], fails: bool = False, **given: Any
) -> list[tuple[int, int, int]]:
    """Return partition, offset and time of each row, as they come."""
    ranges = {
        TopicPartition("t", index): PartitionRange(0, sum(map(len, batches)))
        for index, batches in enumerate(log)
    }
    source = cast("AsyncClient", Source(log, list(turns), fails))
    prepare = Replayed.of(ReplayOptions(name="n", topic="t", to="u", **given)).of_fetched
    found: list[tuple[int, int, int]] = []
    async with Merge(source, ranges, FetchOptions(), prepare, 1) as merge:
        while not merge.is_over:
            rows = await merge.rows(None)
            if rows is not None:
                names = [columns.PARTITION, columns.OFFSET, columns.TIME]
                found += zip(*(rows.column(name).to_pylist() for name in names), strict=True)
    return found


def with_times(log: Times) -> list[tuple[int, int, int]]:
    """Return partition, offset and largest time so far of each record, in a slow way."""
    found = []
    for index, batches in enumerate(log):
        flat = [ms for times in batches for ms in times]
        found += [(index, at, max(flat[: at + 1])) for at in range(len(flat))]
    return found


@given(logs, st.lists(st.integers(0, 8), max_size=30))
def test_rows_come_in_the_order_of_times_whoever_is_faster(log: Times, turns: list[int]) -> None:
    found = asyncio.run(merged(log, turns))
    assert sorted(found) == with_times(log)
    assert [ms for _, _, ms in found] == sorted(ms for _, _, ms in found)
    for index in range(len(log)):
        offsets = [offset for partition, offset, _ in found if partition == index]
        assert offsets == sorted(offsets)


@given(logs, st.lists(st.integers(0, 8), max_size=30))
def test_a_full_buffer_keeps_nobody_waiting_for_ever(log: Times, turns: list[int]) -> None:
    least, merging._LEAST_BYTES = merging._LEAST_BYTES, 1
    try:
        found = asyncio.run(asyncio.wait_for(merged(log, turns), 60))
    finally:
        merging._LEAST_BYTES = least
    assert sorted(found) == with_times(log)


@given(logs, st.integers(0, 50), st.integers(1, 50))
def test_times_choose_by_each_records_own_timestamp(log: Times, begin: int, length: int) -> None:
    end = begin + length
    found = asyncio.run(merged(log, [], from_timestamp_ms=begin, until_timestamp_ms=end))
    expected = []
    for index, batches in enumerate(log):
        flat = [ms for times in batches for ms in times]
        expected += [(index, at) for at, ms in enumerate(flat) if begin <= ms < end]
    assert sorted((partition, offset) for partition, offset, _ in found) == expected


async def test_what_reading_raises_is_raised() -> None:
    with pytest.raises(KafkaError, match="the disk is gone"):
        await merged([[[1]], [[2]]], [], fails=True)


async def test_waiting_ends_in_time_or_when_somebody_wakes_it() -> None:
    class Silent:
        async def fetch_many(self, *_: object) -> AsyncIterator[FetchedBatch]:
            await asyncio.Event().wait()
            yield  # type: ignore[misc]

    ranges = {TopicPartition("t", 0): PartitionRange(0, 9)}
    prepare = Replayed.of(ReplayOptions(name="n", topic="t", to="u")).of_fetched
    loop = asyncio.get_running_loop()
    async with Merge(cast("AsyncClient", Silent()), ranges, FetchOptions(), prepare, 1) as merge:
        assert await merge.rows(loop.time()) is None
        loop.call_soon(merge.wake)
        assert await merge.rows(None) is None
        assert not merge.is_over
