"""How long a micro-batch of one row takes, parley's source against Spark's own connector."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.report import Section, goal, table

MORE_MS = 150


class Measured(NamedTuple):
    """Milliseconds of each micro-batch, by source."""

    ms: dict[str, list[float]]


def measure(bench: Bench) -> Measured:
    ms: dict[str, list[float]] = {}
    for fact in bench.spark_job("latency", []):
        ms.setdefault(fact["source"], []).append(fact["ms"])
    return Measured(ms)


def report(found: Measured) -> Section:
    medians = {source: statistics.median(ms) for source, ms in found.ms.items()}
    more = medians["parley"] - medians["spark"]
    rows = [
        [
            source,
            f"{medians[source]:.0f} ms",
            f"{min(found.ms[source]):.0f}-{max(found.ms[source]):.0f} ms",
        ]
        for source in sorted(found.ms)
    ]
    return Section(
        "A micro-batch of one row",
        f"{_TEXT}\n\n{table(['source', 'median', 'from, to'], rows)}",
        [
            goal(
                "micro-batch of one row",
                f"≤ Spark's own + {MORE_MS} ms",
                f"{more:+.0f} ms",
                more <= MORE_MS,
            )
        ],
    )


_TEXT = (
    "What Spark reports as `triggerExecution` of a micro-batch with one new row in "
    "a topic of four partitions, noop sink, checkpoint on the same disk; a query "
    "of each source in turn, whose first five rows are not counted."
)
