"""The peak memory of a Python worker of Spark that reads, for a small topic and for large ones."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.report import Section, goal, table

MEMORY_MB = 300
SMALL_TOPIC = "small"


class Measured(NamedTuple):
    """Peak megabytes of a reading worker by topic, in the order in which they were read."""

    peak_mb: dict[str, float]
    small_records: int


def measure(bench: Bench) -> Measured:
    small = max(bench.records // 10, 1)
    bench.fill({SMALL_TOPIC: "none"}, records=small)
    bench.fill_all()
    facts = bench.spark_job("memory", [SMALL_TOPIC, *bench.topics])
    return Measured({fact["topic"]: fact["peak_rss_mb"] for fact in facts}, small)


def report(found: Measured) -> Section:
    peak = max(found.peak_mb.values())
    text = (
        "Highest resident memory of any Python worker of Spark while all seven columns are read, topic after"
        f" topic in one session (`{SMALL_TOPIC}` has {found.small_records:,} records)."
    )
    rows = [[topic, f"{megabytes:.0f} MB"] for topic, megabytes in found.peak_mb.items()]
    return Section(
        "Memory of a reading task",
        f"{text}\n\n{table(['topic', 'peak'], rows)}",
        [goal("memory of a reading task", f"≤ {MEMORY_MB} MB", f"{peak:.0f} MB", peak <= MEMORY_MB)],
    )
