"""Splitting ranges: the parts are the whole, in order, and as many as asked for."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from parley.client import TopicPartition
from parley.spark.read.ranges import OffsetRange, divide, divide_bytes, split_ranges

T = [TopicPartition("t", number) for number in range(20)]
sizes = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 2**62)), max_size=12)
starts = st.integers(0, 2**62)


def whole(sizes: list[int], start: int = 0) -> list[OffsetRange]:
    return [
        OffsetRange(T[number], start, start + size, "id", 4) for number, size in enumerate(sizes)
    ]


def parts(sizes: list[int], **limits: int) -> list[tuple[int, int]]:
    return [(found.tp.partition, found.size) for found in split_ranges(whole(sizes), **limits)]


def test_ranges_stay_whole_without_limits_and_empty_ones_go() -> None:
    assert parts([10, 0, 5]) == [(0, 10), (2, 5)]


def test_few_partitions_wanted_changes_nothing() -> None:
    assert parts([10, 20], min_partitions=2) == [(0, 10), (1, 20)]


def test_one_range_is_cut_into_as_many_as_wanted() -> None:
    assert parts([10], min_partitions=4) == [(0, 3), (0, 3), (0, 2), (0, 2)]


def test_large_ranges_are_cut_and_small_ones_left_whole() -> None:
    # As Spark's calculator: the small one (1 of 101) takes
    # one of the 5 tasks, the large one the 4 others.
    assert parts([100, 1], min_partitions=5) == [(0, 25), (0, 25), (0, 25), (0, 25), (1, 1)]


def test_a_range_is_not_cut_finer_than_its_offsets() -> None:
    assert parts([2], min_partitions=10) == [(0, 1), (0, 1)]


def test_the_most_of_one_task_is_kept_to() -> None:
    assert parts([10, 3], max_records=4) == [(0, 4), (0, 3), (0, 3), (1, 3)]


def test_both_limits_together() -> None:
    assert len(parts([10, 10], max_records=5, min_partitions=8)) == 8


def test_a_part_knows_its_history() -> None:
    assert {(part.topic_id, part.leader_epoch) for part in divide(whole([9])[0], 3)} == {("id", 4)}


@given(sizes, starts, st.none() | st.integers(1, 100), st.none() | st.integers(2**55, 2**63))
def test_the_parts_are_the_whole(
    sizes: list[int], start: int, wanted: int | None, most: int | None
) -> None:
    found = split_ranges(whole(sizes, start), min_partitions=wanted, max_records=most)
    for tp, size in zip(T, sizes, strict=False):
        mine = [part for part in found if part.tp == tp]
        position = start
        for part in mine:
            assert part.start == position
            assert part.size > 0
            assert most is None or part.size <= most
            position = part.end
        assert position == start + size
    assert found == sorted(found, key=lambda part: (part.tp, part.start))


@given(st.lists(st.integers(1000, 2**40), min_size=1, max_size=10), st.integers(1, 60))
def test_about_as_many_tasks_as_wanted(sizes: list[int], wanted: int) -> None:
    found = split_ranges(whole(sizes), min_partitions=wanted)
    assert len(found) >= max(len(sizes), wanted - len(sizes))
    assert len(found) <= max(len(sizes), wanted + len(sizes))


@given(st.integers(1, 2**60), st.integers(1, 50))
def test_parts_of_one_range_differ_by_one_at_most(size: int, number: int) -> None:
    found = [part.size for part in divide(whole([size])[0], number)]
    assert max(found) - min(found) <= 1


def test_ten_thousand_partitions_are_split() -> None:
    ranges = [
        OffsetRange(TopicPartition("t", number), 0, 1 + number % 97) for number in range(10_000)
    ]
    assert len(split_ranges(ranges, min_partitions=20_000)) >= 20_000


@given(
    st.integers(1, 10_000),
    st.lists(st.floats(0.1, 1000), min_size=1, max_size=5),
    st.integers(1, 200_000),
)
def test_a_range_cut_by_bytes_has_no_gap_and_no_part_too_large(
    size: int, densities: list[float], more: int
) -> None:
    most = int(max(densities)) + more  # less than a record cannot be kept to
    whole = OffsetRange(TopicPartition("t", 0), 100, 100 + size)
    parts = divide_bytes(whole, densities, most)
    assert parts[0].start == 100
    assert parts[-1].end == 100 + size
    assert all(before.end == after.start for before, after in itertools.pairwise(parts))
    assert all(part.size > 0 for part in parts)
    stretch = size / len(densities)

    def weight(part: OffsetRange) -> float:
        return sum(
            densities[min(len(densities) - 1, int((n - 100) / stretch))]
            for n in range(part.start, part.end)
        )

    assert all(part.size == 1 or weight(part) <= most + 2 * max(densities) for part in parts)


def test_a_partition_with_large_records_is_split_more() -> None:
    small, large = TopicPartition("t", 0), TopicPartition("t", 1)
    ranges = [OffsetRange(small, 0, 100), OffsetRange(large, 0, 100)]
    parts = split_ranges(ranges, max_bytes=1000, densities={small: (5.0,), large: (50.0, 10.0)})
    assert [(part.tp.partition, part.start, part.end) for part in parts] == [
        (0, 0, 100), (1, 0, 20), (1, 20, 40), (1, 40, 100),
    ]  # fmt: skip
