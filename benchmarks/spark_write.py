"""Spark batch write, parley at least once and exactly once against Spark's own sink."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.bench import Bench, seconds_by
from benchmarks.report import Section, goal, spread, table

FACTOR, EXACTLY_ONCE_FACTOR = 1.8, 1.2
SOURCES = ("parley", "exactly-once", "spark")


class Measured(NamedTuple):
    """(topic, contestant) → seconds of each round; and how many turns of
    Spark's own sink failed.
    """

    seconds: dict[tuple[str, ...], list[float]]
    records: int
    failures: int


def measure(bench: Bench) -> Measured:
    bench.fill({"plain": "none"}, records=bench.records)
    facts = bench.spark_job("write", bench.topics)
    failures = sum(fact["kind"] == "failed" for fact in facts)
    return Measured(seconds_by(facts, "topic", "source"), bench.records, failures)


def report(found: Measured) -> Section:
    goals, rows = [], []
    for topic in dict.fromkeys(key[0] for key in found.seconds):
        all_three = [found.seconds[topic, source] for source in SOURCES]
        ours, exact, theirs = (statistics.median(seconds) for seconds in all_three)
        rates = [f"{found.records / seconds / 1e6:.2f}" for seconds in (ours, exact, theirs)]
        ratios = [theirs / ours, theirs / exact]
        rows.append([topic, *rates, *(f"{ratio:.2f} ×" for ratio in ratios), spread(*all_three)])
        for what, wanted, ratio in (
            ("write at least once", FACTOR, ratios[0]),
            ("write exactly once", EXACTLY_ONCE_FACTOR, ratios[1]),
        ):
            goals.append(
                goal(f"{what}, {topic}", f"≥ {wanted} ×", f"{ratio:.2f} ×", ratio >= wanted)
            )
    head = [
        "topic",
        "at least once, M rows/s",
        "exactly once",
        "Spark's own",
        "ratio",
        "exactly once",
        "seconds",
    ]
    failed = (
        f" Turns of Spark's own sink that failed and were repeated: {found.failures}."
        if found.failures
        else ""
    )
    return Section(
        "Spark batch write, against Spark's own sink",
        f"{_TEXT}{failed}\n\n{table(head, rows)}",
        goals,
    )


_TEXT = (
    "One PySpark 4.2.0 session, `local[2]`; key and value of the topic `plain` are cached by "
    "Spark, four partitions, and written with kafka.compression.type as the table says, each "
    "turn into a new topic of four partitions by the hash of the key. parley's defaults "
    "(acks=all, idempotent) against Spark's own sink with its defaults (at least once, acks=all, "
    "idempotent); both ratios are against the latter. After each turn the committed rows are "
    "read and counted. Planning, handing the tasks to Spark's Python workers and committing are "
    "part of the seconds (at least once, exactly once, Spark's own)."
)
