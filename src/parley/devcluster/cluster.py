"""A Kafka cluster in this process: N brokers on loopback sockets, each speaking as its own release.

`AsyncLocalCluster` lives in the running event loop; `blocking.LocalCluster` is the same with a loop
thread of its own. Not for production: no authorization, nothing is replicated to other machines.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from parley.devcluster.broker import Broker, Shared
from parley.devcluster.directory_lock import DirectoryLock
from parley.devcluster.faults.calls import FaultCalls
from parley.devcluster.faults.faults import Faults
from parley.devcluster.faults.requests import Requests
from parley.devcluster.refusals import refusals
from parley.devcluster.scenes import SceneCalls
from parley.devcluster.security.certificates import Certificate
from parley.devcluster.security.listeners import Listeners, ports_of, wanted_listeners
from parley.devcluster.security.security import Security
from parley.devcluster.state.cluster_state import ClusterSettings, ClusterState
from parley.devcluster.state.groups.offsets import GROUP, TRANSACTION
from parley.devcluster.state.image import BrokerImage
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.devcluster.state.rules import ElectionRules
from parley.devcluster.state.transactions.transaction import Transaction
from parley.devcluster.timers import Timers
from parley.errors import ConfigError
from parley.net import AdvancingClock, Backend, Clock
from parley.records import crc_is_right
from parley.types import format_uuid

DEFAULT_BROKERS = 3
DEFAULT_RELEASE = "4.3"
DEFAULT_REPLICAS = 3


class AsyncLocalCluster(SceneCalls, FaultCalls):
    """N brokers in the running event loop. `async with AsyncLocalCluster() as cluster:`.

    `brokers` says how many, with ids from 1 on, or lists their ids. `release` holds for all of
    them, `releases` for single ones by id. With `data_dir` records, topics, offsets and producer
    ids survive, also a kill -9; one cluster at a time may run on it. `port` is the first broker's,
    the others follow; without it free ports are taken. `clock` drives every wait; `seed` makes
    cluster and topic ids repeatable. `security` is what clients must do to connect: TLS, a login.
    `listeners` gives every broker several sockets, each with a name and a security of its own;
    clients of one are given the brokers' addresses on it. `backend` is the network, sockets if not
    given. Raises ConfigError for unknown releases and broker ids, and for releases that cannot do
    what is wanted.
    """

    def __init__(
        self,
        brokers: int | Sequence[int] = DEFAULT_BROKERS,
        release: str = DEFAULT_RELEASE,
        *,
        releases: Mapping[int, str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        port: int | None = None,
        settings: ClusterSettings | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
        security: Security | None = None,
        listeners: Mapping[str, Security] | None = None,
        backend: Backend | None = None,
    ) -> None:
        ids = _broker_ids(brokers)
        self.settings = settings or ClusterSettings()
        for broker_id in [*(releases or {}), *self.settings.racks]:
            if broker_id not in ids:
                raise ConfigError(
                    f"there is no broker {broker_id}: the ids are {', '.join(map(str, ids))}"
                )
        self._listeners = Listeners(wanted_listeners(security, listeners), self.settings.host)
        self._random_bytes = os.urandom if seed is None else random.Random(seed).randbytes
        self._directory = None if data_dir is None else Path(data_dir)
        self._clock = clock or AdvancingClock()
        self._backend = backend
        self._faults = Faults(random.Random(seed))
        self._session_rng = random.Random(seed)
        self._requests = Requests()
        self._state: ClusterState | None = None
        self._lock: DirectoryLock | None = None
        self._timers: Timers | None = None
        self._stopped_states: dict[int, BrokerState] = {}
        self._planned = {}
        self._names = {i: (releases or {}).get(i, release) for i in ids}
        self._ports = ports_of(port, ids, list(self._listeners))
        self._brokers: dict[int, Broker] = {}

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every broker; nothing runs when it raises.

        Raises NetworkError when a port is taken, ConfigError when another cluster runs on the data
        directory, DataLossError when what lies there is damaged.
        """
        if self._state is not None:
            return
        # before anything is read
        self._lock = None if self._directory is None else DirectoryLock(self._directory)
        try:
            self._state = self._make_state()
            self._make_brokers(self._state)
            await self._bring_up(list(self._brokers.values()))
            self._plan_retention()
        except BaseException:
            await self.close()
            raise

    def _make_brokers(self, state: ClusterState) -> None:
        state.controller.rules_of = self._rules_of
        now_ms = self._wall_clock()
        self._timers = Timers(
            [state.transactions, state.classic_groups, state.consumer_groups], self._clock, now_ms
        )
        self._timers.arm()
        state.transactions.epochs_per_fence = self._epochs_per_fence
        shared = Shared(
            state, self._clock, now_ms, self._faults, self._requests, self._listeners, self._timers
        )
        shared.backend, shared.rng = self._backend, self._session_rng
        for broker_id, name in self._names.items():
            self._brokers[broker_id] = Broker(
                broker_id, name, shared, self.settings.host, self._ports[broker_id]
            )

    def _make_state(self) -> ClusterState:
        return ClusterState(
            cluster_id=format_uuid(self._random_bytes(16)),
            new_topic_id=self._new_topic_id,
            check_crc=crc_is_right,
            directory=self._directory,
            settings=self.settings,
        )

    async def close(self) -> None:
        """Stop every broker in order; with a data directory everything is on
        disk then. Idempotent.
        """
        state, self._state = self._state, None
        try:
            if state is not None:
                await self._close_all(state)
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    async def _close_all(self, state: ClusterState) -> None:
        self._call_off()
        if self._timers is not None:
            self._timers.cancel()
        for broker in self._brokers.values():
            await broker.close()
            broker.give_up_ports()
            self._ports[broker.id] = {
                listener: address.port for listener, address in broker.addresses.items()
            }
        for stopped in self._stopped_states.values():
            stopped.close(sync=True)
        self._stopped_states.clear()
        state.close()

    async def __aenter__(self) -> AsyncLocalCluster:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _wall_clock(self) -> Callable[[], int]:
        """Return the time of day as `clock` moves it, so that a manual clock
        moves timestamps too.
        """
        if isinstance(self._clock, AdvancingClock):
            return self._clock.time_of_day_ms
        first = (
            time.time_ns() // 1_000_000
            if self.settings.start_time_ms is None
            else self.settings.start_time_ms
        )
        zero = self._clock.now_ms()
        return lambda: first + self._clock.now_ms() - zero

    def _new_topic_id(self) -> bytes:
        while True:
            # Kafka avoids ids whose text begins with a dash, which tools would take for an option.
            found = self._random_bytes(16)
            if not format_uuid(found).startswith("-") and found not in self.state.image.names:
                return found

    # -- brokers -------------------------------------------------------------------------------

    @property
    def state(self) -> ClusterState:
        """The cluster behind the sockets. Raises ConfigError when it does not run."""
        if self._state is None:
            raise ConfigError("the cluster does not run; call start() first")
        return self._state

    @property
    def now_ms(self) -> int:
        """The cluster's time of day."""
        return next(iter(self._brokers.values()))._shared.now_ms()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…` of the brokers that run, on the first listener."""
        return self.bootstrap()

    def bootstrap(self, listener: str | None = None) -> str:
        """Return `host:port,…` of the brokers that run, on a listener. Raises
        ConfigError for an unknown one.
        """
        self._listeners.of(listener)
        name = self._listeners.first if listener is None else listener
        return ",".join(
            str(broker.addresses[name]) for broker in self._brokers.values() if broker.running
        )

    @property
    def listeners(self) -> Mapping[str, Security]:
        """The listeners by name, in order; the first is the one of `bootstrap_servers`."""
        return {name: self._listeners.of(name).security for name in self._listeners}

    @property
    def ca_pem(self) -> str:
        """The certificate that clients of TLS listeners are to trust. Raises
        ConfigError where there is none.
        """
        return self._listeners.trusted().ca_pem

    def client_certificate(self, name: str) -> Certificate:
        """Return a client's certificate for mutual TLS. Raises ConfigError where
        the cluster has no CA.
        """
        return self._listeners.trusted().client_certificate(name)

    def client_properties(
        self, user: str | None = None, mechanism: str | None = None, *, listener: str | None = None
    ) -> dict[str, str]:
        """Return how a client connects, in the names of Kafka's client.properties; a password is
        among them.

        Without `user` the first one logs in, without `mechanism` by the strongest that every broker
        offers, without `listener` at the first one.
        """
        releases = [broker.profile.release for broker in self._brokers.values()]
        found = self._listeners.of(listener).client_properties(user, mechanism, releases)
        return {"bootstrap.servers": self.bootstrap(listener), **found}

    @property
    def cluster_id(self) -> str:
        """The id that Metadata gives."""
        return self.state.image.cluster_id

    @property
    def brokers(self) -> Sequence[Broker]:
        """Every broker, running or not, by id."""
        return list(self._brokers.values())

    def broker(self, broker_id: int) -> Broker:
        """Return a broker. Raises ConfigError when there is none of that id."""
        found = self._brokers.get(broker_id)
        if found is None:
            raise ConfigError(
                f"there is no broker {broker_id}; known are {', '.join(map(str, self._brokers))}"
            )
        return found

    async def _bring_up(self, brokers: Sequence[Broker]) -> None:
        images = {}
        for broker in brokers:
            state = self._stopped_states.pop(broker.id, None) or self.state.make_broker(broker.id)
            broker.state = state
            await broker.listen()
            endpoints = {
                name: (address.host, address.port) for name, address in broker.addresses.items()
            }
            images[state] = BrokerImage(
                broker.id, *broker.address, self.settings.racks.get(broker.id), endpoints
            )
        self.state.brokers_up(images, now_ms=self.now_ms)

    async def start_broker(self, broker_id: int, release: str | None = None) -> None:
        """Start a broker that was stopped or killed, at its old port, as another
        release if one is named.
        """
        broker = self.broker(broker_id)
        if broker.running:
            raise ConfigError(f"broker {broker_id} runs already; stop it first")
        if release is not None:
            broker.speak_as(release)
        await self._bring_up([broker])

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker in order: its leaders move first, then its connections end."""
        broker = self._running(broker_id)
        stopped = self._take_down(broker_id, abrupt=False)
        await broker.thaw()
        await broker.close()
        broker.state = None
        self._keep_state(stopped, sync=True)

    async def kill_broker(self, broker_id: int) -> None:
        """Kill a broker: its connections are reset, only then do the others elect leaders."""
        broker = self._running(broker_id)
        await broker.abort()
        broker.state = None
        self._keep_state(self._take_down(broker_id, abrupt=True), sync=False)

    kill = kill_broker

    def _take_down(self, broker_id: int, *, abrupt: bool) -> BrokerState:
        self._call_off("miss", broker_id)
        self._scenes.gone(broker_id)
        return self.state.broker_down(broker_id, now_ms=self.now_ms, abrupt=abrupt)

    def _rules_of(self, broker_id: int) -> ElectionRules:
        broker = self._brokers.get(broker_id)
        return ElectionRules() if broker is None else broker.profile.behaviour.election

    def _running(self, broker_id: int) -> Broker:
        broker = self.broker(broker_id)
        if not broker.running:
            raise ConfigError(f"broker {broker_id} does not run; start it first")
        return broker

    def _keep_state(self, stopped: BrokerState, *, sync: bool) -> None:
        """Keep a stopped broker's memory; what lies on disk is closed and
        recovered at its next start.
        """
        if self._directory is None:
            self._stopped_states[stopped.id] = stopped
        else:
            stopped.close(sync=sync)

    # -- topics --------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic on the brokers that run; three replicas where there are so many.

        Raises ConfigError with Kafka's own text when the name, the numbers or a setting cannot be.
        """
        alive = len(self.state.image.brokers)
        factor = min(DEFAULT_REPLICAS, alive) if replication_factor is None else replication_factor
        with refusals():
            assignment = self.state.controller.spread(partitions, factor)
            self.state.create_topic(name, assignment, configs or {}, now_ms=self.now_ms)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records.

        Raises ConfigError when there is none of that name.
        """
        with refusals():
            self.state.delete_topic(name, now_ms=self.now_ms)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make broker `to` the leader, epoch + 1; if it holds no replica it takes the leader's
        place.

        Raises ConfigError when `to` does not run or its replica is not in sync.
        """
        with refusals():
            self.state.move_leader(topic, partition, to, now_ms=self.now_ms)

    def leaders(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return leader (-1: none) and leader epoch by partition.

        Raises ConfigError for an unknown topic.
        """
        image = self.state.image.topics.get(topic)
        if image is None:
            raise ConfigError(f'there is no topic "{topic}"')
        return {index: (p.leader, p.leader_epoch) for index, p in enumerate(image.partitions)}

    # -- transactions --------------------------------------------------------------------------

    def transactions(self) -> dict[str, Transaction]:
        """Return what the coordinators know of each transactional id: state,
        producer, epoch, partitions.
        """
        return {held.transactional_id: held for held in self.state.transactions}

    def _epochs_per_fence(self, transactional_id: str) -> int:
        alive = self.state.image.brokers
        found = self._brokers.get(
            self.state.coordinators.of(TRANSACTION, transactional_id, alive.keys())
        )
        return 1 if found is None else found.profile.behaviour.epochs_per_fence

    def move_coordinator(self, transactional_id: str, to: int) -> None:
        """Let broker `to` coordinate a transactional id while it runs. Raises
        ConfigError when it does not.
        """
        self._running(to)
        self.state.coordinators.move(TRANSACTION, transactional_id, to)
        self.state.transactions.coordinators_changed()

    def move_group_coordinator(self, group: str, to: int) -> None:
        """Let broker `to` coordinate a group while it runs; its members go on there (H19).

        Raises ConfigError when the broker does not run.
        """
        self._running(to)
        self.state.coordinators.move(GROUP, group, to)
        self.state.coordinators_moved(now_ms=self.now_ms)


def _broker_ids(brokers: int | Sequence[int]) -> list[int]:
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
