"""How near parley comes to what Spark can take: the same batches handed over from memory."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.bench import Bench, seconds_by
from benchmarks.report import Section, goal, spread, table

SHARE, COMPRESSED_SHARE = 75, 65


class Measured(NamedTuple):
    """(topic, source) → seconds of each round; a source is "parley" or "ceiling"."""

    seconds: dict[tuple[str, ...], list[float]]
    records: int


def measure(bench: Bench) -> Measured:
    bench.fill_all()
    return Measured(
        seconds_by(bench.spark_job("ceiling", bench.topics), "topic", "source"), bench.records
    )


def report(found: Measured) -> Section:
    goals, rows = [], []
    for topic in dict.fromkeys(key[0] for key in found.seconds):
        both = [found.seconds[topic, source] for source in ("parley", "ceiling")]
        ours, ceiling = (statistics.median(seconds) for seconds in both)
        percent, wanted = 100 * ceiling / ours, SHARE if topic == "plain" else COMPRESSED_SHARE
        rates = [f"{found.records / seconds / 1e6:.2f}" for seconds in (ours, ceiling)]
        rows.append([topic, *rates, f"{percent:.0f} %", spread(*both)])
        goals.append(
            goal(
                f"share of Spark's ceiling, {topic}",
                f"≥ {wanted} %",
                f"{percent:.0f} %",
                percent >= wanted,
            )
        )
    head = [
        "topic",
        "parley, M rows/s",
        "from memory, M rows/s",
        "share",
        "seconds (parley, from memory)",
    ]
    return Section("Share of Spark's ceiling", f"{_TEXT}\n\n{table(head, rows)}", goals)


_TEXT = (
    "How fast Spark takes rows from any Python source, whatever it reads: parley's "
    "own Arrow batches, of as many tasks and with as many rows each, are kept in "
    "memory, and a source in the same session hands them over without copying or "
    "decoding. All seven columns to the noop sink, alternating with parley; the "
    "broker is up, and a hash over all rows of both is compared at the end."
)
