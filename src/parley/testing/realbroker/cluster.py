"""RealCluster: real Apache Kafka brokers of any release, or of several, on loopback."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from parley.errors import ConfigError, nearest_hint
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.node import RealNode
from parley.testing.realbroker.ports import PortPool
from parley.testing.realbroker.process import JavaProcess, StartError, temporary_folder
from parley.testing.realbroker.properties import (
    HOST,
    NodeFacts,
    new_cluster_id,
    node_properties,
    properties_text,
)
from parley.testing.realbroker.releases import (
    broker_artifacts,
    full_release,
    tools_artifacts,
    uses_kraft,
    version_tuple,
)
from parley.testing.realbroker.storage import format_storage, is_formatted
from parley.testing.realbroker.zookeeper import ZooKeeper

START_SECONDS = 300
"""A process that ends is noticed at once; this is for one that hangs, on a machine however busy."""
FORGET_SECONDS = 30  # several sessions of ZooKeeper; then the broker starts anyway
ANSWER_SECONDS = 60  # a broker that runs and does not answer for so long counts as lost
_STILL_REGISTERED = re.compile("already registered|NodeExists")

CONTROLLER_ID = 1000
"""Node id of the KRaft controller where it is a node of its own."""


class RealCluster:
    """Real Kafka brokers from Maven artifacts, on loopback, as a context manager.

    `releases` gives single brokers (ids from 1) another release than `release`; what the brokers
    say to each other is then held at the level of the oldest. Releases before 3.3 use ZooKeeper,
    later ones KRaft, and the two cannot be mixed. In KRaft broker 1 is the controller too, unless
    `separate_controller` makes that a node of its own, so that every broker can be stopped.

    Every broker has a PLAINTEXT listener; `extra_listeners` adds SSL, SASL_PLAINTEXT or SASL_SSL
    ones, set up by `properties`. Data is kept only in a given `data_dir`. `quick_start=False` runs
    Java as in production, for benchmarks. A record of any date stays (`log.retention.ms=-1`): only
    a topic that sets `retention.ms` or `retention.bytes` loses records by it.

    Raises ConfigError for what cannot be started, ArtifactError when Maven fails, and StartError,
    with the end of the log, when a process does not come up.
    """

    def __init__(
        self,
        release: str = "3.9.1",
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        releases: Mapping[int, str] | None = None,
        data_dir: str | Path | None = None,
        extra_listeners: Sequence[str] = (),
        jvm_options: Sequence[str] = (),
        separate_controller: bool = False,
        quick_start: bool = True,
    ) -> None:
        ids = range(1, brokers + 1)
        for unknown in set(releases or {}) - set(ids):
            raise ConfigError(
                f"releases names broker {unknown}, but the brokers are 1 to {brokers}"
            )
        self.releases = {i: full_release((releases or {}).get(i, release)) for i in ids}
        if len({uses_kraft(r) for r in self.releases.values()}) != 1:
            raise ConfigError(
                f"{sorted(set(self.releases.values()))} cannot be one cluster: releases before 3.3 "
                "are started with ZooKeeper, later ones with KRaft. Choose releases of one kind."
            )
        self.kraft = uses_kraft(self.releases[1])
        self._oldest = min(self.releases.values(), key=version_tuple)
        self._newest = max(self.releases.values(), key=version_tuple)
        self._properties = dict(properties or {})
        self._listeners = ("PLAINTEXT", *extra_listeners)
        self._jvm_options = tuple(jvm_options)
        self._separate_controller = separate_controller and self.kraft
        self._quick_start = quick_start
        self._kept = Path(data_dir).resolve() if data_dir is not None else None
        self._directory: Path | None = None
        self._pool: PortPool | None = None
        self._zookeeper: ZooKeeper | None = None
        self._cluster_id = new_cluster_id()
        self.nodes: dict[int, RealNode] = {}

    # ── life ────────────────────────────────────────────────────────────────

    def start(self) -> RealCluster:
        """Start all; return when every broker lists every one; StartError leaves none running."""
        if self._directory is not None:
            raise ConfigError("this cluster is running already")
        for release in dict.fromkeys(self.releases.values()):
            class_path(broker_artifacts(release))  # a download must not count as start time
        self._directory = self._kept or temporary_folder()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._pool = PortPool()
        try:
            if not self.kraft:
                self._start_zookeeper()
            self._make_nodes()
            for node in self._starting_order():
                self._launch(node)
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop everything; temporary data is removed. Kept data gets a clean shutdown
        first. May be called twice.
        """
        for node in reversed(self._starting_order()):
            if node.process is not None:
                node.process.stop() if self._kept else node.process.kill()
        if self._zookeeper is not None:
            self._zookeeper.end(in_order=self._kept is not None)
            self._zookeeper = None
        if self._pool is not None:
            self._pool.release()
            self._pool = None
        if self._directory is not None and self._kept is None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None
        self.nodes = {}

    def __enter__(self) -> RealCluster:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ── addresses ───────────────────────────────────────────────────────────

    @property
    def bootstrap_servers(self) -> str:
        """The PLAINTEXT addresses of all brokers, stopped ones too, as clients take them."""
        return self.bootstrap("PLAINTEXT")

    def bootstrap(self, listener: str) -> str:
        """The addresses of all brokers at one of the listeners."""
        if listener not in self._listeners:
            raise ConfigError(
                f'there is no listener "{listener}".{nearest_hint(listener, self._listeners)}'
            )
        return ",".join(f"{HOST}:{node.ports[listener]}" for node in self._brokers())

    @property
    def zookeeper_address(self) -> str:
        """`host:port` of ZooKeeper, which the tools of old releases ask for."""
        return f"{HOST}:{self._zookeeper_port}"

    @property
    def _zookeeper_port(self) -> int:
        return 0 if self._zookeeper is None else self._zookeeper.port

    def broker(self, broker_id: int) -> RealNode:
        """Return a node by its id; ConfigError when there is none."""
        if broker_id not in self.nodes:
            raise ConfigError(f"there is no broker {broker_id}; the nodes are {sorted(self.nodes)}")
        return self.nodes[broker_id]

    def alive(self, *, ask: bool = False) -> bool:
        """Return whether every process runs and, if you `ask`, whether the brokers answer."""
        if not self.nodes or not all(node.running for node in self.nodes.values()):
            return False
        if not self.kraft and (self._zookeeper is None or not self._zookeeper.running):
            return False
        try:
            if ask:
                self.wait_ready(ANSWER_SECONDS)
        except StartError:
            return False
        return True

    def logs(self) -> str:
        """Return the end of every node's log, for a failing test's report."""
        parts = [
            f"── node {n.id} ({n.release})\n{n.process.log_tail()}"
            for n in self.nodes.values()
            if n.process
        ]
        if self._zookeeper is not None:
            parts.append(f"── ZooKeeper\n{self._zookeeper.log_tail()}")
        return "\n".join(parts)

    # ── single brokers ──────────────────────────────────────────────────────

    def stop_broker(self, broker_id: int) -> None:
        """Shut a broker down in order; its data and its port stay."""
        self._process(broker_id).stop()

    def kill(self, broker_id: int) -> None:
        """End a broker at once (SIGKILL): a crash."""
        self._process(broker_id).kill()

    def pause(self, broker_id: int) -> None:
        """Freeze a broker (SIGSTOP): its connections stay open and silent."""
        self._process(broker_id).freeze()

    def resume(self, broker_id: int) -> None:
        """Let a frozen broker go on."""
        self._process(broker_id).signal(signal.SIGCONT)

    def start_broker(
        self, broker_id: int, release: str | None = None, *, wait: bool = True
    ) -> None:
        """Start a stopped broker on its old data and port, as another release if one is
        given (rolling upgrade).
        """
        node = self.broker(broker_id)
        if node.running:
            raise ConfigError(f"broker {broker_id} is running already; stop it first")
        if release is not None:
            wanted = full_release(release)
            if uses_kraft(wanted) != self.kraft:
                raise ConfigError(
                    f"broker {broker_id} cannot become {wanted}: ZooKeeper and KRaft cannot "
                    "be mixed"
                )
            node.release = self.releases[broker_id] = wanted
        self._wait_forgotten(node)
        self._launch(node)
        if wait:
            self._wait_registered(node)
            self.wait_ready()

    def _wait_forgotten(self, node: RealNode) -> None:
        """Wait, within bounds, until ZooKeeper and the others know that a broker is gone.

        Controllers before 2.2 compare which ids are there (KIP-380 is later): one that comes back
        before they look was never away to them, and it never learns of the others.
        """
        if self.kraft:
            return
        others = [other for other in self._brokers() if other.running and other is not node]
        deadline = time.monotonic() + FORGET_SECONDS
        while time.monotonic() < deadline and any(node.id in other.listed(1.0) for other in others):
            time.sleep(0.05)

    def _wait_registered(self, node: RealNode) -> None:
        """Wait for a restarted broker, again and again while ZooKeeper still has its
        crashed predecessor's session.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert node.process is not None
            try:
                return node.wait_listed({node.id}, START_SECONDS)
            except StartError as error:
                if (
                    self.kraft
                    or time.monotonic() > deadline
                    or not _STILL_REGISTERED.search(str(error))
                ):
                    raise
            self._launch(node)

    def wait_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        """Wait until every running broker answers and lists every running broker."""
        running = [node for node in self._brokers() if node.running]
        expected = {node.id for node in running}
        for node in running:
            node.wait_listed(expected, timeout_seconds)

    # ── Java on the brokers' class path ─────────────────────────────────────

    def run_java(
        self,
        main: Sequence[str],
        *,
        release: str | None = None,
        stdin: str | None = None,
        timeout_seconds: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a Java program (main class and arguments) on a release's class path, its
        command-line tools included.
        """
        chosen = full_release(release) if release is not None else self._newest
        path = class_path((*broker_artifacts(chosen), *tools_artifacts(chosen)))
        command = java_command(path, main, heap_mb=256, log4j_file=self._log4j_file())
        return subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )

    # ── inside ──────────────────────────────────────────────────────────────

    def _brokers(self) -> list[RealNode]:
        return [node for node in self.nodes.values() if "broker" in node.roles]

    def _starting_order(self) -> list[RealNode]:
        """Return the nodes, a controller of its own first."""
        return sorted(self.nodes.values(), key=lambda node: ("broker" in node.roles, node.id))

    def _process(self, broker_id: int) -> JavaProcess:
        process = self.broker(broker_id).process
        if process is None:
            raise ConfigError(f"broker {broker_id} was not started")
        return process

    def _log4j_file(self) -> Path:
        if self._directory is None:
            raise ConfigError("the cluster is not running; start it first")
        return self._directory / "log4j.properties"

    def _make_nodes(self) -> None:
        assert self._directory is not None
        assert self._pool is not None
        for node_id, release in self.releases.items():
            ports = {name: self._pool.take() for name in self._listeners}
            roles: tuple[str, ...] = ("broker",)
            if self.kraft and node_id == 1 and not self._separate_controller:
                roles = ("broker", "controller")
                ports["CONTROLLER"] = self._pool.take()
            self.nodes[node_id] = RealNode(
                node_id, release, self._directory / f"node-{node_id}", ports, roles
            )
        if self._separate_controller:
            self.nodes[CONTROLLER_ID] = RealNode(
                CONTROLLER_ID, self._newest, self._directory / "controller",
                {"CONTROLLER": self._pool.take()},
                ("controller",),
            )  # fmt: skip

    def _launch(self, node: RealNode) -> None:
        """Write a node's properties, format its storage if it is new, and start its process."""
        node.directory.mkdir(parents=True, exist_ok=True)
        controller = next((n for n in self.nodes.values() if "controller" in n.roles), None)
        facts = NodeFacts(
            id=node.id,
            release=node.release,
            directory=node.directory,
            ports=node.ports,
            roles=node.roles,
            oldest_release=self._oldest,
            mixed=self._mixed,
            controller=(controller.id, controller.ports["CONTROLLER"]) if controller else (0, 0),
            zookeeper_port=self._zookeeper_port,
            extra=self._properties,
        )
        path = node.directory / "server.properties"
        path.write_text(properties_text(node_properties(facts)))
        if self.kraft and not is_formatted(node):
            level = self._oldest if self._mixed else None
            format_storage(node, path, self._cluster_id, level, START_SECONDS)
        node.process = self._java(node, ["kafka.Kafka", str(path)])

    @property
    def _mixed(self) -> bool:
        return (
            len(set(self.releases.values())) > 1
            or next(iter(self.releases.values())) != self._oldest
        )

    def _java(self, node: RealNode, main: Sequence[str]) -> JavaProcess:
        command = java_command(
            class_path(broker_artifacts(node.release)),
            main,
            options=self._jvm_options,
            quick_start=self._quick_start,
            log4j_file=self._log4j_file(),
        )
        return JavaProcess(f"Kafka {node.release} node {node.id}", command, node.log_path)

    def _start_zookeeper(self) -> None:
        assert self._directory is not None
        assert self._pool is not None
        directory = self._directory / "zookeeper"
        self._zookeeper = ZooKeeper(directory, self._pool.take(), self._newest, self._log4j_file())
        self._zookeeper.start(START_SECONDS)
