"""Records sent one by one: how fast, how soon acknowledged, and what waiting ones cost.

Run by `benchmarks.run --only record-producer`; each client in a process of its own
(`jobs.records`), taking turns.
"""

from __future__ import annotations

import statistics
import sys

from benchmarks.bench import PARTITIONS, Bench, progress, run_json
from benchmarks.jobs.records import MANY
from benchmarks.report import Section, goal, table
from parley.client import Client, NewTopic

TOPIC = "records"
AT_ONCE = 100
"""Topics created in one request."""
SEND, PRODUCE, CONFLUENT, AIOKAFKA = "parley_send", "parley_produce", "confluent", "aiokafka"
NAMES = {
    SEND: "parley, `await send`",
    PRODUCE: "parley, `produce` with callbacks",
    CONFLUENT: "confluent-kafka, `produce` with callbacks",
    AIOKAFKA: "aiokafka, `await send`",
}
RATE_RECORDS = {SEND: 400_000, PRODUCE: 400_000, CONFLUENT: 400_000, AIOKAFKA: 50_000}
MANY_RECORDS = {SEND: 1_000_000, PRODUCE: 1_000_000, CONFLUENT: 1_000_000, AIOKAFKA: 100_000}
LATENCY_RECORDS, MEMORY_RECORDS = 50_000, 1_000_000
AIOKAFKA_FACTOR, CONFLUENT_FACTOR, LATER_MS, MEMORY_MB = 3.0, 1.5, 2.0, 400.0
MANY_SHARE, IDLE_SHARE = 0.8, 0.01

Measured = dict[tuple[str, str], list[dict[str, float]]]
"""(client, mode) → what each round found."""


def measure(bench: Bench) -> Measured:
    """Run the clients in turn, round after round; memory once."""
    address = bench.bootstrap_servers
    _create_topics(address)
    found: Measured = {}

    def run(client: str, mode: str, records: int, *more: str) -> None:
        command = [sys.executable, "-m", "benchmarks.jobs.records", client, mode, address, TOPIC]
        (fact,) = run_json([*command, str(records), *more])
        progress(f"{client} {mode}: {fact}")
        found.setdefault((client, mode), []).append(fact)

    for _ in range(bench.rounds):
        for client, records in RATE_RECORDS.items():
            run(client, "rate", records)
        for client, records in MANY_RECORDS.items():
            run(client, "many", records)
        for client in (SEND, PRODUCE, CONFLUENT):
            run(client, "latency", LATENCY_RECORDS)
    if bench.bootstrap is None:  # the broker is ours to stop for a while
        broker = str(bench.cluster._process(1).pid)
        for client in (SEND, CONFLUENT):
            run(client, "memory", MEMORY_RECORDS, broker)
    return found


def _create_topics(address: str) -> None:
    with Client(bootstrap_servers=address) as client:
        there = client.metadata(None).topics
        if TOPIC not in there:
            client.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
        many = [name for at in range(MANY) if (name := f"{TOPIC}-{at}") not in there]
        for at in range(0, len(many), AT_ONCE):
            client.create_topics([NewTopic(name, 1, 1) for name in many[at : at + AT_ONCE]])


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
    goals += [_many_goal(found, client) for client in (SEND, PRODUCE)]
    head = ["client", "records/s", "p50", "p99", "1,000,000 waiting"]
    text = f"{_TEXT}\n\n{table(head, rows)}\n\n{_MANY_TEXT}\n\n{_many_table(found)}"
    return Section("Records sent one by one", text, goals)


def _many_goal(found: Measured, client: str) -> list[str]:
    share = _rate(found[client, "many"]) / _rate(found[client, "rate"])
    idle = max(fact["idle_share"] for fact in found[client, "many"])
    what = f"{NAMES[client]}, {MANY:,} topics against one, and idle"
    wanted = f"≥ {MANY_SHARE:.0%}, ≤ {IDLE_SHARE:.0%} of a core"
    reached = share >= MANY_SHARE and idle <= IDLE_SHARE
    return goal(what, wanted, f"{share:.0%}, {idle:.2%}", reached)


def _many_table(found: Measured) -> str:
    rows = []
    for client, name in NAMES.items():
        one, many = found[client, "rate"], found[client, "many"]
        rows.append(
            [
                name,
                f"{_rate(one):,.0f}",
                f"{_rate(many):,.0f}",
                f"{_cpu_us(one):.2f}",
                f"{_cpu_us(many):.2f}",
                f"{_median(many, 'first_seconds'):.1f} s",
                f"{max(fact['idle_share'] for fact in many):.2%}",
            ]
        )
    head = ["client", "one topic", f"{MANY:,} topics", "µs, one", f"µs, {MANY:,}"]
    return table([*head, "first contact", "idle"], rows)


def _cpu_us(facts: list[dict[str, float]]) -> float:
    return statistics.median(1e6 * fact["cpu_seconds"] / fact["records"] for fact in facts)


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
_MANY_TEXT = (
    f"The same rate with one topic of {PARTITIONS} partitions and with {MANY:,} topics of one "
    "partition, a record to each in turn: records/s, and µs of a core per record, of all threads "
    "of the client's process. All settings stay as above (linger 5 ms, batches up to 16 KiB, "
    "parley's buffer_memory of 32 MiB, confluent-kafka's queue of 1,000,000 messages). First "
    "contact: a record to each topic, none of which the client knew. Idle: the share of a core "
    "afterwards."
)
