"""Consumers record by record, parley next to aiokafka and confluent-kafka: one topic, and 5,000."""

from __future__ import annotations

import statistics
import sys

import pyarrow as pa

from benchmarks.bench import PARTITIONS, Bench, progress, run_json
from benchmarks.record_reader import WAYS
from benchmarks.report import Section, goal, table
from parley.client import Client, NewTopic, ProduceOptions

VALUE = b"v" * 100
ONE_RECORDS, MANY_RECORDS = 1_000_000, 1_000_000
MANY = 5_000
IDLE_S = 20.0
AT_ONCE = 100
"""Topics created in one request."""
ONE_BATCH = ProduceOptions(batch_size=16_384)
"""The size that Java's producer has by default."""
GOALS = {
    "parley_async_for": ("aiokafka_async_for", 2.0),
    "parley_getmany": ("confluent_consume", 1.5),
    "parley_getone": ("confluent_poll", 1.0),
}
"""Way → the foreign one it is held against, and how many times as fast it has to be."""
MANY_WAYS = ("parley_async_for", "parley_getmany", "confluent_consume")
MANY_SHARE, IDLE_SHARE = 0.8, 0.01

Measured = dict[tuple[str, str], list[dict[str, float]]]
"""(topics, way) → rows, seconds, processor seconds and peak memory of each round."""


def measure(bench: Bench) -> Measured:
    """Run the ways in turn, round after round; the first round warms up and is not counted."""
    with Client(bootstrap_servers=bench.bootstrap_servers) as client:
        _fill(client, "one", 1, PARTITIONS, ONE_RECORDS)
        _fill(client, "many", MANY, 1, MANY_RECORDS)
    found: Measured = {}
    for turn in range(bench.rounds + 1):
        for way in WAYS:
            _read(bench, found, turn, way, ("one", 1, PARTITIONS, ONE_RECORDS), 0)
        for way in MANY_WAYS:
            idle_s = IDLE_S if turn == bench.rounds else 0
            _read(bench, found, turn, way, ("many", MANY, 1, MANY_RECORDS), idle_s)
    return found


def _read(
    bench: Bench,
    found: Measured,
    turn: int,
    way: str,
    what: tuple[str, int, int, int],
    idle_s: float,
) -> None:
    prefix, *sizes = what
    command = [sys.executable, "-m", "benchmarks.record_reader", way, bench.bootstrap_servers]
    (fact,) = run_json([*command, prefix, *map(str, sizes), str(idle_s)])
    progress(f"{prefix} {way}: {fact['rows'] / fact['seconds']:,.0f} records/s")
    if turn > 0:
        found.setdefault((prefix, way), []).append(fact)


def _fill(client: Client, prefix: str, topics: int, partitions: int, records: int) -> None:
    names = [f"{prefix}-{at}" for at in range(topics)]
    there = client.metadata(None).topics
    missing = [name for name in names if name not in there]
    progress(f"filling {len(missing)} topics {prefix}-N")
    for at in range(0, len(missing), AT_ONCE):
        client.create_topics([NewTopic(name, partitions, 1) for name in missing[at : at + AT_ONCE]])
        for name in missing[at : at + AT_ONCE]:
            rows = pa.record_batch({"value": [VALUE] * (records // topics)})
            client.produce(name, rows, options=ONE_BATCH)


def report(found: Measured) -> Section:
    goals = [_against(found, way, *GOALS[way]) for way in GOALS]
    goals += [_many(found, way) for way in MANY_WAYS if way.startswith("parley")]
    rows = []
    for (prefix, way), facts in found.items():
        peak = max(fact["peak_rss_mb"] for fact in facts)
        cpu = statistics.median(1e6 * fact["cpu_seconds"] / fact["rows"] for fact in facts)
        idle = max((fact["idle_share"] for fact in facts if "idle_share" in fact), default=None)
        topics = f"{MANY:,}" if prefix == "many" else "1"
        shown = "" if idle is None else f"{idle:.2%}"
        rate = f"{_rate(facts) / 1e3:,.0f}"
        rows.append([topics, way.replace("_", " ", 1), rate, f"{cpu:.2f}", f"{peak:.0f} MB", shown])
    head = ["topics", "client", "1,000 records/s", "µs of a core per record", "peak", "idle"]
    return Section("Records, one by one", f"{_TEXT}\n\n{table(head, rows)}", goals)


def _against(found: Measured, way: str, other: str, factor: float) -> list[str]:
    ratio = _rate(found["one", way]) / _rate(found["one", other])
    what = f"{way.replace('_', ' ', 1)} against {other.replace('_', ' ', 1)}"
    return goal(what, f"≥ {factor} ×", f"{ratio:.2f} ×", ratio >= factor)


def _many(found: Measured, way: str) -> list[str]:
    share = _rate(found["many", way]) / _rate(found["one", way])
    idle = max(fact.get("idle_share", 0.0) for fact in found["many", way])
    what = f"{way.replace('_', ' ', 1)}, {MANY:,} topics against one, and idle"
    wanted = f"≥ {MANY_SHARE:.0%}, ≤ {IDLE_SHARE:.0%} of a core"
    reached = share >= MANY_SHARE and idle <= IDLE_SHARE
    return goal(what, wanted, f"{share:.0%}, {idle:.2%}", reached)


def _rate(facts: list[dict[str, float]]) -> float:
    return statistics.median(fact["rows"] / fact["seconds"] for fact in facts)


_TEXT = (
    "Each in a process of its own, values of 100 bytes that are looked at, from the first record "
    "to the last. `getmany` and `consume` return up to 1,000 records; `poll` and `getone` one; the "
    "processor time is that of all threads of the client. confluent-kafka runs with "
    "fetch.queue.backoff.ms=1. Idle is the share of a core that polls take afterwards, when "
    "nothing comes."
)
