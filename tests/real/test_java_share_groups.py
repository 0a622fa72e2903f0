"""Java's KafkaShareConsumer and `kafka-share-groups` on the embedded
cluster; no real broker runs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from parley import Client
from parley.devcluster import ClusterSettings, LocalCluster
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.releases import broker_artifacts, tools_artifacts
from parley_laboratory.shares import set_group

from ..support import GENEROUS_S

JAVA = Path(__file__).with_name("ShareReads.java")
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
GROUP, TOPIC = "workers", "jobs"
LOCK_MS = 20_000
"""Longer than any pause of a busy machine, shorter than a member's session: the tests that want
a lock to end move the cluster's clock.
"""
SETTINGS = ClusterSettings(
    group_share_heartbeat_interval_ms=200,
    group_share_assignment_interval_ms=100,
    group_share_record_lock_duration_ms=LOCK_MS,
)
Command = Callable[..., list[str]]
pytestmark = pytest.mark.matrix


@pytest.fixture
def command(tmp_path: Path) -> Command:
    path = class_path((*broker_artifacts("4.3.0"), *tools_artifacts("4.3.0")))

    def of(*arguments: str) -> list[str]:
        return java_command(
            path, list(arguments), heap_mb=256, log4j_file=tmp_path / "log4j.properties"
        )

    return of


class Worker:
    """A share consumer of Java: it gets its orders line by line, and says what it saw."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def heard(self, end: str = "done ") -> list[str]:
        """Return what it printed up to the end of the line it was sent."""
        assert self._process.stdout is not None
        found: list[str] = []
        for line in self._process.stdout:
            if line.startswith(end):
                return found
            found.append(line.strip())
        raise AssertionError(found)

    def do(self, line: str) -> list[str]:
        self.send(line)
        return self.heard()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.heard("closed")
        self._process.wait(GENEROUS_S)


