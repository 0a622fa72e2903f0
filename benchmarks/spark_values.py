"""Spark batch read of the values alone, parley against Spark's own connector."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.bench import CODECS, PARTITIONS, Bench, seconds_by
from benchmarks.report import Section, goal, spread, table

FACTOR, ZSTD_FACTOR = 4.5, 3.5
TIMES = 4
"""As many records as the parts that read all columns have: the fixed start would be most of it otherwise."""
ALMOST_EMPTY = "almost-empty"


class Measured(NamedTuple):
    """(topic, source) → seconds of each round."""

    seconds: dict[tuple[str, ...], list[float]]
    fixed: dict[str, list[float]]
    """Source → seconds of the same job over a topic of a record per partition."""
    records: int


def measure(bench: Bench) -> Measured:
    records = TIMES * bench.records
    topics = {f"values-{topic}": CODECS[topic] for topic in bench.topics}
    bench.fill({ALMOST_EMPTY: "none"}, records=PARTITIONS)
    bench.fill(topics, records=records)
    facts = bench.spark_job("values", [*topics, ALMOST_EMPTY])  # that one last: the JVM is warm then
    seconds = seconds_by(facts, "topic", "source")
    fixed = {source: seconds.pop((ALMOST_EMPTY, source)) for source in ("parley", "spark")}
    return Measured(seconds, fixed, records)


def report(found: Measured) -> Section:
    goals, rows = [], []
    fixed = [statistics.median(found.fixed[source]) for source in ("parley", "spark")]
    for topic in dict.fromkeys(key[0] for key in found.seconds):
        both = [found.seconds[topic, source] for source in ("parley", "spark")]
        ours, theirs = (statistics.median(seconds) for seconds in both)
        raw, ratio = theirs / ours, (theirs - fixed[1]) / max(ours - fixed[0], 0.001)
        name, rates = topic.removeprefix("values-"), [f"{found.records / at / 1e6:.2f}" for at in (ours, theirs)]
        starts = ", ".join(f"{seconds:.2f}" for seconds in fixed)
        rows.append([name, *rates, f"{raw:.2f} ×", f"{ratio:.2f} ×", starts, spread(*both)])
        wanted = ZSTD_FACTOR if name == "zstd" else FACTOR
        said = f"{ratio:.2f} × ({raw:.2f} × with it)"
        goals.append(
            goal(f"Spark read of values, without Spark's fixed start, {name}", f"≥ {wanted} ×", said, ratio >= wanted)
        )
    head = ["topic", "parley, M rows/s", "Spark's own, M rows/s", "ratio", "without fixed start"]
    head += ["fixed start, s (parley, Spark's own)", "seconds (parley, Spark's own)"]
    text = _TEXT.format(records=found.records)
    return Section("Spark batch read of the values", f"{text}\n\n{table(head, rows)}", goals)


_TEXT = (
    'The values alone, `.schema("value binary")` for parley and `select("value")` for Spark\'s own connector, of topics'
    " of {records:,} records of 106 bytes, to the noop sink; alternating in one session, and a hash over all rows is"
    " compared at the end. The fixed start is what the same job takes over a topic with one record in each of its four"
    " partitions: planning, tasks, connections. The rates and the first ratio have it in them, the second has it taken"
    " off both sides."
)
