"""Records sent one by one while leaders move every 200 ms, brokers are killed with -9, connections
are cut after K bytes and sends are cancelled, all at once; then the account.

    python -m tests.chaos.send --seeds 1-8 --write docs/proof/send-chaos.md
    python -m tests.chaos.send --seeds 2 --real 4.3.0 --cancellations 1000 --kills 1
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

from parley import AsyncClient, AsyncProducer, Client, NewTopic, TopicPartition
from parley.client import EARLIEST, LATEST

from .brokers import REPLICAS, Cluster, kind_of, started
from .send_account import COLUMNS, Account, Log, Reports, settle
from .send_trouble import CuttingBackend, Trouble
from .send_writers import AsyncWriter, BlockingWriter, Failures
from .table import line_of, put_line

PARTITIONS = 6
PATIENCE_SECONDS = 900
PLANS = (None, "2.4.1", "3.9.1", "4.3.0")
"""Releases of the seeds 1, 2 and so on, over and over; None: embedded brokers of three releases."""
PATIENT, HASTY = 4, 4
"""How many tasks send through a producer with Java's limits of time, and through one that gives
records up after two seconds, so that some fail."""
WRITERS = PATIENT + HASTY + 1
_QUICK = {
    "zookeeper.session.timeout.ms": "4000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}
_COMMON = {"linger_ms": 2, "batch_size": 4_000, "buffer_memory": 200_000}
_HASTY = {"delivery_timeout_ms": 2_000, "request_timeout_ms": 1_000, "max_block_ms": 2_000}


async def send_all(
    cluster: Cluster, topic: str, account: Account, trouble: Trouble, cancellations: int
) -> Reports:
    """Send until there was enough trouble; return what senders were let know."""
    began = time.monotonic()
    servers = cluster.bootstrap_servers
    rng = random.Random(account.seed + 2)
    backend, failures = CuttingBackend(rng), (Failures(), Failures())
    async with (
        AsyncClient(bootstrap_servers=servers, backend=backend) as client,
        AsyncProducer(client, on_error=failures[0], **_COMMON) as patient,
        AsyncProducer(client, on_error=failures[1], **_COMMON, **_HASTY) as hasty,
    ):
        writers = [
            AsyncWriter(patient if number < PATIENT else hasty, topic, number, WRITERS)
            for number in range(PATIENT + HASTY)
        ]

        def over() -> bool:
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise TimeoutError(f"{trouble.kills} kills, {trouble.moves} moves: no end")
            done = sum(writer.reports.cancelled for writer in writers)
            return done >= cancellations and trouble.killed_enough.is_set()

        trouble.start()
        try:
            await asyncio.gather(*(writer.run(over) for writer in writers))
        finally:
            await asyncio.to_thread(trouble.end)
            backend.active = False
        async with asyncio.timeout(PATIENCE_SECONDS):
            await patient.flush()
            await hasty.flush()
    found = Reports()
    for writer in writers:
        found.add(await writer.settle())
    account.cuts = backend.cuts
    reported = sum(one.records for one in failures)
    account.not_reported += abs(reported - len(found.failed) - len(found.in_doubt))
    return found


def logs_of(servers: str, topic: str) -> list[Log]:
    """Return the numbers of each partition by offset."""
    with Client(bootstrap_servers=servers) as client:
        return [
            {
                offset: int(value)
                for batch in client.fetch(TopicPartition(topic, index), EARLIEST, LATEST)
                for offset, value in zip(
                    batch.column("offset").to_pylist(),
                    batch.column("value").to_pylist(),
                    strict=True,
                )
            }
            for index in range(PARTITIONS)
        ]


def run(
    cluster: Cluster, seed: int, release: str | None, *, cancellations: int, kills: int
) -> Account:
    """Run one seed. Raises TimeoutError when it does not come to its end."""
    account, topic, began = Account(seed, kind_of(release)), f"sent-{seed}", time.monotonic()
    servers = cluster.bootstrap_servers
    with Client(bootstrap_servers=servers) as client:
        client.create_topics([NewTopic(topic, PARTITIONS, REPLICAS)])
    trouble = Trouble(cluster, topic, PARTITIONS, seed, kills)
    blocking = BlockingWriter(servers, topic, WRITERS - 1, WRITERS)
    blocking.start()
    try:
        reports = asyncio.run(send_all(cluster, topic, account, trouble, cancellations))
    finally:
        by_callback = blocking.end()
    reports.add(by_callback)
    not_reported = account.not_reported
    settle(account, reports, logs_of(servers, topic), WRITERS)
    account.not_reported += not_reported
    account.moves, account.kills = trouble.moves, trouble.kills
    account.seconds = time.monotonic() - began
    return account


def main() -> int:
    """Run the seeds asked for; 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default=f"1-{2 * len(PLANS)}", help="first-last, or one")
    parser.add_argument("--real", metavar="RELEASE", help="instead of the seed's; or: embedded")
    parser.add_argument("--cancellations", type=int, default=10_000, help="at least so many")
    parser.add_argument("--kills", type=int, default=8, help="how often a broker is killed")
    parser.add_argument("--write", type=Path, help="page whose table gets the runs")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    good = True
    for seed in range(int(first), int(last or first) + 1):
        release = given.real or PLANS[(seed - 1) % len(PLANS)]
        release = None if release == "embedded" else release
        with started(release, (), properties=_QUICK) as cluster:
            account = run(
                cluster,
                seed,
                release,
                cancellations=given.cancellations,
                kills=given.kills,
            )
        good = good and account.good
        print(line_of(account.cells()), flush=True)
        if given.write:
            put_line(given.write, "records sent", COLUMNS, account.cells())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
