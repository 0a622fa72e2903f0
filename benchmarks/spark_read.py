"""Spark batch read of all columns, parley against Spark's own connector."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.bench import SOURCES, Bench, seconds_by
from benchmarks.report import Section, goal, spread, table

JOBS = ("noop", "aggregation")
FACTOR, COMPRESSED_FACTOR = 2.5, 2.3


class Measured(NamedTuple):
    """(topic, job, source) → seconds of each round."""

    seconds: dict[tuple[str, ...], list[float]]
    records: int


def measure(bench: Bench) -> Measured:
    bench.fill_all()
    return Measured(
        seconds_by(bench.spark_job("read", bench.topics), "topic", "job", "source"), bench.records
    )


def report(found: Measured) -> Section:
    goals, rows = [], []
    for topic, job in dict.fromkeys(key[:2] for key in found.seconds):
        both = [found.seconds[topic, job, source] for source in SOURCES]
        ours, theirs = (found.records / statistics.median(seconds) / 1e6 for seconds in both)
        ratio = ours / theirs
        rows.append([topic, job, f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.2f} ×", spread(*both)])
        if job == "noop":
            factor = FACTOR if topic == "plain" else COMPRESSED_FACTOR
            goals.append(
                goal(f"Spark read, {topic}", f"≥ {factor} ×", f"{ratio:.2f} ×", ratio >= factor)
            )
    head = [
        "topic",
        "job",
        "parley, M rows/s",
        "Spark's own, M rows/s",
        "ratio",
        "seconds (parley, Spark's own)",
    ]
    return Section(
        "Spark batch read, against Spark's own connector", f"{_TEXT}\n\n{table(head, rows)}", goals
    )


_TEXT = (
    "One PySpark 4.2.0 session, `local[2]`, both sources in it, alternating. *noop*: "
    "all seven columns into Spark's noop sink; *aggregation*: count, minimum, maximum "
    "and summed length by partition. A hash over every row of both sources is compared "
    "at the end. Spark's connector runs in the JVM and parley in Spark's Python workers."
)
