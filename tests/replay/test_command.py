"""`parley replay`: what it prints, its exit codes, and its end by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.cli import main
from parley.cli.replay import read_rate
from parley.devcluster import LocalCluster
from parley.errors import ConfigError

from ..replication.sides import TOPIC, kept, read, write
from ..support import GENEROUS_S, eventually

PARTITIONS = 2
Run = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, "2.8") as running:
        running.create_topic(TOPIC, partitions=PARTITIONS)
        write(running, range(200))
        yield running


def of_name(cluster: LocalCluster) -> list[str]:
    return ["--source", cluster.bootstrap_servers, "--name", "again"]


@pytest.fixture
def replay(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(command: str, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        code = main(["replay", command, *of_name(cluster), *arguments, "--format", "jsonl"])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


def test_from_plan_to_status(cluster: LocalCluster, replay: Run) -> None:
    topics = ("--topic", TOPIC, "--to", "again")
    code, rows, _ = replay("plan", *topics)
    assert code == 0
    assert [(row["kind"], row["topic"]) for row in rows] == [
        ("read", TOPIC), ("read", TOPIC), ("create", "again"), ("rights", TOPIC)
    ]  # fmt: skip
    assert rows[0]["what"].startswith("partition 0, offsets 0 to ")
    code, rows, err = replay("run", *topics, "--rate", "1MB")
    assert code == 0
    assert [row["lag"] for row in rows] == [0, 0]
    assert "200 records replayed" in err
    code, rows, err = replay("status")
    assert (code, len(rows)) == (0, PARTITIONS)
    assert "0 offsets left" in err


def test_what_cannot_be_is_said_with_its_exit_code(replay: Run) -> None:
    code, rows, err = replay("plan", "--topic", TOPIC, "--to", TOPIC)
    assert code == 1
    assert [row["kind"] for row in rows if row["stops"]] == ["not-empty"]
    assert "--accept not-empty" in err
    assert replay("plan", "--topic", TOPIC, "--to", TOPIC, "--into-live")[0] == 0
    assert replay("run", "--topic", TOPIC, "--to", TOPIC)[0] == 2
    code, _, err = replay("run", "--topic", TOPIC, "--to", "b", "--from-datetime", "yesterday")
    assert code == 2
    assert '--from-datetime "yesterday" is no date' in err
    code, _, err = replay("run", "--topic", TOPIC, "--to", "b", "--rate", "much")
    assert (code, "20MB" in err) == (2, True)
    assert replay("status")[0] == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20MB", 2e7),
        ("20 MB/s", 2e7),
        ("512KiB", 524288),
        ("1.5k", 1500),
        ("7", 7),
        ("2gib", 2**31),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: float) -> None:
    assert read_rate(text) == size


@pytest.mark.parametrize("text", ["", "0", "0MB", "-1", "MB", "1TB", "1 000", "1,5MB", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--rate"):
        read_rate(text)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_after_the_open_transaction(
    cluster: LocalCluster, replay: Run, sent: signal.Signals, code: int
) -> None:
    arguments = [*of_name(cluster), "--topic", TOPIC, "--to", "again"]
    process = subprocess.Popen(
        [sys.executable, "-m", "parley", "replay", "run", *arguments, "--rate", "100"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "replays" in process.stderr.readline()
    eventually(lambda: any(read(cluster, PARTITIONS, topic="again")))
    process.send_signal(sent)
    _, err = process.communicate(timeout=GENEROUS_S)
    assert process.returncode == code, err
    done = sum(map(len, read(cluster, PARTITIONS, topic="again")))
    assert f"{done} records replayed" in err
    assert 0 < done < 200
    assert replay("run", "--topic", TOPIC, "--to", "again")[0] == 0
    names = ("key", "value", "timestamp")
    again = read(cluster, PARTITIONS, topic="again")
    assert kept(again, names) == kept(read(cluster, PARTITIONS), names)
