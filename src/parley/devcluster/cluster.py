"""A Kafka cluster in this process: N brokers on loopback sockets, each speaking as its own release.

`AsyncLocalCluster` lives in the running event loop; `blocking.LocalCluster` is the same with a loop
thread of its own. Not for production: no authorization, nothing is replicated to other machines.
"""

# size: the face of a cluster: one call for each thing, most of the lines are their docstrings

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from parley.devcluster.broker import Broker, Shared
from parley.devcluster.brokers import Brokers, broker_ids
from parley.devcluster.directory_lock import DirectoryLock
from parley.devcluster.faults.calls import AsyncFaults
from parley.devcluster.faults.faults import FaultQueue
from parley.devcluster.faults.requests import JournalEntry, Requests, VersionsUsed
from parley.devcluster.group_calls import AsyncGroups
from parley.devcluster.refusals import refusals
from parley.devcluster.registry.schemas_topic import SchemasTopic
from parley.devcluster.registry.server import AsyncSchemaRegistry, RegistryListener
from parley.devcluster.scenes import AsyncScenes, BrokerStatus
from parley.devcluster.security.certificates import Certificate
from parley.devcluster.security.listeners import Listeners, ports_of, wanted_listeners
from parley.devcluster.security.security import ListenerSecurity, Security
from parley.devcluster.state.agreement import Agreement, check_agreement
from parley.devcluster.state.cleaner import LogCleaner
from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.image import TopicImage
from parley.devcluster.state.log.replica import ReplicaKey
from parley.devcluster.state.retention import apply_retention
from parley.devcluster.state.settings import ClusterSettings
from parley.devcluster.state.transactions.transaction import Transaction
from parley.devcluster.timers import Planned, Timed, Timers, time_of_day
from parley.errors import ConfigError, DataLossError
from parley.net import Address, AdvancingClock, Backend, Clock, ManualClock
from parley.records import crc_is_right
from parley.types import format_uuid

DEFAULT_BROKERS = 3
DEFAULT_RELEASE = "4.3"
DEFAULT_REPLICAS = 3
MOST_MS = 100 * 365 * 24 * 3_600_000
"""How far the clock can be moved at once."""


