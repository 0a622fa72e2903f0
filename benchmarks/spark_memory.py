"""The peak memory of a Python worker of Spark that reads, above that of
one with an empty source.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.report import Section, goal, table

MEMORY_MB = 200
SMALL_TOPIC = "small"


class Measured(NamedTuple):
    """Peak megabytes of a worker: with an empty source, and reading, by topic in the
    order in which they were read.
    """

    empty_mb: float
    peak_mb: dict[str, float]
    small_records: int


def measure(bench: Bench) -> Measured:
    small = max(bench.records // 10, 1)
    bench.fill({SMALL_TOPIC: "none"}, records=small)
    bench.fill_all()
    facts = bench.spark_job("memory", [SMALL_TOPIC, *bench.topics])
    peaks = {fact["topic"]: fact["peak_rss_mb"] for fact in facts if fact["kind"] == "memory"}
    (empty,) = (fact["peak_rss_mb"] for fact in facts if fact["kind"] == "empty")
    return Measured(empty, peaks, small)


def report(found: Measured) -> Section:
    more = max(found.peak_mb.values()) - found.empty_mb
    text = (
        "Highest resident memory of any Python worker of Spark while all seven "
        f"columns are read, topic after topic in one session (`{SMALL_TOPIC}` "
        f"has {found.small_records:,} records). A source of four tasks without "
        f"rows, first in the same session, took {found.empty_mb:.0f} MB."
    )
    rows = [
        [topic, f"{megabytes:.0f} MB", f"{megabytes - found.empty_mb:.0f} MB"]
        for topic, megabytes in found.peak_mb.items()
    ]
    return Section(
        "Memory of a reading task",
        f"{text}\n\n{table(['topic', 'peak', 'above an empty source'], rows)}",
        [
            goal(
                "memory of a reading task",
                f"≤ {MEMORY_MB} MB more",
                f"{more:.0f} MB",
                more <= MEMORY_MB,
            )
        ],
    )
