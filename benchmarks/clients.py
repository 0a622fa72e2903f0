"""The Arrow client against the other Python clients, each in a process of its own."""

from __future__ import annotations

import statistics
import sys

from benchmarks.bench import PARTITIONS, Bench, progress, run_json
from benchmarks.report import Section, goal, table

CLIENTS = {
    # name → share of the topic's records that it reads:
    # the slow ones would only take longer, not go slower.
    "parley_arrow": 1.0,
    "confluent_tuned": 1.0,
    "confluent": 0.25,
    "aiokafka_getmany": 0.125,
    "kafka_python_poll": 0.125,
}
NAMES = {
    "parley_arrow": "parley, Arrow batches",
    "confluent_tuned": "confluent-kafka, consume(), fetch.queue.backoff.ms=1",
    "confluent": "confluent-kafka, consume(), defaults",
    "aiokafka_getmany": "aiokafka, getmany()",
    "kafka_python_poll": "kafka-python, poll()",
}
CLIENT_FACTOR = 3.0

Measured = dict[tuple[str, str], list[dict[str, float]]]
"""(topic, client) → rows, seconds and peak_rss_mb of each round."""


def measure(bench: Bench) -> Measured:
    """Run the clients in turn, round after round; the first round warms the page
    cache and is not counted.
    """
    bench.fill_all()
    found: Measured = {}
    for topic in bench.topics:
        for turn in range(bench.rounds + 1):
            for client, share in CLIENTS.items():
                records = int(bench.records * share)
                module = f"benchmarks.contestants.{client}"
                command = [
                    sys.executable,
                    "-m",
                    module,
                    bench.bootstrap_servers,
                    topic,
                    str(PARTITIONS),
                ]
                (fact,) = run_json([*command, str(records)])
                progress(f"{topic} {client}: {fact['rows'] / fact['seconds']:,.0f} records/s")
                if turn > 0:
                    found.setdefault((topic, client), []).append(fact)
    return found


def report(found: Measured) -> Section:
    goals, rows = [], []
    for (topic, client), facts in found.items():
        rate = _rate(facts)
        ratio = rate / _rate(found[topic, "confluent_tuned"])
        peak = max(fact["peak_rss_mb"] for fact in facts)
        rows.append([topic, NAMES[client], f"{rate / 1e6:.3f}", f"{ratio:.2f} ×", f"{peak:.0f} MB"])
        if client == "parley_arrow":
            what = f"Arrow client against consume(), {topic}"
            goals.append(
                goal(what, f"≥ {CLIENT_FACTOR} ×", f"{ratio:.2f} ×", ratio >= CLIENT_FACTOR)
            )
    head = ["topic", "client", "M records/s", "against tuned consume()", "peak memory"]
    return Section("Clients", f"{_TEXT}\n\n{table(head, rows)}", goals)


def _rate(facts: list[dict[str, float]]) -> float:
    return statistics.median(fact["rows"] / fact["seconds"] for fact in facts)


_TEXT = (
    "Each in a process of its own; all partitions from the first record to the last; "
    "connecting is counted, imports are not. parley checks every CRC and builds all "
    "columns; confluent-kafka checks none (its default) and its messages are not "
    "looked at. Ratios are against the faster of its two settings. The pure-Python "
    "clients read an eighth of the topic, confluent-kafka with its defaults a quarter."
)
