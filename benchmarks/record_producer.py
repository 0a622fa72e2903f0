"""Records sent one by one: how fast, how soon acknowledged, and what waiting ones cost.

Run by `benchmarks.run --only record-producer`; each client in a process of its own
(`jobs.records`), taking turns.
"""

from __future__ import annotations

import statistics
import sys

from benchmarks.bench import PARTITIONS, Bench, progress, run_json
from benchmarks.report import Section, goal, table
from parley.client import Client, NewTopic

TOPIC = "records"
SEND, PRODUCE, CONFLUENT, AIOKAFKA = "parley_send", "parley_produce", "confluent", "aiokafka"
NAMES = {
    SEND: "parley, `await send`",
    PRODUCE: "parley, `produce` with callbacks",
    CONFLUENT: "confluent-kafka, `produce` with callbacks",
    AIOKAFKA: "aiokafka, `await send`",
}
RATE_RECORDS = {SEND: 400_000, PRODUCE: 400_000, CONFLUENT: 400_000, AIOKAFKA: 50_000}
LATENCY_RECORDS, MEMORY_RECORDS = 50_000, 1_000_000
AIOKAFKA_FACTOR, CONFLUENT_FACTOR, LATER_MS, MEMORY_MB = 3.0, 1.5, 2.0, 400.0

Measured = dict[tuple[str, str], list[dict[str, float]]]
"""(client, mode) → what each round found."""


def measure(bench: Bench) -> Measured:
    """Run the clients in turn, round after round; memory once."""
    address = bench.bootstrap_servers
    with Client(bootstrap_servers=address) as client:
        if TOPIC not in client.metadata(None).topics:
            client.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
    found: Measured = {}

    def run(client: str, mode: str, records: int, *more: str) -> None:
        command = [sys.executable, "-m", "benchmarks.jobs.records", client, mode, address, TOPIC]
        (fact,) = run_json([*command, str(records), *more])
        progress(f"{client} {mode}: {fact}")
        found.setdefault((client, mode), []).append(fact)

    for _ in range(bench.rounds):
        for client, records in RATE_RECORDS.items():
            run(client, "rate", records)
        for client in (SEND, PRODUCE, CONFLUENT):
            run(client, "latency", LATENCY_RECORDS)
    if bench.bootstrap is None:  # the broker is ours to stop for a while
        broker = str(bench.cluster._process(1).pid)
        for client in (SEND, CONFLUENT):
            run(client, "memory", MEMORY_RECORDS, broker)
    return found


def report(found: Measured) -> Section:
    rates = {client: _rate(found[client, "rate"]) for client in RATE_RECORDS}
    rows = []
    for client, name in NAMES.items():
        late = found.get((client, "latency"))
        memory = found.get((client, "memory"))
        rows.append(
            [
                name,
                f"{rates[client]:,.0f}",
                f"{_median(late, 'p50_ms'):.1f} ms" if late else "",
                f"{_median(late, 'p99_ms'):.1f} ms" if late else "",
                f"{memory[0]['mb']:.0f} MB" if memory else "",
            ]
        )
    goals = []
    for client in (SEND, PRODUCE):
        ratio = rates[client] / rates[CONFLUENT]
        goals.append(
            goal(
                f"{NAMES[client]}, against confluent-kafka's `produce`",
                f"≥ {CONFLUENT_FACTOR} ×",
                f"{ratio:.2f} ×",
                ratio >= CONFLUENT_FACTOR,
            )
        )
        later = _median(found[client, "latency"], "p99_ms") - _median(
            found[CONFLUENT, "latency"], "p99_ms"
        )
        goals.append(
            goal(
                f"{NAMES[client]}, p99 of acknowledgements after confluent-kafka's",
                f"≤ {LATER_MS:.0f} ms",
                f"{later:.1f} ms",
                later <= LATER_MS,
            )
        )
    ratio = rates[SEND] / rates[AIOKAFKA]
    what = f"{NAMES[SEND]}, against aiokafka's"
    goals.append(goal(what, f"≥ {AIOKAFKA_FACTOR} ×", f"{ratio:.2f} ×", ratio >= AIOKAFKA_FACTOR))
    if (SEND, "memory") in found:
        mb = found[SEND, "memory"][0]["mb"]
        what = "1,000,000 waiting records of parley"
        goals.append(goal(what, f"≤ {MEMORY_MB:.0f} MB", f"{mb:.0f} MB", mb <= MEMORY_MB))
    head = ["client", "records/s", "p50", "p99", "1,000,000 waiting"]
    return Section("Records sent one by one", f"{_TEXT}\n\n{table(head, rows)}", goals)


def _rate(facts: list[dict[str, float]]) -> float:
    return statistics.median(fact["records"] / fact["seconds"] for fact in facts)


def _median(facts: list[dict[str, float]], name: str) -> float:
    return statistics.median(fact[name] for fact in facts)


_TEXT = (
    "100-byte values, 8-byte keys of 1,000 kinds, acks=all, idempotent, linger 5 ms, no "
    "compression, one process each. Rate: until everything is acknowledged. Latency: from the call "
    "to the acknowledgement at 10,000 records a second. "
    "Memory: what the process grew by while the broker stood still and every acknowledgement was "
    "kept."
)