@pytest.fixture
def work(command: Command, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    started: list[subprocess.Popen[str]] = []

    def start(cluster: LocalCluster, mode: str = "explicit", *more: str) -> Worker:
        settings = (f"share.acknowledgement.mode={mode}", *more)
        asked = command(str(JAVA), cluster.bootstrap_servers, GROUP, TOPIC, *settings)
        with (tmp_path / f"stderr-{len(started)}").open("w") as errors:
            process = subprocess.Popen(
                asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        started.append(process)
        return Worker(process)

    yield start
    for process in started:
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait(GENEROUS_S)


@contextmanager
def jobs(release: str, count: int, partitions: int = 1) -> Iterator[LocalCluster]:
    """A cluster with a topic of so many records, and a group that begins at the first."""
    with (
        LocalCluster(brokers=2, release=release, settings=SETTINGS) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC, partitions)
        set_group(cluster.broker(1).address, GROUP, {"share.auto.offset.reset": "earliest"})
        where = pa.array([at % partitions for at in range(count)], pa.int32())
        values = [b"%d" % at for at in range(count)]
        client.produce(TOPIC, pa.table({"value": values, "partition": where}))
        yield cluster


def records(printed: list[str]) -> list[tuple[int, int, int]]:
    return [
        (int(partition), int(offset), int(deliveries))
        for kind, partition, offset, deliveries in (
            line.split() for line in printed if line.startswith("record")
        )
        if kind
    ]


@pytest.mark.parametrize("release", ["4.3", "4.2"])
def test_accepted_released_rejected(release: str, work: Callable[..., Worker]) -> None:
    with jobs(release, 4) as cluster:
        worker = work(cluster)
        printed = worker.do("poll 4 accept release reject accept")
        assert records(printed) == [(0, at, 1) for at in range(4)]
        assert worker.do("commit") == ["committed 0 -"]
        assert records(worker.do("poll 1 accept")) == [(0, 1, 2)]
        assert worker.do("commit") == ["committed 0 -"]
        worker.stop()


def test_implicit_acknowledgement_accepts_with_the_next_poll(work: Callable[..., Worker]) -> None:
    with jobs("4.3", 3) as cluster:
        first = work(cluster, "implicit")
        assert records(first.do("poll 3 none")) == [(0, at, 1) for at in range(3)]
        first.do("commit")
        first.stop()
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce(TOPIC, pa.table({"value": [b"3"]}))
        second = work(cluster, "implicit")
        assert records(second.do("poll 1 none")) == [(0, 3, 1)]
        second.stop()


def test_a_lock_that_is_over_lets_another_member_have_the_record(
    work: Callable[..., Worker],
) -> None:
    with jobs("4.3", 2) as cluster:
        slow, other = work(cluster), work(cluster)
        assert records(slow.do("poll 2 none")) == [(0, 0, 1), (0, 1, 1)]
        cluster.advance(LOCK_MS)
        assert records(other.do("poll 2 none accept")) == [(0, 0, 2), (0, 1, 2)]
        assert other.do("commit") == ["committed 0 -"]
        slow.do("again accept")
        assert slow.do("commit") == ["committed 0 InvalidRecordStateException"]
        slow.stop()
        other.stop()


def test_a_renewed_lock_lasts(work: Callable[..., Worker]) -> None:
    """Java gives renewed records out again, as the same delivery; the pauses
    together are longer than the lock.
    """
    with jobs("4.3", 1) as cluster:
        worker = work(cluster)
        for action in ("renew", "renew", "accept"):
            assert records(worker.do(f"poll 1 {action}")) == [(0, 0, 1)]
            assert worker.do("commit") == ["committed 0 -"]
            cluster.advance(LOCK_MS * 2 // 3)
        worker.stop()


def test_two_members_share_one_partition(work: Callable[..., Worker]) -> None:
    with jobs("4.3", 40) as cluster:
        options = ("max.poll.records=5", "share.acquire.mode=record_limit")
        workers = [work(cluster, "explicit", *options) for _ in range(2)]
        for worker in workers:
            worker.send("poll 20 accept")
        heard = [records(worker.heard()) for worker in workers]
        offsets = sorted(offset for printed in heard for _, offset, _ in printed)
        assert offsets == list(range(40))
        assert all(heard)
        for worker in workers:
            worker.stop()


def test_the_tool_sees_members_and_offsets(command: Command, work: Callable[..., Worker]) -> None:
    with jobs("4.3", 6, partitions=2) as cluster:
        worker = work(cluster)
        assert len(records(worker.do("poll 6 accept"))) == 6
        worker.do("commit")
        assert [row[-1] for row in shown(command, cluster, "--list", "--state")] == ["Stable"]
        described = shown(command, cluster, "--describe", "--group", GROUP)
        assert sorted(row[:4] for row in described) == [
            [GROUP, TOPIC, "0", "3"], [GROUP, TOPIC, "1", "3"],
        ]  # fmt: skip
        (member,) = shown(command, cluster, "--describe", "--group", GROUP, "--members")
        assert f"{TOPIC}:0,1" in member
        worker.stop()
        reset = ["--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest"]
        assert {row[-1] for row in shown(command, cluster, *reset, "--execute")} == {"0"}
        again = work(cluster)
        assert len(records(again.do("poll 6 accept"))) == 6
        again.do("commit")
        again.stop()
        assert "successful" in printed(command, cluster, "--delete", "--group", GROUP)


def printed(command: Command, cluster: LocalCluster, *arguments: str) -> str:
    asked = command(TOOL, "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    done = subprocess.run(
        asked, capture_output=True, text=True, timeout=2 * GENEROUS_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def shown(command: Command, cluster: LocalCluster, *arguments: str) -> list[list[str]]:
    """Return the words of each line that the tool prints about the group."""
    text = printed(command, cluster, *arguments)
    return [line.split() for line in text.splitlines() if line.startswith(GROUP)]
