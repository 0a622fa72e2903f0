"""Which partitions are looked at again, and which are ready for a broker."""

from __future__ import annotations

from parley.client.produce.ready import ReadyPartitions
from parley.client.produce.state import PartitionLog
from parley.types import TopicPartition


def logs(count: int) -> list[PartitionLog]:
    return [PartitionLog(TopicPartition("t", index)) for index in range(count)]


def test_only_what_was_touched_is_looked_at_and_once() -> None:
    ready, (first, second) = ReadyPartitions(), logs(2)
    ready.touch(first), ready.touch(second)
    assert ready.touched(0, "metadata") == [first, second]
    assert ready.touched(0, "metadata") == []
    ready.touch(second)
    assert ready.touched(0, "metadata") == [second]


def test_another_metadata_answer_has_all_looked_at_and_nothing_ready_for_the_former_leaders() -> (
    None
):
    ready, (first, second) = ReadyPartitions(), logs(2)
    ready.touch(first), ready.touch(second)
    ready.touched(0, 1)
    ready.put(first, 5)
    assert (ready.nodes(), list(ready.of(5))) == ([5], [first])
    assert ready.touched(0, 2) == [first, second]
    assert ready.nodes() == []


def test_the_first_time_to_look_again_counts_for_all() -> None:
    ready, (first, second) = ReadyPartitions(), logs(2)
    ready.touch(first), ready.touch(second)
    ready.touched(0, 1)
    assert ready.next_look_ms is None
    ready.look_again(500)
    ready.look_again(900)
    assert ready.next_look_ms == 500
    assert ready.touched(499, 1) == []
    assert ready.touched(500, 1) == [first, second]
    assert ready.next_look_ms is None


def test_what_is_ready_goes_in_the_order_in_which_it_became_ready() -> None:
    ready, (first, second, third) = ReadyPartitions(), logs(3)
    for log in (second, first, third, second):
        ready.put(log, 1)
    assert list(ready.of(1)) == [second, first, third]
    ready.taken(second, 1)
    ready.put(second, 1)
    assert list(ready.of(1)) == [first, third, second]
    ready.drop(first)
    assert first.tp not in ready.active
