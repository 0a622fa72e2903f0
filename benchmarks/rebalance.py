"""What a rebalance costs: one more member joins MEMBERS that share PARTITIONS; and what idle
members, a group around a reader, and a thousand members at an embedded coordinator cost.

Run by `benchmarks.run --only rebalance`, which draws the first as a picture too. A real Kafka 4.3.0
broker, which speaks both protocols; the members of one client are in a process of their own
(`rebalance_members`), and the clients take turns.
"""

from __future__ import annotations

import statistics
import sys
import uuid
from typing import NamedTuple

from benchmarks import rebalance_joining as joining, rebalance_reading as reading
from benchmarks.bench import ROOT, Bench, medians, progress, run_json
from benchmarks.rebalance_members import (
    HEARTBEAT_MS,
    IDLE_PARTITIONS,
    IDLE_TOPIC,
    MEMBERS,
    PARTITIONS,
    PROTOCOLS,
    TOPIC,
)
from benchmarks.rebalance_plot import draw
from benchmarks.report import Section, goal, table
from parley.client import Client, NewTopic
from parley.testing.realbroker import RealCluster

RELEASE = "4.3.0"
OURS = "parley"
CLIENTS = ("parley", "confluent-kafka", "aiokafka")
MOST_IDLE = 100
IDLE_CORE_SHARE, IDLE_MEGABYTES = 0.005, 100
JOINING_SECONDS, REQUESTS_PER_MEMBER = 2.0, 4
IN_GROUP = {"async-for": 0.90, "getmany": 0.90, "batches": 0.97}
"""Way to read → the share of the rate with assigned partitions that a group must leave."""
PICTURE = ROOT / "benchmarks" / "pictures" / "rebalance.svg"
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
    reading: dict[str, reading.Read]
    """By the way to read."""
    joining: dict[str, float]
    """Seconds and requests per member of a thousand that join an embedded coordinator."""


def measure(bench: Bench) -> Measured:
    """Measure each client with each protocol that it has, round by round."""
    joined: dict[tuple[str, str], list[Joined]] = {}
    idle: dict[str, Idle] = {}
    read: dict[str, list[reading.Read]] = {}
    thousand: list[dict[str, float]] = []
    with RealCluster(RELEASE, properties=PROPERTIES, quick_start=False) as cluster:
        bootstrap = cluster.bootstrap_servers
        with Client(bootstrap_servers=bootstrap) as client:
            client.create_topics(
                [NewTopic(TOPIC, PARTITIONS), NewTopic(IDLE_TOPIC, IDLE_PARTITIONS)]
            )
        for turn in range(bench.rounds):
            phase_ms = str(HEARTBEAT_MS * (2 * turn + 1) // (2 * bench.rounds))
            for protocol, clients in PROTOCOLS.items():
                for name in clients:
                    found = Joined(**_run("join", name, bootstrap, protocol, phase_ms))
                    progress(f"{protocol}, {name}: {found}")
                    joined.setdefault((protocol, name), []).append(found)
        reading.fill(bootstrap)
        for reads in range(bench.rounds + 1):
            for by in reading.WAYS:
                one = _read(by, bootstrap)
                progress(f"{by}: {one}")
                if reads:  # the first warms the page cache
                    read.setdefault(by, []).append(one)
        for name in CLIENTS:
            many = _run("idle", name, bootstrap, str(MOST_IDLE))
            alone = _run("idle", name, bootstrap, "1")
            idle[name] = Idle(
                many["core_share"], alone["core_share"], many["megabytes"], alone["megabytes"]
            )
            progress(f"idle, {name}: {idle[name]}")
    for _ in range(bench.rounds):
        thousand += run_json([sys.executable, "-m", joining.__name__])
        progress(f"{joining.MEMBERS:,} members join: {thousand[-1]}")
    cost = {key: medians(runs) for key, runs in joined.items()}
    draw({key: (one.seconds, one.partition_seconds) for key, one in cost.items()}, PICTURE)
    return Measured(
        cost,
        idle,
        {by: medians(runs) for by, runs in read.items()},
        {key: statistics.median(one[key] for one in thousand) for key in thousand[0]},
    )


def _run(what: str, client: str, bootstrap: str, *how: str) -> dict[str, float]:
    """Run members in a process, in a group that nothing else has used."""
    command = [sys.executable, "-m", "benchmarks.rebalance_members", what, client, bootstrap]
    return run_json([*command, f"rebalance-{uuid.uuid4()}", *how])[0]


def _read(by: str, bootstrap: str) -> reading.Read:
    command = [sys.executable, "-m", reading.__name__, by, bootstrap, reading.TOPIC]
    return reading.Read(**run_json(command)[0])


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
    reading_head = ["read by", *reading.Read._fields]
    reading_rows = [
        [by, f"{one.assigned / 1e6:.3f} M/s", f"{one.group / 1e6:.3f} M/s", f"{one.share:.1%}"]
        for by, one in found.reading.items()
    ]  # fmt: skip
    text = "\n\n".join(
        [
            _TEXT,
            "![what one more member costs](pictures/rebalance.svg)",
            table(head, rows),
            _IDLE_TEXT,
            table(idle_head, idle_rows),
            _READING_TEXT,
            table(reading_head, reading_rows),
            _JOINING_TEXT.format(**found.joining),
        ]
    )
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
    rows += [
        goal(f"{by} in a group, of the rate with assigned partitions", f"≥ {least:.0%}",
             f"{found.reading[by].share:.1%}", found.reading[by].share >= least)
        for by, least in IN_GROUP.items()
    ]  # fmt: skip
    seconds, requests = found.joining["seconds"], found.joining["requests"]
    rows += [
        goal(f"{joining.MEMBERS:,} members join an embedded coordinator",
             f"≤ {JOINING_SECONDS:.0f} s", f"{seconds:.2f} s", seconds <= JOINING_SECONDS),
        goal("requests per member that joins", f"≤ {REQUESTS_PER_MEMBER}", f"{requests:.1f}",
             requests <= REQUESTS_PER_MEMBER),
    ]  # fmt: skip
    return rows


_TEXT = (
    f"One more member joins a group of {MEMBERS} that shares {PARTITIONS:,} empty partitions "
    "of one topic,"
    f" at a real Kafka {RELEASE} broker. All heartbeats come every {HEARTBEAT_MS} ms, and a "
    "poll waits for"
    " 100 ms at most; the rest is as each client has it by default. The new member joins at "
    "another moment between two heartbeats in each round. All members of a client "
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
_READING_TEXT = (
    f"Two consumers of one process read {reading.RECORDS:,} records of {reading.VALUE_BYTES} bytes"
    f" from {reading.PARTITIONS} partitions of the same broker, one with its partitions assigned"
    " by hand, one as the only member of a group that commits every 5 s, by turns of"
    f" {reading.TURN_RECORDS:,} records: what else the machine does meets both. Rates are medians"
    " of the turns, the share is the median of pairs of turns; the first pair is not counted."
    " While one has its turn, the other fetches ahead as far as it may, 16 MiB."
)
_JOINING_TEXT = (
    f"{joining.MEMBERS:,} members of the classic protocol, each with a connection of its own, join"
    " one group of an embedded cluster at once, lead, share out and sync: {seconds:.2f} s beside"
    f" the {joining.DELAY_MS} ms that the coordinator waits for newcomers, and {{requests:.1f}}"
    " requests of each member. Coordinator and members are in two processes."
)
