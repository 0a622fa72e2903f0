"""maxOffsetsPerTrigger: shared in proportion, never below one, never beyond what is there."""

from __future__ import annotations

from hypothesis import given, strategies as st

from parley.client import TopicPartition
from parley.spark.stream.limits import limit_offsets

T = [TopicPartition("t", number) for number in range(8)]
logs = st.lists(
    st.tuples(st.integers(0, 2**62), st.one_of(st.integers(0, 30), st.integers(0, 2**62))),
    max_size=8,
)


def taken(sizes: list[int], limit: int) -> list[int]:
    starts = {tp: 100 for tp, _ in zip(T, sizes, strict=False)}
    ends = {tp: 100 + size for tp, size in zip(T, sizes, strict=False)}
    return [limit_offsets(starts, ends, limit)[tp] - 100 for tp in starts]


def test_everything_goes_when_it_fits() -> None:
    assert taken([10, 20], 30) == [10, 20]


def test_partitions_run_dry_together() -> None:
    assert taken([100, 300], 40) == [10, 30]


def test_the_limit_is_met_exactly_where_shares_do_not_come_out_even() -> None:
    assert sum(taken([7, 7, 7], 10)) == 10


def test_a_small_partition_is_not_starved_by_a_large_one() -> None:
    assert taken([1_000_000, 1, 1], 10) == [8, 1, 1]


def test_each_gets_one_even_beyond_the_limit() -> None:
    assert taken([5, 5, 5, 5], 2) == [1, 1, 1, 1]


def test_a_partition_that_has_no_start_yet_keeps_its_end() -> None:
    assert limit_offsets({T[0]: 0}, {T[0]: 100, T[1]: 50}, 10) == {T[0]: 10, T[1]: 50}


def test_a_log_that_got_shorter_gives_nothing_and_does_not_move_back() -> None:
    assert limit_offsets({T[0]: 50, T[1]: 0}, {T[0]: 20, T[1]: 100}, 10) == {T[0]: 50, T[1]: 10}


@given(logs, st.integers(1, 2**63 - 1))
def test_the_invariants(logs: list[tuple[int, int]], limit: int) -> None:
    starts = {tp: start for tp, (start, _) in zip(T, logs, strict=False)}
    ends = {tp: start + size for tp, (start, size) in zip(T, logs, strict=False)}
    found = limit_offsets(starts, ends, limit)
    sizes = {tp: ends[tp] - starts[tp] for tp in starts}
    shares = {tp: found[tp] - starts[tp] for tp in starts}
    full = [tp for tp in starts if sizes[tp] > 0]
    assert all(0 <= shares[tp] <= sizes[tp] for tp in starts)
    assert all(shares[tp] >= 1 for tp in full)
    assert sum(shares.values()) == min(sum(sizes.values()), max(limit, len(full)))


@given(logs, st.integers(1, 1000))
def test_a_stream_comes_to_its_end(logs: list[tuple[int, int]], limit: int) -> None:
    logs = [(start, size % 500) for start, size in logs]
    position = {tp: start for tp, (start, _) in zip(T, logs, strict=False)}
    ends = {tp: start + size for tp, (start, size) in zip(T, logs, strict=False)}
    for _ in range(500 * 8 + 1):
        if position == ends:
            break
        position = limit_offsets(position, ends, limit)
    assert position == ends
