"""The Java client's transactions at the embedded cluster,
of each release at its own profile and at others.

The newest client speaks the second generation (KIP-890) where the cluster's finalized features
allow it; no other client does yet, so that this is its proof besides the real brokers' answers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.devcluster import LocalCluster
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.releases import broker_artifacts, tools_artifacts

from ..support import GENEROUS_S

JAVA = Path(__file__).parents[2] / "tools" / "java" / "GoldenRecords.java"
TOPIC, NAME = "events", "java-tx"
ENDS = ("commit", "abort", "commit", "commit", "abort", "commit")
COMMITTED = [b"%d" % number for number, end in enumerate(ENDS) if end == "commit"]
Java = Callable[..., str]


@pytest.fixture
def java(tmp_path: Path) -> Java:
    """A function that runs the Java client of a release; no real broker is needed."""

    def run(client: str, arguments: list[str], lines: list[str] | None = None) -> str:
        path = class_path((*broker_artifacts(client), *tools_artifacts(client)))
        command = java_command(
            path, [str(JAVA), *arguments], heap_mb=256, log4j_file=tmp_path / "log4j.properties"
        )
        stdin = None if lines is None else "\n".join(lines) + "\n"
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=2 * GENEROUS_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def plan() -> list[str]:
    """Return the lines of a producer that ends a transaction of two records for each of ENDS."""
    lines = [f"open\ttransactional.id={NAME}\tmax.block.ms=60000"]
    for number, end in enumerate(ENDS):
        lines.append("begin")
        lines += [
            "\t".join(["send", TOPIC, "0", "1700000000000", "-", (b"%d" % number).hex(), ""])
        ] * 2
        lines.append(end)
    return lines


def values(printed: str) -> list[bytes]:
    return [bytes.fromhex(line.split("\t")[5]) for line in printed.splitlines()]


@pytest.mark.parametrize(
    ("client", "release", "second"),
    [
        ("0.11.0.3", "0.11.0.3", False), ("2.4.1", "3.9.1", False), ("3.9.1", "4.3.0", False),
        ("4.3.0", "2.4.1", False), ("4.3.0", "4.3.0", True),
    ],
)  # fmt: skip
def test_java_reads_what_java_committed(
    java: Java, client: str, release: str, second: bool
) -> None:
    """Two lives of one producer, each ending some transactions one way and some the other."""
    with LocalCluster(brokers=3, release=release) as cluster:
        cluster.create_topic(TOPIC, 1)
        java(client, ["produce", cluster.bootstrap_servers], plan() + plan())
        held = cluster.transactions()[NAME]
        assert (held.state.value, held.second_generation) == ("CompleteCommit", second)
        assert held.epoch == (2 * len(ENDS) + 1 if second else 1), (
            "the second generation raises it with each end"
        )
        wanted = f"{TOPIC}={4 * len(COMMITTED)}"
        read = java(client, ["consume", cluster.bootstrap_servers, "read_committed", wanted])
        assert values(read) == [value for value in COMMITTED for _ in range(2)] * 2


def test_java_bears_what_a_busy_broker_says(java: Java) -> None:
    """It asks again: coordinators that move, concurrent transactions, answers that are lost."""
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic(TOPIC, 1)
        for api in ("InitProducerId", "EndTxn"):
            cluster.faults.fail(api, "CONCURRENT_TRANSACTIONS", times=2)
            cluster.faults.fail(api, "NOT_COORDINATOR", times=1)
            cluster.faults.cut(api, times=1, executed=True)
        java("4.3.0", ["produce", cluster.bootstrap_servers], plan())
        wanted = f"{TOPIC}={2 * len(COMMITTED)}"
        read = java("4.3.0", ["consume", cluster.bootstrap_servers, "read_committed", wanted])
        assert values(read) == [value for value in COMMITTED for _ in range(2)]
