"""One node of a real cluster: where it lives, and the process that it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parley.testing.realbroker.probe import listed_nodes
from parley.testing.realbroker.process import JavaProcess
from parley.testing.realbroker.properties import HOST


@dataclass
class RealNode:
    """One node of a RealCluster: a broker, a controller, or both (`roles`)."""

    id: int
    release: str
    directory: Path
    ports: dict[str, int]
    roles: tuple[str, ...]
    process: JavaProcess | None = None

    @property
    def running(self) -> bool:
        """Whether its process is there (a paused one is)."""
        return self.process is not None and self.process.running

    @property
    def address(self) -> str:
        """`host:port` of its PLAINTEXT listener."""
        return f"{HOST}:{self.ports['PLAINTEXT']}"

    @property
    def log_path(self) -> Path:
        """The file that holds what its process printed."""
        return self.directory / "output.log"

    def listed(self, timeout_seconds: float = 10.0) -> set[int]:
        """Ask this broker for the ids of the brokers it knows; none if it does not answer."""
        return set(listed_nodes(HOST, self.ports["PLAINTEXT"], timeout_seconds) or ())

    def wait_listed(self, expected: set[int], timeout_seconds: float) -> None:
        """Wait until this broker answers and lists the expected ones; StartError if it dies."""
        assert self.process is not None
        self.process.wait_until(
            lambda: expected <= self.listed(),
            f"it listed the brokers {sorted(expected)} at {self.address}",
            timeout_seconds,
        )
