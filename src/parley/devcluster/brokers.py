"""The brokers of one cluster: which there are, which run, and the state behind them while they do.

Rules of this file:
1. The state is there from `open` to `close`; a stopped broker keeps its own part for its next
   start.
2. Whoever did something to a broker hears in `on_down` that it goes, before the others elect
   leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from parley.devcluster.broker import Broker, Shared
from parley.devcluster.state.cleaner import LogCleaner
from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.groups.offsets import TRANSACTION
from parley.devcluster.state.groups.records import NEWEST, RecordRules
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.log.compaction import NEWEST_CLEANER, CleanerRules
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.devcluster.state.rules import ElectionRules
from parley.errors import ConfigError
from parley.types import Several, several

MOST_SHOWN = 10
Ports = Mapping[int, Mapping[str, int]]
"""Broker id → listener → port, 0 for a free one."""


class Brokers:
    """The brokers by id. `releases` says which there are, and what each speaks at its first start.

    `on_disk`: a broker that starts again reads what lies there, not what it had in memory.
    """

    def __init__(self, releases: Mapping[int, str], ports: Ports, *, on_disk: bool) -> None:
        self._releases = releases
        self._ports = dict(ports)
        self._on_disk = on_disk
        self._shared: Shared | None = None
        self._state: ClusterState | None = None
        self._brokers: dict[int, Broker] = {}
        self.stopped_states: dict[int, BrokerState] = {}
        """What brokers that do not run had in memory; empty with records on disk."""
        self.on_down: list[Callable[[int], None]] = []
        """Called with the id of a broker that is stopped or killed."""

    def __iter__(self) -> Iterator[Broker]:
        return iter(self._brokers.values())

    def __str__(self) -> str:
        """Say whether they run, and what each is: for the `repr` of a cluster."""
        if not self._brokers:
            shown = [f"{one}: {release}" for one, release in self._releases.items()]
            return f"not started, {self._first(shown)}"
        isolated = self._state.replication.links.isolated if self._state is not None else ()
        shown = []
        for one in self:
            how = "" if one.running or not self.is_open else ", stopped"
            how = ", isolated" if one.id in isolated else how
            shown.append(f"{one.id}: {one.release} at {one.address}{how}")
        return f"{'running' if self.is_open else 'closed'}, {self._first(shown)}"

    @staticmethod
    def _first(shown: Sequence[str]) -> str:
        left = len(shown) - MOST_SHOWN
        more = f"; and {left} more" if left > 0 else ""
        return f"{'; '.join(shown[:MOST_SHOWN])}{more}"

    # -- the cluster's life --------------------------------------------------------------------

    async def open(self, shared: Shared) -> None:
        """Make every broker and let it listen. Raises NetworkError when a port is taken."""
        self._shared, self._state = shared, shared.state
        shared.state.controller.rules_of = self._rules_of
        shared.state.transactions.epochs_per_fence = self._epochs_per_fence
        shared.state.group_coordinator.topic.rules_of = self._record_rules_of
        shared.cleaner.rules_of = self._cleaner_rules_of
        host = shared.state.settings.host
        for broker_id, release in self._releases.items():
            made = Broker(broker_id, release, shared, host, self._ports[broker_id])
            self._brokers[broker_id] = made
        await self._bring_up(list(self))

    async def close(self) -> None:
        """Stop every broker in order; what is kept on disk is there then. Idempotent."""
        state, self._state = self._state, None
        if state is None:
            return
        for broker in self:
            await broker.close()
            broker.give_up_ports()
            self._ports[broker.id] = {name: one.port for name, one in broker.addresses.items()}
        for stopped in self.stopped_states.values():
            stopped.close(sync=True)
        self.stopped_states.clear()
        state.close()

    @property
    def is_open(self) -> bool:
        """Whether the cluster runs."""
        return self._state is not None

    @property
    def state(self) -> ClusterState:
        """The cluster behind the sockets. Raises ConfigError when it does not run."""
        if self._state is None:
            raise ConfigError("the cluster does not run; call start() first")
        return self._state

    def arm_timers(self) -> None:
        """Look again at what falls due next: something was changed that no request asked for."""
        if self._shared is not None:
            self._shared.timers.arm()

    @property
    def cleaner(self) -> LogCleaner:
        """The cleaner of their logs. Raises ConfigError when the cluster has never run."""
        if self._shared is None:
            raise ConfigError("the cluster does not run; call start() first")
        return self._shared.cleaner

    @property
    def now_ms(self) -> int:
        """The cluster's time of day. Raises ConfigError when it has never run."""
        if self._shared is None:
            raise ConfigError("the cluster does not run; call start() first")
        return self._shared.now_ms()

    # -- one broker ----------------------------------------------------------------------------

    def find(self, broker_id: int) -> Broker:
        """Return a broker. Raises ConfigError when there is none of that id."""
        found = self._brokers.get(broker_id)
        if found is None:
            known = ", ".join(map(str, self._brokers))
            raise ConfigError(f"there is no broker {broker_id}; known are {known}")
        return found

    def running(self, broker_id: int) -> Broker:
        """Return a broker that runs. Raises ConfigError when it does not, or when there is none."""
        broker = self.find(broker_id)
        if not broker.running:
            raise ConfigError(f"broker {broker_id} does not run; start it first")
        return broker

    def all_running(self, option: str, given: Several[int]) -> list[int]:
        """Return the ids given for an option. Raises ConfigError where one does not run."""
        wanted = several(option, given, "broker ids")
        return [self.running(one).id for one in wanted]  # type: ignore[arg-type]

    async def start(self, broker_id: int, release: str | None = None) -> None:
        """Start a broker at its old port. Raises ConfigError when it runs."""
        broker = self.find(broker_id)
        if broker.running:
            raise ConfigError(f"broker {broker_id} runs already; stop it first")
        if release is not None:
            broker.speak_as(release)
        await self._bring_up([broker])

    async def stop(self, broker_id: int) -> None:
        """Stop a broker in order: its leaders move first, then its connections end."""
        broker = self.running(broker_id)
        stopped = self._take_down(broker_id, abrupt=False)
        await broker.thaw()
        await broker.close()
        broker.state = None
        self._keep_state(stopped, sync=True)

    async def kill(self, broker_id: int) -> None:
        """Kill a broker: its connections are reset, only then do the others elect leaders."""
        broker = self.running(broker_id)
        await broker.abort()
        broker.state = None
        self._keep_state(self._take_down(broker_id, abrupt=True), sync=False)

    async def _bring_up(self, brokers: Sequence[Broker]) -> None:
        images = {}
        racks = self.state.settings.racks
        for broker in brokers:
            kept = self.stopped_states.pop(broker.id, None)
            broker.state = kept or self.state.make_broker(broker.id)
            await broker.listen()
            endpoints = {name: (one.host, one.port) for name, one in broker.addresses.items()}
            rack = racks.get(broker.id)
            images[broker.state] = BrokerImage(broker.id, *broker.address, rack, endpoints)
        self.state.brokers_up(images, now_ms=self.now_ms)

    def _take_down(self, broker_id: int, *, abrupt: bool) -> BrokerState:
        for heard in self.on_down:
            heard(broker_id)
        return self.state.broker_down(broker_id, now_ms=self.now_ms, abrupt=abrupt)

    def _keep_state(self, stopped: BrokerState, *, sync: bool) -> None:
        """Keep a stopped broker's memory; what lies on disk is closed and
        recovered at its start.
        """
        if self._on_disk:
            stopped.close(sync=sync)
        else:
            self.stopped_states[stopped.id] = stopped

    # -- what depends on releases --------------------------------------------------------------

    def _rules_of(self, broker_id: int) -> ElectionRules:
        broker = self._brokers.get(broker_id)
        return ElectionRules() if broker is None else broker.profile.behaviour.election

    def _record_rules_of(self, broker_id: int) -> RecordRules:
        broker = self._brokers.get(broker_id)
        return NEWEST if broker is None else broker.profile.records

    def _cleaner_rules_of(self, broker_id: int) -> CleanerRules:
        broker = self._brokers.get(broker_id)
        return NEWEST_CLEANER if broker is None else broker.profile.behaviour.cleaner

    def _epochs_per_fence(self, transactional_id: str) -> int:
        alive = self.state.image.brokers
        coordinator = self.state.coordinators.of(TRANSACTION, transactional_id, alive.keys())
        found = self._brokers.get(coordinator)
        return 1 if found is None else found.profile.behaviour.epochs_per_fence


def broker_ids(brokers: int | Sequence[int]) -> list[int]:
    """Return the ids of the brokers that are wanted. Raises ConfigError for none,
    and for ids that cannot be.
    """
    ids = list(range(1, brokers + 1)) if isinstance(brokers, int) else list(brokers)
    if not ids:
        raise ConfigError(
            f"a cluster of {brokers if isinstance(brokers, int) else 0} brokers cannot be; "
            "at least 1 is needed"
        )
    for broker_id in ids:
        if broker_id < 0 or ids.count(broker_id) > 1:
            raise ConfigError(
                f"broker id {broker_id} is negative or given twice; ids are whole numbers from 0 on"
            )
    return ids
