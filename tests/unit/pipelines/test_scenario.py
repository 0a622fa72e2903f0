"""The steps of the rolling upgrade: which, in which order, when, and what they do to a cluster."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from parley.pipelines.demo.scenario import (
    NEW_RELEASES,
    UPGRADES,
    Act,
    Director,
    LeaderWatch,
    Step,
    last_days,
    perform,
    rolling_upgrade,
    spread_leaders,
)

from ...support import GENEROUS_S


class FakeCluster:
    """Three brokers and four partitions, which follow the steps as the embedded cluster does."""

    def __init__(self) -> None:
        self.releases = dict(NEW_RELEASES)
        self.running = {1, 2, 3}
        self.led = {partition: (partition % 3 + 1, 0) for partition in range(4)}
        self.seen: list[tuple[str, int]] = []
        self.fewest_running = 3

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        assert topic == "t"
        assert to in self.running
        self.led[partition] = (to, self.led[partition][1] + 1)

    def stop_broker(self, broker_id: int) -> None:
        self._leave("stop", broker_id)

    def kill_broker(self, broker_id: int) -> None:
        self._leave("kill", broker_id)

    def _leave(self, how: str, broker: int) -> None:
        self.seen.append((how, broker))
        self.running.remove(broker)
        self.fewest_running = min(self.fewest_running, len(self.running))
        for partition, (leader, epoch) in self.led.items():
            if leader == broker:
                self.led[partition] = (min(self.running), epoch + 1)

    def start_broker(self, broker_id: int, release: str | None = None) -> None:
        self.seen.append(("start", broker_id))
        self.running.add(broker_id)
        self.releases[broker_id] = release or self.releases[broker_id]

    def leaders(self, topic: str) -> Mapping[int, tuple[int, int]]:
        return dict(self.led)


def test_every_broker_is_upgraded_and_one_is_killed_and_returns() -> None:
    cluster = FakeCluster()
    for step in rolling_upgrade():
        perform(step, cluster, "t", [1, 2, 3])
    assert cluster.releases == dict(UPGRADES)
    assert all(UPGRADES[broker] != NEW_RELEASES[broker] for broker in NEW_RELEASES)
    assert cluster.running == {1, 2, 3}
    assert cluster.fewest_running == 2
    assert sum(how == "kill" for how, _ in cluster.seen) == 1


def test_the_old_cluster_is_not_upgraded_and_one_of_its_brokers_is_killed_and_returns() -> None:
    cluster = FakeCluster()
    for step in last_days():
        perform(step, cluster, "t", [1, 2, 3])
    assert cluster.releases == dict(NEW_RELEASES)
    assert cluster.seen == [("kill", 2), ("start", 2)]
    assert cluster.running == {1, 2, 3}


BOTH = pytest.mark.parametrize("steps", [rolling_upgrade(), last_days()], ids=["new", "old"])


@BOTH
def test_leaders_are_moved_only_while_all_brokers_run(steps: tuple[Step, ...]) -> None:
    running = 3
    for step in steps:
        running += {Act.STOP: -1, Act.KILL: -1, Act.START: 1}.get(step.act, 0)
        assert step.act is not Act.MOVE_LEADERS or running == 3


@BOTH
def test_all_steps_are_due_before_the_last_row(steps: tuple[Step, ...]) -> None:
    due = [step.due for step in steps]
    assert due == sorted(due)
    assert all(0 < at < 1 for at in due)


def test_each_step_has_words() -> None:
    texts = [step.text for step in rolling_upgrade()]
    assert "broker 1 stops for its upgrade" in texts
    assert "broker 1 starts as 4.3" in texts
    assert "broker 2 is killed" in texts
    assert "broker 2 starts again" in texts


@pytest.mark.parametrize(
    "leaders",
    [
        {0: 1, 1: 2, 2: 3, 3: 1},
        {0: 1, 1: 1, 2: 1, 3: 1},
        {0: -1, 1: 2, 2: -1, 3: 2},
        {0: 2, 1: 3, 2: 3, 3: 2},
    ],
)
def test_every_partition_gets_another_leader_and_none_too_many(leaders: dict[int, int]) -> None:
    found = spread_leaders(leaders, [3, 1, 2])
    assert all(found[partition] != leader for partition, leader in leaders.items())
    assert {list(found.values()).count(broker) for broker in (1, 2, 3)} <= {0, 1, 2}


def test_a_broker_that_is_alone_keeps_what_it_leads() -> None:
    assert spread_leaders({0: 1}, [1]) == {0: 1}


def test_leader_moves_are_counted_by_epochs_even_between_two_looks() -> None:
    cluster = FakeCluster()
    watch = LeaderWatch(lambda: cluster.leaders("t"))
    for _ in range(3):
        perform(
            next(step for step in rolling_upgrade() if step.act is Act.MOVE_LEADERS),
            cluster,
            "t",
            [1, 2, 3],
        )
    watch.look()
    assert watch.moves == 12


def test_a_topic_that_comes_later_is_counted_from_then_on() -> None:
    cluster, there = FakeCluster(), False
    watch = LeaderWatch(lambda: cluster.leaders("t") if there else {})
    assert watch.moves == 0
    cluster.led = {0: (1, 7)}
    there = True
    watch.look()
    cluster.move_leader("t", 0, 2)
    watch.look()
    assert watch.moves == 1


def test_the_director_waits_for_the_rows(request: pytest.FixtureRequest) -> None:
    cluster, reported = FakeCluster(), list[str]()
    fraction = [0.0]

    def progress() -> float:
        fraction[0] += 0.02
        return fraction[0]

    steps = rolling_upgrade()
    director = Director(
        steps, cluster, "t", brokers=[1, 2, 3], progress=progress, report=reported.append
    )
    assert not director.finished
    director.start()
    director.join(timeout=GENEROUS_S)
    assert director.finished
    assert reported == [step.text for step in steps]


def test_what_goes_wrong_in_a_step_is_kept() -> None:
    def progress() -> float:
        raise OSError("no such cluster")

    director = Director(
        rolling_upgrade(),
        FakeCluster(),
        "t",
        brokers=[1],
        progress=progress,
        report=lambda text: None,
    )
    director.start()
    director.join(timeout=GENEROUS_S)
    assert isinstance(director.error, OSError)
    assert not director.finished


def test_the_director_can_be_stopped_while_it_waits() -> None:
    director = Director(
        rolling_upgrade(),
        FakeCluster(),
        "t",
        brokers=[1],
        progress=lambda: 0.0,
        report=lambda _: None,
    )
    director.start()
    director.stop()
    director.join(timeout=GENEROUS_S)
    assert not director.is_alive()
