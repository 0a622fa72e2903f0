"""`parley replicate`: what it prints, its exit codes, and its end by a signal."""

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
from parley.client import TopicPartition
from parley.devcluster import ClusterSettings, LocalCluster

from ..support import GENEROUS_S, eventually
from .sides import NAME, TOPIC, client, kept, read, write

PARTITIONS = 2
Run = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def both() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    settings = ClusterSettings(auto_create_topics=False)
    with (
        LocalCluster(1, "2.8", settings=settings) as source,
        LocalCluster(1, "4.3", settings=settings) as target,
    ):
        source.create_topic(TOPIC, partitions=PARTITIONS)
        write(source, range(200))
        yield source, target


def sides(both: tuple[LocalCluster, LocalCluster]) -> list[str]:
    source, target = both
    addresses = ["--source", source.bootstrap_servers, "--target", target.bootstrap_servers]
    return [*addresses, "--name", NAME]


@pytest.fixture
def replicate(both: tuple[LocalCluster, LocalCluster], capsys: pytest.CaptureFixture[str]) -> Run:
    def run(command: str, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        code = main(["replicate", command, *sides(both), *arguments, "--format", "jsonl"])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


def test_a_move_from_plan_to_groups(
    both: tuple[LocalCluster, LocalCluster], replicate: Run
) -> None:
    source, target = both
    with client(source) as committing:
        committing.alter_group_offsets("nightly", {TopicPartition(TOPIC, 1): 6})
    code, rows, _ = replicate("plan", "--topic", TOPIC)
    assert code == 0
    assert [(row["topic"], row["kind"], row["stops"]) for row in rows] == [
        (TOPIC, "create", False),
        (TOPIC, "rights", False),
    ]
    with client(target) as looking:
        assert not looking.metadata().topics

    code, rows, err = replicate("run", "--topic", TOPIC, "--until-caught-up")
    assert code == 0
    assert [row["lag"] for row in rows] == [0, 0]
    assert "200 records copied" in err
    assert kept(read(source, PARTITIONS)) == kept(read(target, PARTITIONS))

    write(source, range(200, 210))
    code, rows, err = replicate("status")
    assert (code, sum(row["lag"] for row in rows)) == (0, 10)
    assert "10 offsets behind" in err

    code, rows, err = replicate("groups")
    assert [(row["group"], row["partition"], row["target_offset"]) for row in rows] == [
        ("nightly", 1, 6)
    ]
    assert "nothing is written" in err
    with client(target) as looking:
        assert not looking.list_group_offsets("nightly")
    assert replicate("groups", "--execute")[0] == 0
    with client(target) as looking:
        found = looking.list_group_offsets("nightly")[TopicPartition(TOPIC, 1)]
    assert found is not None
    assert found.offset == 6


def test_what_stands_in_the_way_is_exit_code_1_and_names_what_to_accept(
    both: tuple[LocalCluster, LocalCluster], replicate: Run
) -> None:
    _, target = both
    target.create_topic(
        TOPIC, partitions=PARTITIONS, configs={"message.timestamp.type": "LogAppendTime"}
    )
    code, rows, err = replicate("plan", "--topic", TOPIC)
    assert code == 1
    assert [row["kind"] for row in rows if row["stops"]] == ["timestamps"]
    assert "--accept timestamps" in err
    assert replicate("plan", "--topic", TOPIC, "--accept", "timestamps")[0] == 0
    assert replicate("run", "--topic", TOPIC)[0] == 2
    assert replicate("run")[0] == 2


def test_what_accepting_cannot_help_has_another_remedy(
    both: tuple[LocalCluster, LocalCluster], capsys: pytest.CaptureFixture[str]
) -> None:
    source, _ = both
    with LocalCluster(1, "0.9") as old:
        plan = ["replicate", "plan", *sides((source, old)), "--topic", TOPIC]
        assert main(plan) == 1
        err = capsys.readouterr().err
        assert "--accept" not in err
        assert "create-topics stands in the way: create the topics in the target\n" in err
        assert "exactly-once stands in the way: give --delivery at-least-once\n" in err
        old.create_topic(TOPIC, partitions=PARTITIONS)
        plan += ["--delivery", "at-least-once"]
        assert main(plan) == 1
        assert capsys.readouterr().err == "headers stands in the way: give --headers drop\n"
        assert main([*plan, "--headers", "drop"]) == 0


@pytest.mark.parametrize("command", ["status", "groups"])
@pytest.mark.parametrize("arguments", [(), ("--topic", TOPIC)])
def test_a_name_that_never_copied_is_exit_code_2(
    command: str, arguments: tuple[str, ...], replicate: Run
) -> None:
    code, rows, err = replicate(command, *arguments)
    assert (code, rows) == (2, [])
    assert err == f'parley: the target has no replication "{NAME}"\n'


def test_a_cluster_that_is_not_there_is_exit_code_3(
    both: tuple[LocalCluster, LocalCluster], capsys: pytest.CaptureFixture[str]
) -> None:
    source, _ = both
    arguments = ["--source", source.bootstrap_servers, "--target", "127.0.0.1:1", "--name", NAME]
    assert main(["replicate", "plan", *arguments, "--topic", TOPIC]) == 3
    assert "127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_after_the_open_transaction(
    both: tuple[LocalCluster, LocalCluster], sent: signal.Signals, code: int
) -> None:
    source, target = both
    process = subprocess.Popen(
        [sys.executable, "-m", "parley", "replicate", "run", *sides(both), "--topic", TOPIC],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "copies" in process.stderr.readline()
    write(source, range(200, 300))
    eventually(
        lambda: sum(map(len, read(target, PARTITIONS, isolation_level="read_uncommitted"))) == 300
    )
    process.send_signal(sent)
    _, err = process.communicate(timeout=GENEROUS_S)
    assert process.returncode == code, err
    assert "300 records copied" in err
    with client(target) as looking:
        (found,) = [one for one in looking.transactions.list() if one.transactional_id == NAME]
    assert found.state == "CompleteCommit"
    assert kept(read(source, PARTITIONS)) == kept(read(target, PARTITIONS))
