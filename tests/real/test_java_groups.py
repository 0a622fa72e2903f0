"""Java's consumers and `kafka-consumer-groups` on the embedded cluster: no real
broker runs, only Java's clients.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from parley import Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.releases import broker_artifacts, tools_artifacts

from ..support import GENEROUS_S, eventually

GROUP, TOPIC, PARTITIONS = "readers", "shared", 4
CONSUMER, GROUPS = (
    "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
)
NO_STATES_LISTED = ("2.1", "2.4")  # ListGroups says a group's state since 2.6 (KIP-518)
Command = Callable[..., list[str]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    path = class_path((*broker_artifacts("4.3.0"), *tools_artifacts("4.3.0")))

    def of(main: str, cluster: LocalCluster, *arguments: str) -> list[str]:
        servers = ["--bootstrap-server", cluster.bootstrap_servers]
        return java_command(
            path,
            [main, *servers, *arguments],
            heap_mb=256,
            log4j_file=tmp_path / "log4j.properties",
        )

    return of


def printed(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=2 * GENEROUS_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def running(command: list[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        output.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()  # it leaves the group first
            process.wait(GENEROUS_S)


def rows(text: str) -> list[list[str]]:
    """Return the words of each line that speaks of the group."""
    return [line.split() for line in text.splitlines() if line.startswith(GROUP)]


@pytest.mark.parametrize(
    ("release", "protocol"),
    [
        ("2.1", "classic"), ("2.4", "classic"), ("3.9", "classic"), ("4.3", "classic"),
        ("4.0", "consumer"), ("4.3", "consumer"),
    ],
)  # fmt: skip
@pytest.mark.matrix
def test_two_consumers_and_the_tool(
    release: str, protocol: str, command: Command, tmp_path: Path
) -> None:
    with (
        LocalCluster(brokers=2, release=release) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC, PARTITIONS)
        partitions = pa.array([at % PARTITIONS for at in range(40)], pa.int32())
        client.produce(
            TOPIC, pa.table({"value": [b"%d" % at for at in range(40)], "partition": partitions})
        )
        joining = ["--topic", TOPIC, "--group", GROUP, "--from-beginning",
                   "--command-property", f"group.protocol={protocol}"]  # fmt: skip
        consume = command(CONSUMER, cluster, *joining)
        first, second = tmp_path / "first", tmp_path / "second"
        with running(consume, first), running(consume, second):
            asked = command(GROUPS, cluster, "--describe", "--group", GROUP)
            shown = eventually(lambda: _shared(printed(asked)))
            assert {row[1] for row in shown} == {TOPIC}
            assert sorted(row[2] for row in shown) == [str(at) for at in range(PARTITIONS)]
            members = rows(printed([*asked, "--members"]))
            assert [row[-1] for row in members] == ["2", "2"]
            listed = printed(command(GROUPS, cluster, "--list", "--state"))
            assert rows(listed)[0][-1] == ("Unknown" if release in NO_STATES_LISTED else "Stable")
            refused = printed(command(GROUPS, cluster, "--delete", "--group", GROUP))
            assert "not empty" in refused
            eventually(lambda: len(read(first)) + len(read(second)) == 40)
        assert sorted(read(first) + read(second)) == list(range(40))
        # the lag: both committed when they left
        assert {row[5] for row in rows(printed(asked))} == {"0"}
        assert "successful" in printed(command(GROUPS, cluster, "--delete", "--group", GROUP))


@pytest.mark.parametrize("release", ["4.3", pytest.param("2.1", marks=pytest.mark.matrix)])
def test_the_tool_resets_offsets(release: str, command: Command) -> None:
    with (
        LocalCluster(brokers=2, release=release) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC, 2)
        for index in range(2):
            times = pa.array(range(10_000, 20_000, 1_000), pa.timestamp("ms", tz="UTC"))
            client.produce(TOPIC, pa.table({"value": [b"x"] * 10, "timestamp": times}), index)
        client.alter_group_offsets(
            GROUP, {TopicPartition(TOPIC, 0): 5, TopicPartition(TOPIC, 1): 9}
        )

        def reset(*how: str) -> tuple[dict[int, int], dict[int, int]]:
            """Return the new offsets that the tool prints, and those that are committed."""
            run = ["--reset-offsets", "--group", GROUP, "--topic", TOPIC, *how]
            shown = rows(printed(command(GROUPS, cluster, *run)))
            found = client.list_group_offsets(GROUP)
            committed = {tp.partition: at.offset for tp, at in found.items() if at is not None}
            return {int(row[2]): int(row[3]) for row in shown}, committed

        assert reset("--shift-by", "-2", "--dry-run") == ({0: 3, 1: 7}, {0: 5, 1: 9})
        assert reset("--shift-by", "3", "--execute") == ({0: 8, 1: 10}, {0: 8, 1: 10})
        at = "1970-01-01T00:00:14.000+00:00"
        assert reset("--to-datetime", at, "--execute") == ({0: 4, 1: 4}, {0: 4, 1: 4})
        assert reset("--to-earliest", "--execute") == ({0: 0, 1: 0}, {0: 0, 1: 0})


def _shared(text: str) -> list[list[str]]:
    """Return the rows of a description in which two members own the partitions."""
    shown = rows(text)
    owners = {row[6] for row in shown if len(row) > 6 and row[6] != "-"}
    return shown if len(owners) == 2 and len(shown) == PARTITIONS else []


def read(output: Path) -> list[int]:
    return [int(line) for line in output.read_text().splitlines() if line.isdigit()]
