"""A replay killed with kill -9, again and again: each record once and in order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from parley.client import LATEST, TopicPartition
from parley.devcluster import LocalCluster

from ..replication.sides import TOPIC, client, kept, read, write
from ..support import GENEROUS_S, eventually

PARTITIONS, RECORDS, KILLS = 4, 12_000, 6
TO = "again"


def start(source: LocalCluster, target: LocalCluster, rate: float) -> subprocess.Popen[str]:
    script = str(Path(__file__).with_name("process.py"))
    addresses = [source.bootstrap_servers, target.bootstrap_servers]
    return subprocess.Popen(
        [sys.executable, script, *addresses, TOPIC, TO, str(rate)],
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
        for _ in range(KILLS):
            process = start(source, target, 4_000)  # 15 s, if nobody killed it
            wanted = copied(target) + chance.randrange(RECORDS // KILLS // 2)
            eventually(lambda: copied(target) >= wanted or process.poll() is not None)  # noqa: B023
            assert process.poll() is None, process.communicate()[1]
            process.send_signal(signal.SIGKILL)
            process.communicate()
        process = start(source, target, 1e9)
        _, errors = process.communicate(timeout=GENEROUS_S)
        assert process.returncode == 0, errors
        before, after = read(source, PARTITIONS), read(target, PARTITIONS, topic=TO)
        unmarked = [[{**row, "headers": row["headers"][:-1]} for row in rows] for rows in after]
        assert kept(before) == kept(unmarked)


def copied(target: LocalCluster) -> int:
    """Return how many offsets the target uses, those of open transactions among them."""
    partitions = [TopicPartition(TO, index) for index in range(PARTITIONS)]
    with client(target) as looking:
        ends = looking.list_offsets(dict.fromkeys(partitions, LATEST))
    return sum(end.offset for end in ends.values())
