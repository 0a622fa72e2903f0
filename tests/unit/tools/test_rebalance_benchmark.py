"""What the benchmark of rebalances counts, and which of its figures count as reached."""

from __future__ import annotations

import pytest
from benchmarks import rebalance
from benchmarks.rebalance import Idle, Joined, Measured
from benchmarks.rebalance_members import PROTOCOLS, Ownership
from benchmarks.rebalance_reading import Read

from parley.types import TopicPartition


def parts(*indexes: int) -> list[TopicPartition]:
    return [TopicPartition("t", index) for index in indexes]


def test_time_without_an_owner_is_summed_over_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("benchmarks.rebalance_members.time.monotonic", lambda: now)
    ownership = Ownership()
    ownership.assigned(0, parts(0, 1, 2))
    ownership.assigned(1, parts(3, 4, 5))
    before = dict(ownership.owners)
    assert ownership.settled(2, 6)
    now = 10.0
    ownership.revoked(0, parts(2))
    ownership.revoked(1, parts(4, 5))
    assert not ownership.settled(3, 6)
    now = 12.0
    ownership.assigned(1, parts(4))  # given up, and kept all the same
    ownership.revoked(0, parts(4))  # too late: it is another's
    now = 13.0
    ownership.assigned(2, parts(2, 5))
    assert ownership.settled(3, 6)
    assert ownership.since(9.5, before) == {
        "seconds": 3.5, "partition_seconds": 8.0, "moved": 2, "kept_given_up": 1,
    }  # fmt: skip


def test_only_what_is_not_worse_than_the_best_other_client_is_reached() -> None:
    def of(seconds: float, without: float) -> Joined:
        return Joined(seconds, without, 90, 0)

    joined = {
        (protocol, name): of(1.0, 20) for protocol, names in PROTOCOLS.items() for name in names
    }
    joined["eager", "aiokafka"] = of(0.4, 30)
    idle = {name: Idle(0.001, 0.004, 110, 80) for name in rebalance.CLIENTS}
    reading = {by: Read(1.0, 1.0, least) for by, least in rebalance.IN_GROUP.items()}
    found = Measured(joined, idle, reading, {"seconds": 1.5, "requests": 4.2})
    goals = {row[0]: row[-1] for row in rebalance.report(found).goals}
    assert [what for what, found in goals.items() if found == "**missed**"] == [
        "rebalance, eager, to the last assigned",
        "100 idle members in a process",
        "requests per member that joins",
    ]
    assert len(goals) == 14
