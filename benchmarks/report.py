"""The text of RESULTS.md: what must be reached, then every measurement, then the machine."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.run import Results

NAMES = {
    "parley_arrow": "parley, Arrow batches",
    "confluent_tuned": "confluent-kafka, consume(), fetch.queue.backoff.ms=1",
    "confluent": "confluent-kafka, consume(), defaults",
    "aiokafka_getmany": "aiokafka, getmany()",
    "kafka_python_poll": "kafka-python, poll()",
}
SPARK_FACTOR, CLIENT_FACTOR, MEMORY_MB, IMPORT_SECONDS, CLUSTER_SECONDS = 2.0, 3.0, 300, 0.2, 0.5


def write_report(results: Results, *, command: str, cores: int) -> str:
    """Return RESULTS.md; parts that were not run are left out."""
    parts = [
        "# Benchmark results",
        f"Written by the command, not by hand: `{command}`, {datetime.date.today().isoformat()}."
        f" A real Kafka 3.9.1 broker with its defaults, topics of 4 partitions with {results.records:,} records of 106"
        f" bytes (key 10, value 96) each, written by the Java producer with its default batch size. Broker and readers"
        f" share {cores} cores. Medians of {results.rounds} rounds, in which the readers take turns.",
        "## Must be reached",
        table(["what", "wanted", "measured", ""], _goals(results)),
    ]
    if results.spark:
        parts += ["## Spark batch read, against Spark's own connector", _spark_text(), _spark_table(results)]
    if results.clients:
        parts += ["## Clients", _clients_text(), _clients_table(results)]
    if results.memory:
        rows = [[topic, f"{peak:.0f} MB"] for topic, peak in results.memory.items()]
        parts += [
            "## Memory of a reading task",
            "Highest resident memory of any Python worker of Spark while all seven columns are read, topic after"
            f" topic in one session (`small` has {results.records // 10:,} records).",
            table(["topic", "peak"], rows),
        ]
    if results.startup:
        rows = [[what, f"{seconds * 1000:.0f} ms"] for what, seconds in results.startup.items()]
        parts += ["## Start", table(["what", "median"], rows)]
    parts += ["## Machine and versions", _machine(cores)]
    return "\n\n".join(parts) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _goals(results: Results) -> list[list[str]]:
    rows = []
    for topic in _topics(results):
        ours, theirs = (results.spark.get((topic, "noop", source)) for source in ("parley", "spark"))
        if ours and theirs:
            ratio = statistics.median(theirs) / statistics.median(ours)
            rows.append(_goal(f"Spark read, {topic}", f"≥ {SPARK_FACTOR} ×", f"{ratio:.2f} ×", ratio >= SPARK_FACTOR))
    for topic in _topics(results):
        if (topic, "parley_arrow") in results.clients:
            ratio = _rate(results, topic, "parley_arrow") / _rate(results, topic, "confluent_tuned")
            what = f"Arrow client against consume(), {topic}"
            rows.append(_goal(what, f"≥ {CLIENT_FACTOR} ×", f"{ratio:.2f} ×", ratio >= CLIENT_FACTOR))
    if results.memory:
        peak = max(results.memory.values())
        rows.append(_goal("memory of a reading task", f"≤ {MEMORY_MB} MB", f"{peak:.0f} MB", peak <= MEMORY_MB))
    for what, name, limit in (
        ("import", "`import parley`", IMPORT_SECONDS),
        ("cluster", "three embedded brokers ready", CLUSTER_SECONDS),
    ):
        if what in results.startup:
            seconds = results.startup[what]
            rows.append(_goal(name, f"< {limit} s", f"{seconds:.3f} s", seconds < limit))
    return rows


def _goal(what: str, wanted: str, measured: str, reached: bool) -> list[str]:
    return [what, wanted, measured, "reached" if reached else "**missed**"]


def _topics(results: Results) -> list[str]:
    return list(dict.fromkeys(key[0] for key in [*results.spark, *results.clients]))


def _rate(results: Results, topic: str, client: str) -> float:
    return statistics.median(fact["rows"] / fact["seconds"] for fact in results.clients[topic, client])


def _spark_text() -> str:
    return (
        "One PySpark 4.2.0 session, `local[2]`, both sources in it, alternating. *noop*: all seven columns into"
        " Spark's noop sink; *aggregation*: count, minimum, maximum and summed length by partition. A hash over every"
        " row of both sources is compared at the end. Spark's connector runs in the JVM and parley in Spark's Python"
        " workers."
    )


def _spark_table(results: Results) -> str:
    rows = []
    for topic in _topics(results):
        for job in ("noop", "aggregation"):
            seconds = [results.spark.get((topic, job, source)) for source in ("parley", "spark")]
            if seconds[0] and seconds[1]:
                ours, theirs = (results.records / statistics.median(s) / 1e6 for s in seconds if s)
                spread = ", ".join(f"{min(s):.2f}-{max(s):.2f}" for s in seconds if s)
                rows.append([topic, job, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f} ×", spread])
    head = ["topic", "job", "parley, M rows/s", "Spark's own, M rows/s", "ratio", "seconds (parley, Spark's own)"]
    return table(head, rows)


def _clients_text() -> str:
    return (
        "Each in a process of its own; all partitions from the first record to the last; connecting is counted,"
        " imports are not. parley checks every CRC and builds all columns; confluent-kafka checks none (its default)"
        " and its messages are not looked at. Ratios are against the faster of its two settings. The"
        " pure-Python clients read an eighth of the topic, confluent-kafka with its defaults a quarter."
    )


def _clients_table(results: Results) -> str:
    rows = []
    for (topic, client), facts in results.clients.items():
        rate = _rate(results, topic, client)
        ratio = rate / _rate(results, topic, "confluent_tuned")
        peak = max(fact["peak_rss_mb"] for fact in facts)
        rows.append([topic, NAMES[client], f"{rate / 1e6:.3f}", f"{ratio:.2f} ×", f"{peak:.0f} MB"])
    return table(["topic", "client", "M records/s", "against tuned consume()", "peak memory"], rows)


def _machine(cores: int) -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("kafka-parley", "pyarrow", "confluent-kafka", "aiokafka", "kafka-python")
    )
    load = os.getloadavg()[0]
    return (
        f"{model}, {cores} of {os.cpu_count()} cores used, {memory_gib:.0f} GiB, {platform.system()}"
        f" {platform.release().split('-')[0]}, Python {platform.python_version()}, load at the end {load:.1f}."
        f" {packages}."
    )