class AsyncLocalCluster:
    """N brokers in the running event loop. `async with AsyncLocalCluster() as cluster:`.

    `brokers` says how many, with ids from 1 on, or lists their ids. `release` holds for all of
    them, `releases` for single ones by id. With `data_dir` records, topics, offsets and producer
    ids survive, also a kill -9; one cluster at a time may run on it. `port` is the first broker's,
    the others follow; without it free ports are taken. `clock` drives every wait; `seed` makes
    cluster and topic ids repeatable. `security` is what clients must do to connect: TLS, a login.
    `listeners` gives every broker several sockets, each with a name and a security of its own;
    clients of one are given the brokers' addresses on it. `backend` is the network, sockets if not
    given. `schema_registry` starts one beside the brokers; a `Security` says who may ask it, a
    `RegistryListener` also its port. Raises
    ConfigError for unknown releases and broker ids, and for releases that cannot do what is wanted.
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
        schema_registry: bool | Security | RegistryListener = False,
    ) -> None:
        ids = broker_ids(brokers)
        self.settings = settings or ClusterSettings()
        for broker_id in [*(releases or {}), *self.settings.racks]:
            if broker_id not in ids:
                known = ", ".join(map(str, ids))
                raise ConfigError(f"there is no broker {broker_id}: the ids are {known}")
        self._listeners = Listeners(wanted_listeners(security, listeners), self.settings.host)
        self._random_bytes = os.urandom if seed is None else random.Random(seed).randbytes
        self._directory = None if data_dir is None else Path(data_dir)
        self._clock = clock or AdvancingClock()
        self._backend = backend
        self._waiting_faults = FaultQueue(random.Random(seed))
        self._session_rng = random.Random(seed)
        self._requests = Requests()
        self._lock: DirectoryLock | None = None
        self._timers: Timers | None = None
        self._planned = Planned(self._clock)
        self._brokers = Brokers(
            {i: (releases or {}).get(i, release) for i in ids},
            ports_of(port, ids, list(self._listeners)),
            on_disk=self._directory is not None,
        )
        self.faults = AsyncFaults(self._waiting_faults)
        """What goes wrong with requests: errors, lost connections, late answers."""
        self.scenes = AsyncScenes(self._brokers, self.settings, self._planned)
        """What is done to the brokers: cut off, held back, elected though not in sync."""
        self.groups = AsyncGroups(self._brokers, self.settings)
        """What is done to consumer groups: members expired, old offsets dropped."""
        self._registry = self._make_registry(schema_registry)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._brokers})"

    def _make_registry(
        self, wanted: bool | Security | RegistryListener
    ) -> AsyncSchemaRegistry | None:
        if wanted is False:
            return None
        if isinstance(wanted, Security):
            wanted = RegistryListener(wanted)
        listener = wanted if isinstance(wanted, RegistryListener) else RegistryListener()
        host, authority = self.settings.host, self._listeners.trusted().authority
        security = ListenerSecurity(listener.security, host, authority)
        return AsyncSchemaRegistry(security, Address(host, listener.port), self._schemas_topic)

    def _schemas_topic(self) -> SchemasTopic:
        def magic_of(broker_id: int) -> int:
            return self.broker(broker_id).profile.release.record_magic

        return SchemasTopic(self.state, lambda: self.now_ms, magic_of)

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every broker; nothing runs when it raises.

        Raises NetworkError when a port is taken, ConfigError when another cluster runs on the data
        directory, DataLossError when what lies there is damaged.
        """
        if self._brokers.is_open:
            return
        if self._directory is not None:
            self._lock = DirectoryLock(self._directory)  # before anything is read
        try:
            await self._brokers.open(self._make_shared(self._make_state()))
            every_ms = self.settings.log_retention_check_interval_ms
            self._repeat("retention", every_ms, self.apply_retention)
            every_ms = self.settings.offsets_retention_check_interval_ms
            self._repeat("offsets", every_ms, self.groups.expire_offsets)
            if self._registry is not None:
                await self._registry.start()
        except BaseException:
            await self.close()
            raise

    def _make_shared(self, state: ClusterState) -> Shared:
        now_ms = time_of_day(self._clock, self.settings.start_time_ms)
        parts: list[Timed] = [
            state.group_coordinator,
            state.transactions,
            state.classic_groups,
            state.consumer_groups,
            state.share_groups,
        ]
        cleaner = LogCleaner(state, self.settings.log_cleaner_backoff_ms, now_ms())
        parts.append(cleaner)
        self._timers = timers = Timers(parts, self._clock, now_ms)
        timers.arm()
        shared = Shared(
            state,
            self._clock,
            now_ms,
            self._waiting_faults,
            self._requests,
            self._listeners,
            timers,
            cleaner,
        )
        shared.backend, shared.rng = self._backend, self._session_rng
        return shared

    def _make_state(self) -> ClusterState:
        return ClusterState(
            cluster_id=format_uuid(self._random_bytes(16)),
            new_topic_id=self._new_topic_id,
            check_crc=crc_is_right,
            directory=self._directory,
            settings=self.settings,
        )

    async def close(self) -> None:
        """Stop every broker in order; a data directory then has everything. Idempotent."""
        self._planned.call_off()
        if self._timers is not None:
            self._timers.cancel()
        try:
            if self._registry is not None:
                await self._registry.stop()
            await self._brokers.close()
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def _repeat(self, what: str, every_ms: int, work: Callable[[], object]) -> None:
        def again() -> None:
            work()
            self._repeat(what, every_ms, work)

        self._planned.plan(what, every_ms, again)

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
        return self._brokers.state

    @property
    def now_ms(self) -> int:
        """The cluster's time of day. Raises ConfigError when it has never run."""
        return self._brokers.now_ms

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…` of the brokers that run, on the first listener."""
        return self.bootstrap()

    def bootstrap(self, listener: str | None = None) -> str:
        """Return `host:port,…` of the brokers that run, on a listener; ConfigError without it."""
        self._listeners.of(listener)
        name = self._listeners.first if listener is None else listener
        return ",".join(str(broker.addresses[name]) for broker in self._brokers if broker.running)

    @property
    def listeners(self) -> Mapping[str, Security]:
        """The listeners by name, in order; the first is the one of `bootstrap_servers`."""
        return {name: self._listeners.of(name).security for name in self._listeners}

    @property
    def ca_pem(self) -> str:
        """The certificate for clients of TLS listeners to trust. Raises ConfigError without one."""
        return self._listeners.trusted().ca_pem

    def client_certificate(self, name: str) -> Certificate:
        """Return a client's certificate for mutual TLS. Raises ConfigError without a CA."""
        return self._listeners.trusted().client_certificate(name)

    def client_properties(
        self, user: str | None = None, mechanism: str | None = None, *, listener: str | None = None
    ) -> dict[str, str]:
        """Return how a client connects, by client.properties' names; a password is among them.

        Without `user` the first one logs in, without `mechanism` by the strongest that every broker
        offers, without `listener` at the first one.
        """
        releases = [broker.profile.release for broker in self._brokers]
        found = self._listeners.of(listener).client_properties(user, mechanism, releases)
        return {"bootstrap.servers": self.bootstrap(listener), **found}

    @property
    def has_schema_registry(self) -> bool:
        """Whether it was made with one."""
        return self._registry is not None

    @property
    def schema_registry(self) -> AsyncSchemaRegistry:
        """The schema registry. Raises ConfigError for a cluster that has none."""
        if self._registry is None:
            raise ConfigError("the cluster has no schema registry; give schema_registry=True")
        return self._registry

    @property
    def cluster_id(self) -> str:
        """The id that Metadata gives."""
        return self.state.image.cluster_id

    @property
    def brokers(self) -> Sequence[Broker]:
        """Every broker, running or not, by id."""
        return list(self._brokers)

    def broker(self, broker_id: int) -> Broker:
        """Return a broker. Raises ConfigError when there is none of that id."""
        return self._brokers.find(broker_id)

    def status(self) -> list[BrokerStatus]:
        """Return each broker's release and address, whether it runs, and what was done to it."""
        links = self.state.replication.links
        return [
            BrokerStatus(
                one.id,
                one.release,
                str(one.address),
                one.running,
                one.id in links.isolated,
                one.id in links.stale,
                links.is_slow(one.id),
            )
            for one in self._brokers
        ]

    async def start_broker(self, broker_id: int, release: str | None = None) -> None:
        """Start a stopped or killed broker at its old port, as another release if one is named."""
        await self._brokers.start(broker_id, release)

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker in order: its leaders move first, then its connections end."""
        await self._brokers.stop(broker_id)

    async def kill_broker(self, broker_id: int) -> None:
        """Kill a broker: its connections are reset, only then do the others elect leaders."""
        await self._brokers.kill(broker_id)

    kill = kill_broker

    async def advance(self, duration_ms: int) -> None:
        """Move the cluster's clock on at once: what falls due meanwhile happens (sessions, idle
        connections).

        Raises ConfigError for a negative duration, and for a clock of your own that cannot be
        moved.
        """
        if not 0 <= duration_ms <= MOST_MS:
            raise ConfigError(
                f"a clock cannot move by {duration_ms} ms; give 0 or more, at most {MOST_MS} "
                "(100 years)"
            )
        if not isinstance(self._clock, AdvancingClock | ManualClock):
            raise ConfigError(
                "the cluster's own clock can be moved, this one was given; move it where you "
                "made it"
            )
        await self._clock.advance(duration_ms)

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

    def add_partitions(self, topic: str, total: int, *, unaware: Sequence[int] = ()) -> None:
        """Give a topic more partitions, up to `total`; brokers in `unaware` hear of it at
        `release_metadata`.

        Raises ConfigError when the topic is unknown or has as many.
        """
        known = self._image(topic).partitions
        if total <= len(known):
            raise ConfigError(
                f"{topic} has {len(known)} partitions already, {total} are no more; give a "
                "larger total"
            )
        for broker_id in self._brokers.all_running("unaware", unaware):
            self.scenes.hold_metadata(broker_id)
        factor = len(known[0].replicas)
        with refusals():
            assignment = self.state.controller.spread(total - len(known), factor)
            self.state.add_partitions(topic, assignment, now_ms=self.now_ms)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Delete the records below an offset (-1: the high watermark), and return where the log
        begins now.

        Raises ConfigError when the partition has no leader, or no such offset.
        """
        image = self.state.image.topics.get(topic)
        key = None if image is None else ReplicaKey(image.topic_id, partition)
        leader = None if key is None else self.state.replication.leader_of(key)
        if leader is None:
            raise ConfigError(
                f"{topic}-{partition} does not exist or has no leader; see leaders({topic!r})"
            )
        with refusals():
            return self.state.delete_records(
                leader, leader.high_watermark if before_offset < 0 else before_offset
            )

    def apply_retention(self) -> dict[str, dict[int, int]]:
        """Delete what retention.ms and retention.bytes of the topics no longer keep; return the
        logs' new starts.

        Comes by itself every log.retention.check.interval.ms of the cluster's clock. Where a topic
        sets neither, and nobody altered log.retention.ms or log.retention.bytes of its leader or of
        all brokers, nothing is lost; else only whole segments are.
        """
        return apply_retention(self.state, now_ms=self.now_ms)

    def compact(self, topic: str, *, roll: bool = True) -> dict[int, int]:
        """Compact a topic now, as the log cleaner does; return how many records went, by partition.

        How dirty the logs are does not count here; min.compaction.lag.ms and delete.retention.ms
        do, by the cluster's clock. The cleaner never touches the segment that is written to: with
        `roll` another one is begun first. It comes by itself every log.cleaner.backoff.ms. Raises
        ConfigError for a topic that does not exist or is not compacted.
        """
        with refusals():
            return self._brokers.cleaner.compact(topic, now_ms=self.now_ms, roll=roll)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make broker `to` the leader, epoch + 1; without a replica it takes the leader's place.

        Raises ConfigError when `to` does not run or its replica is not in sync.
        """
        with refusals():
            self.state.move_leader(topic, partition, to, now_ms=self.now_ms)

    def leaders(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return leader (-1: none) and leader epoch by partition.

        Raises ConfigError for an unknown topic.
        """
        partitions = self._image(topic).partitions
        return {index: (one.leader, one.leader_epoch) for index, one in enumerate(partitions)}

    def isr(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Return the in-sync replicas by partition.

        Raises ConfigError for an unknown topic.
        """
        return {index: one.isr for index, one in enumerate(self._image(topic).partitions)}

    def _image(self, topic: str) -> TopicImage:
        found = self.state.image.topics.get(topic)
        if found is None:
            raise ConfigError(f'there is no topic "{topic}"; create it first')
        return found

    # -- transactions --------------------------------------------------------------------------

    def transactions(self) -> dict[str, Transaction]:
        """Return what coordinators know of each transactional id: state, producer, partitions."""
        return {held.transactional_id: held for held in self.state.transactions}

    def move_coordinator(self, transactional_id: str, to: int) -> None:
        """Let broker `to` coordinate a transactional id while it runs. Raises
        ConfigError when it does not.
        """
        self._brokers.running(to)
        self.state.move_transaction_coordinator(transactional_id, to, now_ms=self.now_ms)

    def move_group_coordinator(self, group: str, to: int) -> None:
        """Let broker `to` coordinate a group, and all of its partition of `__consumer_offsets`;
        their members go on there (H19).

        Raises ConfigError when the broker does not run, or its replica is not in sync.
        """
        self._brokers.running(to)
        with refusals():
            self.state.move_group_coordinator(group, to, now_ms=self.now_ms)

    # -- what clients did, and what became of it ----------------------------------------------

    def requests(
        self,
        api: str | int | None = None,
        broker: int | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
    ) -> list[JournalEntry]:
        """Return the last requests (10,000 are kept), oldest first, of one API, broker,
        client or topic if named.
        """
        found = self._requests.select(api, broker, client_id)
        names = self.state.image.names
        return found if topic is None else [entry for entry in found if topic in entry.asked(names)]

    def clear_requests(self) -> None:
        """Forget the requests kept so far."""
        self._requests.clear()

    def versions_used(self) -> VersionsUsed:
        """Return the versions that clients used: broker id → client id → API → versions."""
        return self._requests.versions_used()

    def check_replicas(self) -> Agreement:
        """Compare all replicas and what was acknowledged; return the account, whatever it says."""
        return check_agreement(self.state)

    def replicas_agree(self) -> Agreement:
        """Return the account of `check_replicas`. Raises DataLossError, which has it, when they do
        not agree.

        In-sync replicas have equal bytes and leader epochs, no high watermark is above its log's
        end, and every record that acks=all was answered for is there, but for those that an unclean
        election named.
        """
        found = check_agreement(self.state)
        if not found.agrees:
            raise DataLossError(f"the replicas do not agree: {found}")
        return found
