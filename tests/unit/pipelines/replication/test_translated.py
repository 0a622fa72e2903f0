"""Y5: where a group goes on, against a reader that goes through the records one by one."""

from __future__ import annotations

from hypothesis import given, strategies as st

from parley.client import TopicPartition
from parley.pipelines.replication.groups import translated
from parley.pipelines.replication.runs import PartitionMap, Run

TP = TopicPartition("flights", 0)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=20),
    st.integers(0, 70),
    st.none() | st.integers(0, 70),
    st.booleans(),
)
def test_a_group_reads_the_same_records_on_as_at_home(
    steps: list[tuple[int, int]], committed: int, current: int | None, has_members: bool
) -> None:
    # a log of the source with holes, its copy with others
    source = target = -1
    log: dict[int, int] = {}
    for step, other in steps:
        source, target = source + step, target + other
        log[source] = target
    known = PartitionMap([Run(at, to, 1) for at, to in log.items()], source + 1)
    before = {} if current is None else {TP: current}
    (found,) = translated("readers", {TP: committed}, before, {TP: known}, has_members=has_members)
    if not log:
        assert (found.outcome, found.target_offset, found.changes) == (
            "nothing-copied",
            None,
            False,
        )
        return
    assert found.target_offset is not None
    still_to_read = [to for at, to in log.items() if at >= committed]
    assert [to for to in log.values() if to >= found.target_offset] == still_to_read
    assert found.target_offset in (still_to_read[0] if still_to_read else target + 1,)
    if has_members:
        assert (found.outcome, found.changes) == ("has-members", False)
    elif current is not None and found.target_offset <= current:
        assert not found.changes
        assert found.outcome == ("unchanged" if found.target_offset == current else "not-back")
    else:
        assert found.changes
        assert found.outcome == ("behind" if committed > source + 1 else "written")


def test_partitions_that_are_not_copied_are_left_alone() -> None:
    other = TopicPartition("other", 0)
    assert translated("readers", {other: 3}, {}, {TP: PartitionMap([Run(0, 0, 9)], 9)}) == []
