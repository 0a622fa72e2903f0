"""How long Spark's driver takes to commit a micro-batch into a Delta table."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.report import Section, goal, table

MOST_MS = 150


class Measured(NamedTuple):
    """Milliseconds of each commit."""

    ms: list[float]


def measure(bench: Bench) -> Measured:
    return Measured([fact["ms"] for fact in bench.spark_job("commits", [])])


def report(found: Measured) -> Section:
    median, ninth = statistics.median(found.ms), statistics.quantiles(found.ms, n=10)[-1]
    row = [f"{len(found.ms)}", f"{median:.0f} ms", f"{ninth:.0f} ms", f"{max(found.ms):.0f} ms"]
    return Section(
        "Commits into a Delta table",
        f"{_TEXT}\n\n{table(['commits', 'median', 'nine of ten below', 'longest'], [row])}",
        [goal("commit of a batch into Delta", f"≤ {MOST_MS} ms", row[1], median <= MOST_MS)],
    )


_TEXT = (
    "Micro-batches of 25 records from two partitions into a new table by `parley-delta`, 40 a "
    "query: the time from the end of a batch's last task until Spark has it written. The first "
    "five, in which Spark starts the process that commits, are not counted."
)
