"""A replication killed with kill -9, again and again: each record once and in order, by an account
that its writer and a reader of its own keep.
"""

from __future__ import annotations

import random
import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest

from parley.client import LATEST, TopicPartition
from parley.devcluster import LocalCluster
from parley.testing.delivery import settle_account

from ..support import GENEROUS_S, eventually
from .sides import TOPIC, client, kept, read, start, write

PARTITIONS = 4
RECORDS_PER_KILL = 3_000


@pytest.fixture
def both(request: pytest.FixtureRequest) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    old, new = request.param
    with LocalCluster(3, old) as source, LocalCluster(3, new) as target:
        for cluster in (source, target):
            cluster.create_topic(TOPIC, partitions=PARTITIONS)
        yield source, target


@pytest.mark.kills
@pytest.mark.parametrize(
    ("both", "seed"),
    [(("3.9", "4.3"), 1), (("2.8", "3.9"), 2), (("4.3", "0.11"), 3)],
    indirect=["both"],
)
def test_kill_9_loses_and_doubles_nothing(
    both: tuple[LocalCluster, LocalCluster], seed: int
) -> None:
    source, target = both
    chance, kills, copied = random.Random(seed), 6, 0
    for round_ in range(kills):
        first = RECORDS_PER_KILL * round_
        writing = threading.Thread(
            target=write, args=(source, range(first, first + RECORDS_PER_KILL))
        )
        writing.start()
        process = start(source, target, "run")
        # somewhere on the way: in front of the first transaction, in one, or in between
        wanted = copied + chance.randrange(RECORDS_PER_KILL)
        until_copied(target, wanted, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        writing.join(GENEROUS_S)
        copied = copied_now(target)
    process = start(source, target, "once")
    _, errors = process.communicate(timeout=GENEROUS_S)
    assert process.returncode == 0, errors
    before, after = read(source, PARTITIONS), read(target, PARTITIONS)
    assert kept(before) == kept(after)
    numbers = [[round(row["timestamp"].timestamp() * 1000) for row in rows] for rows in after]
    first = min(map(min, numbers))
    account = settle_account(
        range(kills * RECORDS_PER_KILL), [[at - first for at in rows] for rows in numbers]
    )
    assert account.perfect, str(account)
    assert not account.unconfirmed, str(account)


def until_copied(target: LocalCluster, wanted: int, process: subprocess.Popen[str]) -> None:
    """Return when so many records are in the target, and the process still runs."""
    eventually(lambda: copied_now(target) >= wanted or process.poll() is not None)
    assert process.poll() is None, process.communicate()[1]


def copied_now(target: LocalCluster) -> int:
    """Return how many records are in the target, those of open transactions among them."""
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    with client(target) as looking:
        ends = looking.list_offsets(dict.fromkeys(partitions, LATEST))
    return sum(end.offset for end in ends.values())
