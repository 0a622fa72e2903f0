"""The ZooKeeper that brokers before KRaft need: one process, of the newest release's class path."""

from __future__ import annotations

from pathlib import Path

from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.probe import accepts_connections
from parley.testing.realbroker.process import JavaProcess
from parley.testing.realbroker.properties import HOST, properties_text, zookeeper_properties
from parley.testing.realbroker.releases import broker_artifacts


class ZooKeeper:
    """A ZooKeeper on loopback, in `directory`; `start` returns when it accepts connections."""

    def __init__(self, directory: Path, port: int, release: str, log4j_file: Path) -> None:
        self.port = port
        self._directory = directory
        self._release = release
        self._log4j_file = log4j_file
        self.process: JavaProcess | None = None

    def start(self, timeout_seconds: float) -> None:
        """Start it. Raises StartError, with the end of its log, when it does not come up."""
        self._directory.mkdir(exist_ok=True)
        path = self._directory / "zookeeper.properties"
        path.write_text(properties_text(zookeeper_properties(self._directory / "data", self.port)))
        command = java_command(
            class_path(broker_artifacts(self._release)),
            ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(path)],
            heap_mb=256,
            log4j_file=self._log4j_file,
        )
        self.process = JavaProcess("ZooKeeper", command, self._directory / "output.log")
        self.process.wait_until(
            lambda: accepts_connections(HOST, self.port), "it accepted connections", timeout_seconds
        )

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.running

    def end(self, *, in_order: bool) -> None:
        """End it, in order or at once. Nothing happens where it was never started."""
        if self.process is not None:
            self.process.stop() if in_order else self.process.kill()

    def log_tail(self) -> str:
        """Return the end of its log."""
        return "" if self.process is None else self.process.log_tail()
