"""What happens to embedded clusters while rows flow: decided as a list of steps, then done.

A step is due when a fraction of the rows is acknowledged, so that every run, fast or slow, sees all
of them under load. Two brokers of three are up at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

OLD_RELEASES: Mapping[int, str] = {1: "2.4", 2: "2.4", 3: "2.4"}
"""The cluster that is left."""

NEW_RELEASES: Mapping[int, str] = {1: "3.9", 2: "4.2", 3: "4.2"}
"""The cluster that is moved to begins in the middle of a rolling upgrade."""

UPGRADES: Mapping[int, str] = {1: "4.3", 2: "4.3", 3: "4.3"}
"""Which ends here."""


class Act(Enum):
    """Kinds of steps."""

    MOVE_LEADERS = "move leaders"
    STOP = "stop"
    KILL = "kill"
    START = "start"


class Step(NamedTuple):
    """One step. `release` is set where a broker starts as another release than before."""

    due: float
    act: Act
    broker: int = -1
    release: str | None = None

    @property
    def text(self) -> str:
        """The step in words."""
        if self.act is Act.MOVE_LEADERS:
            return "moving the leader of every partition"
        if self.act is Act.START:
            return f"broker {self.broker} starts" + (
                f" as {self.release}" if self.release else " again"
            )
        return {
            Act.STOP: f"broker {self.broker} stops for its upgrade",
            Act.KILL: f"broker {self.broker} is killed",
        }[self.act]


class ClusterControl(Protocol):
    """What the scenario needs of a cluster (parley.devcluster.LocalCluster has it)."""

    def move_leader(self, topic: str, partition: int, to: int) -> object: ...
    def stop_broker(self, broker_id: int) -> object: ...
    def kill_broker(self, broker_id: int) -> object: ...
    def start_broker(self, broker_id: int, release: str | None = None) -> object: ...
    def leaders(self, topic: str) -> Mapping[int, tuple[int, int]]: ...


def rolling_upgrade(upgrades: Mapping[int, str] = UPGRADES, *, killed: int = 2) -> tuple[Step, ...]:
    """Return the new cluster's steps: leaders move, each broker is upgraded, one is killed and
    returns.
    """
    steps = [Step(0.05, Act.MOVE_LEADERS)]
    at = 0.15
    for broker, release in sorted(upgrades.items()):
        steps += [Step(at, Act.STOP, broker), Step(at + 0.05, Act.START, broker, release)]
        steps.append(Step(at + 0.12, Act.MOVE_LEADERS))
        at += 0.2
    steps += [
        Step(0.78, Act.KILL, killed),
        Step(0.84, Act.START, killed),
        Step(0.92, Act.MOVE_LEADERS),
    ]
    return tuple(sorted(steps, key=lambda step: step.due))


def last_days(*, killed: int = 2) -> tuple[Step, ...]:
    """Return the old cluster's steps: leaders move, and a broker is killed and returns."""
    return (
        Step(0.1, Act.MOVE_LEADERS),
        Step(0.25, Act.KILL, killed),
        Step(0.32, Act.START, killed),
        Step(0.45, Act.MOVE_LEADERS),
        Step(0.65, Act.MOVE_LEADERS),
        Step(0.88, Act.MOVE_LEADERS),
    )


def perform(step: Step, cluster: ClusterControl, topic: str, brokers: Sequence[int]) -> None:
    """Do one step."""
    if step.act is Act.MOVE_LEADERS:
        leaders = {partition: leader for partition, (leader, _) in cluster.leaders(topic).items()}
        for partition, to in spread_leaders(leaders, brokers).items():
            cluster.move_leader(topic, partition, to)
    elif step.act is Act.STOP:
        cluster.stop_broker(step.broker)
    elif step.act is Act.KILL:
        cluster.kill_broker(step.broker)
    else:
        cluster.start_broker(step.broker, step.release)


def spread_leaders(leaders: Mapping[int, int], brokers: Sequence[int]) -> dict[int, int]:
    """Return another leader for every partition, evenly over the brokers.

    >>> spread_leaders({0: 1, 1: 1, 2: 3}, [1, 2, 3])
    {0: 2, 1: 3, 2: 1}
    """
    found: dict[int, int] = {}
    for partition, leader in sorted(leaders.items()):
        led = list(found.values())
        others = [broker for broker in sorted(brokers) if broker != leader] or [leader]
        found[partition] = min(others, key=led.count)
    return found


class LeaderWatch:
    """Counts leader moves by epochs: each election adds one to its partition's epoch."""

    def __init__(self, leaders: Callable[[], Mapping[int, tuple[int, int]]]) -> None:
        self._leaders = leaders
        self._first: dict[int, tuple[int, int]] = {}
        self.now: dict[int, tuple[int, int]] = {}
        self.look()

    def look(self) -> Mapping[int, tuple[int, int]]:
        """Ask again; return the leaders and their epochs by partition."""
        found = self._leaders()
        self._first = {**found, **self._first}
        self.now.update(found)
        return self.now

    @property
    def moves(self) -> int:
        """Elections since the start, as of the last look."""
        return sum(
            max(0, epoch - self._first[partition][1]) for partition, (_, epoch) in self.now.items()
        )


class Director(threading.Thread):
    """Performs due steps in its own thread. `error` holds what ended it early, if so."""

    def __init__(
        self,
        steps: Sequence[Step],
        cluster: ClusterControl,
        topic: str,
        *,
        brokers: Sequence[int],
        progress: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        super().__init__(name="parley-demo-director", daemon=True)
        self.error: BaseException | None = None
        self._steps = steps
        self._cluster = cluster
        self._topic = topic
        self._brokers = brokers
        self._progress = progress
        self._report = report
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            for step in self._steps:
                while self._progress() < step.due:
                    if self._stopping.wait(0.05):
                        return
                self._report(step.text)
                perform(step, self._cluster, self._topic, self._brokers)
        except BaseException as error:
            self.error = error

    @property
    def finished(self) -> bool:
        """Whether all steps were performed."""
        return self.ident is not None and not self.is_alive() and self.error is None

    def stop(self) -> None:
        """Ask the thread to end after the step it is at."""
        self._stopping.set()
