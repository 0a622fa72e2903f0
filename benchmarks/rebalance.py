"""What a rebalance costs: one more member joins MEMBERS that share PARTITIONS; and what idle
members cost.

Run by `benchmarks.run --only rebalance`. A real Kafka 4.3.0 broker, which speaks both protocols;
the members of one client are in a process of their own (`rebalance_members`), and the clients take
turns.
"""

from __future__ import annotations

import statistics
import sys
import uuid
from typing import NamedTuple

from benchmarks.bench import Bench, progress, run_json
from benchmarks.rebalance_members import (
    HEARTBEAT_MS,
    IDLE_PARTITIONS,
    IDLE_TOPIC,
    MEMBERS,
    PARTITIONS,
    PROTOCOLS,
    TOPIC,
)
from benchmarks.report import Section, goal, table
from parley.client import Client, NewTopic
from parley.testing.realbroker import RealCluster

RELEASE = "4.3.0"
OURS = "parley"
CLIENTS = ("parley", "confluent-kafka", "aiokafka")
MOST_IDLE = 100
IDLE_CORE_SHARE, IDLE_MEGABYTES = 0.005, 100
PROPERTIES = {
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
"""The consumer protocol's heartbeats come as often as those that the classic members send."""


class Joined(NamedTuple):
    """What one more member cost, medians of the rounds."""

    seconds: float
    """From its subscribe to the last partition that was assigned."""
    partition_seconds: float
    """Without an owner, summed over all partitions."""
    moved: float
    """Partitions with another owner than before."""
    kept_given_up: float
    """Partitions that were given up although their owner kept them."""


class Idle(NamedTuple):
    """What members cost that have nothing to do; looked at once, for long."""

    core_share: float
    """Of a core, per member, where there are MOST_IDLE."""
    core_share_alone: float
    megabytes: float
    """Of a process with MOST_IDLE members."""
    megabytes_alone: float


class Measured(NamedTuple):
    joined: dict[tuple[str, str], Joined]
    """(Protocol, client) → what it cost."""
    idle: dict[str, Idle]


def measure(bench: Bench) -> Measured:
    """Measure each client with each protocol that it has, round by round."""
    joined: dict[tuple[str, str], list[Joined]] = {}
    idle: dict[str, Idle] = {}
    with RealCluster(RELEASE, properties=PROPERTIES, quick_start=False) as cluster:
        bootstrap = cluster.bootstrap_servers
        with Client(bootstrap_servers=bootstrap) as client:
            client.create_topics(
                [NewTopic(TOPIC, PARTITIONS), NewTopic(IDLE_TOPIC, IDLE_PARTITIONS)]
            )
        for _ in range(bench.rounds):
            for protocol, clients in PROTOCOLS.items():
                for name in clients:
                    found = Joined(**_run("join", name, bootstrap, protocol))
                    progress(f"{protocol}, {name}: {found}")
                    joined.setdefault((protocol, name), []).append(found)
        for name in CLIENTS:
            many = _run("idle", name, bootstrap, str(MOST_IDLE))
            alone = _run("idle", name, bootstrap, "1")
            idle[name] = Idle(
                many["core_share"], alone["core_share"], many["megabytes"], alone["megabytes"]
            )
            progress(f"idle, {name}: {idle[name]}")
    return Measured(
        {
            key: Joined(*map(statistics.median, zip(*runs, strict=True)))
            for key, runs in joined.items()
        },
        idle,
    )


def _run(what: str, client: str, bootstrap: str, how: str) -> dict[str, float]:
    """Run members in a process, in a group that nothing else has used."""
    command = [sys.executable, "-m", "benchmarks.rebalance_members", what, client, bootstrap]
    return run_json([*command, f"rebalance-{uuid.uuid4()}", how])[0]


def report(found: Measured) -> Section:
    head = ["protocol", "client", "to the last assigned", "partition-seconds without an owner",
            "moved", "given up and kept"]  # fmt: skip
    rows = [
        [protocol, name, f"{one.seconds * 1000:.0f} ms", f"{one.partition_seconds:.2f}",
         f"{one.moved:.0f}", f"{one.kept_given_up:.0f}"]
        for (protocol, name), one in found.joined.items()
    ]  # fmt: skip
    idle_head = ["client", "core, alone", f"core each, of {MOST_IDLE}",
                 "process, alone", f"process, {MOST_IDLE} members"]  # fmt: skip
    idle_rows = [
        [name, f"{one.core_share_alone:.2%}", f"{one.core_share:.2%}",
         f"{one.megabytes_alone:.0f} MB", f"{one.megabytes:.0f} MB"]
        for name, one in found.idle.items()
    ]  # fmt: skip
    text = "\n\n".join([_TEXT, table(head, rows), _IDLE_TEXT, table(idle_head, idle_rows)])
    return Section("Rebalances", text, _goals(found))


def _goals(found: Measured) -> list[list[str]]:
    rows = []
    for protocol in PROTOCOLS:
        ours = found.joined[protocol, OURS]
        peers = [one for (of, name), one in found.joined.items() if of == protocol and name != OURS]
        fastest = min(one.seconds for one in peers)
        fewest = min(one.partition_seconds for one in peers)
        rows += [
            goal(
                f"rebalance, {protocol}, to the last assigned",
                f"≤ {fastest * 1000:.0f} ms, the fastest other client",
                f"{ours.seconds * 1000:.0f} ms",
                ours.seconds <= fastest,
            ),
            goal(
                f"rebalance, {protocol}, partition-seconds without an owner",
                f"≤ {fewest:.2f}, the best other client",
                f"{ours.partition_seconds:.2f}",
                ours.partition_seconds <= fewest,
            ),
        ]
    kept = found.joined["cooperative", OURS].kept_given_up
    rows.append(goal("kept partitions paused, cooperative", "0", f"{kept:.0f}", kept == 0))
    idle = found.idle[OURS]
    rows += [
        goal(
            "idle member",
            f"≤ {IDLE_CORE_SHARE:.1%} of a core",
            f"{idle.core_share_alone:.2%}",
            idle.core_share_alone <= IDLE_CORE_SHARE,
        ),
        goal(
            f"{MOST_IDLE} idle members in a process",
            f"≤ {IDLE_MEGABYTES} MB",
            f"{idle.megabytes:.0f} MB",
            idle.megabytes <= IDLE_MEGABYTES,
        ),
    ]
    return rows


_TEXT = (
    f"One more member joins a group of {MEMBERS} that shares {PARTITIONS:,} empty partitions "
    "of one topic,"
    f" at a real Kafka {RELEASE} broker. All heartbeats come every {HEARTBEAT_MS} ms, and a "
    "poll waits for"
    " 100 ms at most; the rest is as each client has it by default. All members of a client "
    "are in one"
    " process: of parley and aiokafka in one event loop, of confluent-kafka in a thread "
    "each. Partitions"
    " have an owner from its `on_assigned` to its `on_revoked`. Eager and cooperative: the "
    "assignors range"
    " and cooperative-sticky of the classic protocol."
)
_IDLE_TEXT = (
    f"Members of the classic protocol that poll a topic of {IDLE_PARTITIONS} partitions "
    "without records,"
    " each poll waiting for 1 s and heartbeats every 3 s: processor time over 15 s, and the "
    "resident"
    " memory of the whole process, interpreter and imports included."
)
