"""Spark batch read of the values alone, parley against Spark's own connector."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.bench import CODECS, PARTITIONS, SOURCES, Bench, seconds_by
from benchmarks.report import Section, goal, spread, table

FACTOR, ZSTD_FACTOR = 4.5, 3.5
TIMES = 4
"""As many records as the parts that read all columns have: the fixed start
would be most of it otherwise.
"""
ALMOST_EMPTY = "almost-empty"
UNIX_SOCKETS = ", Unix sockets"


class Session(NamedTuple):
    """What one session took."""

    seconds: dict[tuple[str, ...], list[float]]
    """(topic, source) → seconds of each round."""
    fixed: dict[str, list[float]]
    """Source → seconds of the same job over a topic of a record per partition."""

    def starts(self) -> list[float]:
        """Return the fixed start of parley and of Spark's own."""
        return [statistics.median(self.fixed[source]) for source in SOURCES]

    def rounds(self, topic: str) -> list[list[float]]:
        """Return the seconds of parley and of Spark's own."""
        return [self.seconds[topic, source] for source in SOURCES]

    def ratios(self, topic: str) -> tuple[float, float]:
        """Return by what parley is faster: with the fixed start, and with it
        taken off both sides.
        """
        (ours, theirs), (our_start, their_start) = (
            map(statistics.median, self.rounds(topic)),
            self.starts(),
        )
        return theirs / ours, (theirs - their_start) / max(ours - our_start, 0.001)


class Measured(NamedTuple):
    """The sessions, by what their rows are called beside the topic: "" is
    as Spark sets itself up.
    """

    sessions: dict[str, Session]
    records: int


def measure(bench: Bench) -> Measured:
    records = TIMES * bench.records
    topics = {f"values-{topic}": CODECS[topic] for topic in bench.topics}
    bench.fill({ALMOST_EMPTY: "none"}, records=PARTITIONS)
    bench.fill(topics, records=records)
    sessions = {
        "": _session(bench, topics),
        UNIX_SOCKETS: _session(bench, topics, "--unix-sockets"),
    }
    return Measured(sessions, records)


def _session(bench: Bench, topics: Iterable[str], *more: str) -> Session:
    # that one last: the JVM is warm then
    facts = bench.spark_job("values", [*topics, ALMOST_EMPTY], *more)
    seconds = seconds_by(facts, "topic", "source")
    return Session(seconds, {source: seconds.pop((ALMOST_EMPTY, source)) for source in SOURCES})


def report(found: Measured) -> Section:
    goals, rows = [], []
    for topic in dict.fromkeys(key[0] for key in found.sessions[""].seconds):
        name = topic.removeprefix("values-")
        for session, measured in found.sessions.items():
            rates = [
                f"{found.records / statistics.median(at) / 1e6:.2f}"
                for at in measured.rounds(topic)
            ]
            ratios = [f"{ratio:.2f} ×" for ratio in measured.ratios(topic)]
            starts = ", ".join(f"{seconds:.2f}" for seconds in measured.starts())
            rows.append([name + session, *rates, *ratios, starts, spread(*measured.rounds(topic))])
        raw, ratio = found.sessions[""].ratios(topic)
        wanted = ZSTD_FACTOR if name == "zstd" else FACTOR
        said = f"{ratio:.2f} × ({raw:.2f} × with it)"
        goals.append(
            goal(
                f"Spark read of values, without Spark's fixed start, {name}",
                f"≥ {wanted} ×",
                said,
                ratio >= wanted,
            )
        )
    head = ["topic", "parley, M rows/s", "Spark's own, M rows/s", "ratio", "without fixed start"]
    head += ["fixed start, s (parley, Spark's own)", "seconds (parley, Spark's own)"]
    text = _TEXT.format(records=found.records)
    return Section("Spark batch read of the values", f"{text}\n\n{table(head, rows)}", goals)


_TEXT = (
    'The values alone, `.schema("value binary")` for parley and `select("value")` for '
    "Spark's own connector, of topics of {records:,} records of 106 bytes, to the noop "
    "sink; alternating in one session, and a hash over all rows is compared at the end. "
    "The fixed start is what the same job takes over a topic with one record in each of "
    "its four partitions: planning, tasks, connections. The rates and the first ratio have "
    "it in them, the second has it taken off both sides. *Unix sockets*: the same in a "
    "session with `spark.python.unix.domain.socket.enabled=true` (Spark 4.1 and later, off "
    "by default), by which Spark's JVM and its Python workers talk over a Unix socket "
    "instead of TCP; it is no part of what is wanted."
)
