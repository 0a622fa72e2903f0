"""The blocking wrapper of the embedded cluster: one event loop in one thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import ParamSpec, TypeVar

from parley.devcluster.broker import Broker
from parley.devcluster.cluster import DEFAULT_BROKERS, DEFAULT_RELEASE, AsyncLocalCluster
from parley.devcluster.faults.calls import AsyncFaults
from parley.devcluster.group_calls import AsyncGroups
from parley.devcluster.registry.server import AsyncSchemaRegistry, RegistryListener
from parley.devcluster.scenes import AsyncScenes
from parley.devcluster.security.certificates import Certificate
from parley.devcluster.security.security import Security
from parley.devcluster.state.settings import ClusterSettings
from parley.errors import ConfigError
from parley.net.blocking import Work, blocking, in_loop

T = TypeVar("T")
P = ParamSpec("P")


class LoopThread:
    """An event loop in a thread of its own, which can be started again after its end."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start it; it has ended, or was never started."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="parley-cluster", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """End it. Idempotent."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def run(self, work: Work[T]) -> T:
        """Run a coroutine and return what it returns. Raises ConfigError where nothing runs it."""
        if self._loop is None:
            work.close()
            raise ConfigError("the cluster does not run; call start() first")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class LocalCluster:
    """`AsyncLocalCluster` for blocking code: the same arguments and methods, from any thread.

    >>> with LocalCluster(brokers=1, release="3.9") as cluster:
    ...     cluster.create_topic("events", partitions=2)
    ...     sorted(cluster.leaders("events"))
    [0, 1]
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
        seed: int | None = None,
        security: Security | None = None,
        listeners: Mapping[str, Security] | None = None,
        schema_registry: bool | Security | RegistryListener = False,
    ) -> None:
        self._cluster: AsyncLocalCluster = AsyncLocalCluster(
            brokers, release, releases=releases, data_dir=data_dir, port=port, settings=settings,
            seed=seed, security=security, listeners=listeners, schema_registry=schema_registry,
        )  # fmt: skip
        self._thread = LoopThread()
        self.faults = Faults(self._cluster.faults, self._thread)
        """What goes wrong with requests: errors, lost connections, late answers."""
        self.scenes = Scenes(self._cluster.scenes, self._thread)
        """What is done to the brokers: cut off, held back, elected though not in sync."""
        self.groups = Groups(self._cluster.groups, self._thread)
        """What is done to consumer groups: members expired, old offsets dropped."""

    def __repr__(self) -> str:
        _, _, shown = repr(self._cluster).partition("(")
        return f"{type(self).__name__}({shown}"

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> LocalCluster:
        """Start every broker; return the cluster.

        Raises NetworkError when a port is taken, ConfigError when another cluster runs on the data
        directory.
        """
        if not self._thread.is_alive():
            self._thread.start()
            try:
                self._run(self._cluster.start())
            except BaseException:
                self._thread.end()
                raise
        return self

    def close(self) -> None:
        """Stop every broker in order and end the thread. Idempotent."""
        if self._thread.is_alive():
            try:
                self._run(self._cluster.close())
            finally:
                self._thread.end()

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _async(self) -> AsyncLocalCluster:
        return self._cluster

    def _run(self, work: Work[T]) -> T:
        return self._thread.run(work)

    def _call(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Call in the loop's thread: the state is only ever touched there."""

        async def call() -> T:
            return function(*arguments, **keywords)

        return self._run(call())

    # -- brokers -------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…` of the brokers that run."""
        return self._cluster.bootstrap_servers

    @property
    def ca_pem(self) -> str:
        """The certificate for clients of TLS listeners to trust. Raises ConfigError without one."""
        return self._cluster.ca_pem

    def client_certificate(self, name: str) -> Certificate:
        """Return a client's certificate for mutual TLS. Raises ConfigError without a CA."""
        return self._cluster.client_certificate(name)

    def bootstrap(self, listener: str | None = None) -> str:
        """Return `host:port,…` of the brokers that run, on a listener; ConfigError without it."""
        return self._cluster.bootstrap(listener)

    @property
    def listeners(self) -> Mapping[str, Security]:
        """The listeners by name, in order; the first is the one of `bootstrap_servers`."""
        return self._cluster.listeners

    def client_properties(
        self, user: str | None = None, mechanism: str | None = None, *, listener: str | None = None
    ) -> dict[str, str]:
        """Return how a client connects, by client.properties' names; a password is among them."""
        return self._cluster.client_properties(user, mechanism, listener=listener)

    @property
    def schema_registry(self) -> SchemaRegistry:
        """The schema registry. Raises ConfigError for a cluster that has none."""
        return SchemaRegistry(self._cluster.schema_registry, self._thread)

    @property
    def cluster_id(self) -> str:
        """The id that Metadata gives."""
        return self._cluster.cluster_id

    @property
    def brokers(self) -> Sequence[BrokerHandle]:
        """Every broker, running or not, by id."""
        return [BrokerHandle(self, broker) for broker in self._cluster.brokers]

    def broker(self, broker_id: int) -> BrokerHandle:
        """Return a broker. Raises ConfigError when there is none of that id."""
        return BrokerHandle(self, self._cluster.broker(broker_id))

    start_broker = blocking(AsyncLocalCluster.start_broker)
    stop_broker = blocking(AsyncLocalCluster.stop_broker)
    kill_broker = blocking(AsyncLocalCluster.kill_broker)

    kill = kill_broker

    status = in_loop(AsyncLocalCluster.status)
    advance = blocking(AsyncLocalCluster.advance)

    # -- topics --------------------------------------------------------------------------------

    create_topic = in_loop(AsyncLocalCluster.create_topic)
    delete_topic = in_loop(AsyncLocalCluster.delete_topic)
    add_partitions = in_loop(AsyncLocalCluster.add_partitions)
    delete_records = in_loop(AsyncLocalCluster.delete_records)
    apply_retention = in_loop(AsyncLocalCluster.apply_retention)
    compact = in_loop(AsyncLocalCluster.compact)
    move_leader = in_loop(AsyncLocalCluster.move_leader)
    leaders = in_loop(AsyncLocalCluster.leaders)
    isr = in_loop(AsyncLocalCluster.isr)

    # -- transactions --------------------------------------------------------------------------

    transactions = in_loop(AsyncLocalCluster.transactions)
    move_coordinator = in_loop(AsyncLocalCluster.move_coordinator)
    move_group_coordinator = in_loop(AsyncLocalCluster.move_group_coordinator)

    # -- what clients did, and what became of it -----------------------------------------------

    requests = in_loop(AsyncLocalCluster.requests)
    clear_requests = in_loop(AsyncLocalCluster.clear_requests)
    versions_used = in_loop(AsyncLocalCluster.versions_used)
    check_replicas = in_loop(AsyncLocalCluster.check_replicas)
    replicas_agree = in_loop(AsyncLocalCluster.replicas_agree)


class Faults:
    """The faults of one cluster: `LocalCluster.faults`, as `AsyncFaults` has them."""

    def __init__(self, faults: AsyncFaults, thread: LoopThread) -> None:
        self._faults = faults
        self._run = thread.run

    def _async(self) -> AsyncFaults:
        return self._faults

    fail = in_loop(AsyncFaults.fail)
    cut = in_loop(AsyncFaults.cut)
    delay = in_loop(AsyncFaults.delay)
    drop = in_loop(AsyncFaults.drop)
    reorder = in_loop(AsyncFaults.reorder)
    corrupt = in_loop(AsyncFaults.corrupt)
    clear = in_loop(AsyncFaults.clear)
    seed = in_loop(AsyncFaults.seed)


class Scenes:
    """The scenes of one cluster: `LocalCluster.scenes`, as `AsyncScenes` has them."""

    def __init__(self, scenes: AsyncScenes, thread: LoopThread) -> None:
        self._scenes = scenes
        self._run = thread.run

    def _async(self) -> AsyncScenes:
        return self._scenes

    isolate = blocking(AsyncScenes.isolate)
    freeze = blocking(AsyncScenes.freeze)
    heal = blocking(AsyncScenes.heal)
    thaw = blocking(AsyncScenes.thaw)
    hold_metadata = in_loop(AsyncScenes.hold_metadata)
    release_metadata = in_loop(AsyncScenes.release_metadata)
    hold_loading = in_loop(AsyncScenes.hold_loading)
    release_loading = in_loop(AsyncScenes.release_loading)
    lag = in_loop(AsyncScenes.lag)
    catch_up = in_loop(AsyncScenes.catch_up)
    shrink_isr = in_loop(AsyncScenes.shrink_isr)
    elect_preferred = in_loop(AsyncScenes.elect_preferred)
    elect_unclean = in_loop(AsyncScenes.elect_unclean)
    recreate_topic = in_loop(AsyncScenes.recreate_topic)


class Groups:
    """The groups of one cluster: `LocalCluster.groups`, as `AsyncGroups` has them."""

    def __init__(self, groups: AsyncGroups, thread: LoopThread) -> None:
        self._groups = groups
        self._run = thread.run

    def _async(self) -> AsyncGroups:
        return self._groups

    expire_member = in_loop(AsyncGroups.expire_member)
    expire_offsets = in_loop(AsyncGroups.expire_offsets)


class SchemaRegistry:
    """The schema registry of one cluster: `LocalCluster.schema_registry`."""

    def __init__(self, registry: AsyncSchemaRegistry, thread: LoopThread) -> None:
        self._registry = registry
        self._run = thread.run

    def _async(self) -> AsyncSchemaRegistry:
        return self._registry

    @property
    def url(self) -> str:
        """Where it is. The port is there once it has run."""
        return self._registry.url

    @property
    def running(self) -> bool:
        """Whether it answers."""
        return self._registry.running

    start = blocking(AsyncSchemaRegistry.start)
    stop = blocking(AsyncSchemaRegistry.stop)
    client_config = in_loop(AsyncSchemaRegistry.client_config)
    requests = in_loop(AsyncSchemaRegistry.requests)
    clear_requests = in_loop(AsyncSchemaRegistry.clear_requests)
    fail = in_loop(AsyncSchemaRegistry.fail)


class BrokerHandle:
    """One broker as blocking code sees it."""

    def __init__(self, cluster: LocalCluster, broker: Broker) -> None:
        self._cluster = cluster
        self._broker = broker

    def __repr__(self) -> str:
        return repr(self._broker)

    @property
    def id(self) -> int:
        """Its id, from 1 on."""
        return self._broker.id

    @property
    def release(self) -> str:
        """The release it speaks as."""
        return self._broker.release

    @property
    def address(self) -> str:
        """`host:port`."""
        return str(self._broker.address)

    @property
    def running(self) -> bool:
        """Whether it accepts connections."""
        return self._broker.running

    def start(self, release: str | None = None) -> None:
        """Start it, as another release if one is named."""
        self._cluster.start_broker(self.id, release)

    def stop(self) -> None:
        """Stop it in order."""
        self._cluster.stop_broker(self.id)

    def kill(self) -> None:
        """Kill it."""
        self._cluster.kill_broker(self.id)
