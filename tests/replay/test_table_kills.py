"""A table's replay killed with kill -9, again and again: each row once and in order."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest

from parley.devcluster import LocalCluster

from ..replication.sides import read
from .lakes import CITIES, TO, orders, write_delta
from .test_kills import kill_often, start

ROWS, KILLS, PARTITIONS = 9_000, 5, 3


@pytest.mark.kills
@pytest.mark.parametrize(("release", "seed"), [("4.3", 1), ("0.11", 2)])
def test_kill_9_loses_and_doubles_no_row(tmp_path: Path, release: str, seed: int) -> None:
    chance = random.Random(seed)
    numbers = list(range(ROWS))
    chance.shuffle(numbers)
    parts = [orders(numbers[at : at + 1_000]) for at in range(0, ROWS, 1_000)]
    folder = write_delta(tmp_path / "orders", *parts)
    with LocalCluster(1, release) as target:
        target.create_topic(TO, partitions=PARTITIONS)
        begin = partial(start, "table_process.py", target.bootstrap_servers, folder, TO)
        steps = [chance.randrange(ROWS // KILLS // 2) for _ in range(KILLS)]
        kill_often(begin, "200000", target, (TO, PARTITIONS), steps)  # 5 s, if nobody killed it
        after = read(target, PARTITIONS, topic=TO)
    values = [[json.loads(row["value"]) for row in found] for found in after]
    assert sorted(value["id"] for found in values for value in found) == list(range(ROWS))
    for city in CITIES:
        (mine,) = [
            found for rows in values if (found := [one for one in rows if one["city"] == city])
        ]
        times = [one["event_time"] for one in mine]
        assert times == sorted(times)
