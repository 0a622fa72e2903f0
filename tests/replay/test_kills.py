"""A replay killed with kill -9, again and again: each record once and in order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from parley.client import LATEST, TopicPartition
from parley.devcluster import LocalCluster

from ..replication.sides import TOPIC, client, kept, read, write
from ..support import GENEROUS_S, eventually

PARTITIONS, RECORDS, KILLS = 4, 12_000, 6
TO = "again"


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Return a replay in a process of its own."""
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(script)), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.kills
@pytest.mark.parametrize(("old", "new", "seed"), [("2.8", "4.3", 1), ("3.9", "0.11", 2)])
def test_kill_9_loses_and_doubles_nothing(old: str, new: str, seed: int) -> None:
    chance = random.Random(seed)
    with LocalCluster(3, old) as source, LocalCluster(3, new) as target:
        source.create_topic(TOPIC, partitions=PARTITIONS)
        target.create_topic(TO, partitions=PARTITIONS)
        write(source, range(RECORDS))
        begin = partial(
            start, "process.py", source.bootstrap_servers, target.bootstrap_servers, TOPIC, TO
        )
        steps = [chance.randrange(RECORDS // KILLS // 2) for _ in range(KILLS)]
        kill_often(begin, "4000", target, (TO, PARTITIONS), steps)  # 15 s, if nobody killed it
        before, after = read(source, PARTITIONS), read(target, PARTITIONS, topic=TO)
        unmarked = [[{**row, "headers": row["headers"][:-1]} for row in rows] for rows in after]
        assert kept(before) == kept(unmarked)


def kill_often(
    begin: Callable[[str], subprocess.Popen[str]],
    rate: str,
    target: LocalCluster,
    to: tuple[str, int],
    steps: Iterable[int],
) -> None:
    """Begin a replay, and kill it while it runs when its topic has so many offsets more, for each
    of some steps; then let one run to its end.
    """
    for step in steps:
        process = begin(rate)
        wanted = copied(target, to) + step
        eventually(lambda: copied(target, to) >= wanted or process.poll() is not None)  # noqa: B023
        assert process.poll() is None, process.communicate()[1]
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = begin("1e9")
    _, errors = process.communicate(timeout=GENEROUS_S)
    assert process.returncode == 0, errors


def copied(target: LocalCluster, to: tuple[str, int]) -> int:
    """Return how many offsets a topic with so many partitions uses, those of open transactions
    among them.
    """
    topic, count = to
    partitions = [TopicPartition(topic, index) for index in range(count)]
    with client(target) as looking:
        ends = looking.list_offsets(dict.fromkeys(partitions, LATEST))
    return sum(end.offset for end in ends.values())
