"""Spark batch read of a topic whose one partition holds everything, split over the tasks."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.bench import CODECS, SOURCES, Bench, seconds_by
from benchmarks.report import Section, goal, spread, table

FACTOR = 2.5
SPLIT = 2
"""minPartitions: a task per core."""


class Measured(NamedTuple):
    """(topic, source) → seconds of each round."""

    seconds: dict[tuple[str, ...], list[float]]
    records: int


def measure(bench: Bench) -> Measured:
    topics = {f"hot-{topic}": CODECS[topic] for topic in bench.topics}
    bench.fill(topics, records=bench.records, partitions=1)
    facts = bench.spark_job("hot", list(topics), "--split", str(SPLIT))
    return Measured(seconds_by(facts, "topic", "source"), bench.records)


def report(found: Measured) -> Section:
    goals, rows = [], []
    for topic in dict.fromkeys(key[0] for key in found.seconds):
        both = [found.seconds[topic, source] for source in SOURCES]
        ours, theirs = (found.records / statistics.median(seconds) / 1e6 for seconds in both)
        ratio, name = ours / theirs, topic.removeprefix("hot-")
        rows.append([name, f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.2f} ×", spread(*both)])
        goals.append(
            goal(
                f"Spark read of one hot partition, {name}",
                f"≥ {FACTOR} ×",
                f"{ratio:.2f} ×",
                ratio >= FACTOR,
            )
        )
    head = [
        "topic",
        "parley, M rows/s",
        "Spark's own, M rows/s",
        "ratio",
        "seconds (parley, Spark's own)",
    ]
    return Section("One hot partition", f"{_TEXT}\n\n{table(head, rows)}", goals)


_TEXT = (
    f"A topic of one partition; `minPartitions={SPLIT}` makes both sources split it "
    f"over {SPLIT} tasks, one per core. All seven columns to the noop sink, "
    "alternating in one session; a hash over all rows is compared at the end."
)
