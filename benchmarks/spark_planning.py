"""Planning: 10,000 and 100,000 partitions in one batch, an idle stream's polls, and the memory of
the process that does it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Any, NamedTuple

from benchmarks.bench import ROOT, Bench, run_json
from benchmarks.report import Section, goal, table

FEW, PARTITIONS, MOST = 4, 10_000, 100_000
ALL_WORK = ("batch", "stream", "empty")
WORK = {FEW: ALL_WORK, PARTITIONS: ALL_WORK, MOST: ("batch",)}
"""Partitions → what is measured."""
PLAN_SECONDS, POLL_MS, DRIVER_MB = 1.0, 20, 120
MOST_SECONDS, MOST_MB = 10.0, 500


class Measured(NamedTuple):
    """What each process said, round after round, by what it did and of how many partitions."""

    facts: dict[tuple[str, int], list[dict[str, Any]]]


def measure(bench: Bench) -> Measured:
    facts: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for partitions, work in WORK.items():
        command = [sys.executable, "-m", "benchmarks.many_partitions", str(partitions)]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as cluster:
            assert cluster.stdout is not None
            assert cluster.stdin is not None
            ready = json.loads(cluster.stdout.readline())
            for turn in range(bench.rounds + 1):
                for what in work:
                    job = [
                        bench.spark_python,
                        "-m",
                        "benchmarks.jobs.planning",
                        what,
                        ready["bootstrap"],
                        ready["topics"],
                    ]
                    (fact,) = run_json(job)
                    if turn > 0:
                        facts.setdefault((what, partitions), []).append(fact)
            cluster.stdin.close()
    return Measured(facts)


def report(found: Measured) -> Section:
    rows, peaks = [], {}
    for (what, partitions), facts in found.facts.items():
        peaks[what, partitions] = statistics.median(fact["peak_mb"] for fact in facts)
        seconds = statistics.median(fact["seconds"] for fact in facts)
        poll = ""
        if "polls" in facts[0] and what == "stream":
            poll = f"{_poll_ms(facts):.1f} ms"
        planned = "" if what == "empty" else f"{seconds * 1000:.0f} ms"
        rows.append([what, f"{partitions:,}", planned, poll, f"{peaks[what, partitions]:.0f} MB"])
    plan = statistics.median(fact["seconds"] for fact in found.facts["batch", PARTITIONS])
    most = statistics.median(fact["seconds"] for fact in found.facts["batch", MOST])
    idle = _poll_ms(found.facts["stream", FEW])
    more = max(peaks[what, PARTITIONS] for what in ("batch", "stream")) - peaks["empty", PARTITIONS]
    goals = [
        goal(
            "plan a read of 10,000 partitions",
            f"≤ {PLAN_SECONDS:.0f} s",
            f"{plan:.2f} s",
            plan <= PLAN_SECONDS,
        ),
        goal("idle poll", f"≤ {POLL_MS} ms", f"{idle:.1f} ms", idle <= POLL_MS),
        goal(
            "driver's process, 10,000 partitions",
            f"≤ {DRIVER_MB} MB more",
            f"{more:.0f} MB",
            more <= DRIVER_MB,
        ),
        goal(
            f"plan a read of {MOST:,} partitions",
            f"≤ {MOST_SECONDS:.0f} s, ≤ {MOST_MB} MB",
            f"{most:.1f} s, {peaks['batch', MOST]:.0f} MB",
            most <= MOST_SECONDS and peaks["batch", MOST] <= MOST_MB,
        ),
    ]
    head = ["process", "partitions", "planned in", "idle poll", "peak memory"]
    return Section("Planning", f"{_TEXT}\n\n{table(head, rows)}", goals)


def _poll_ms(facts: list[dict[str, Any]]) -> float:
    """Return the median of all polls but each process's first."""
    return 1000 * float(
        statistics.median(seconds for fact in facts for seconds in fact["polls"][1:])
    )


_TEXT = (
    "Each in a fresh process that has imported what Spark's planner has imported, "
    "against an embedded cluster of three brokers in another process, with a record in "
    "each partition. *batch*: connecting, metadata, both ends of all partitions and "
    "their ranges; *stream*: the ranges of a first micro-batch of everything, and "
    "`latestOffset` with nothing new, asked without a pause; *empty*: the same calls of "
    "a source of nothing, for what such a process weighs by itself. 100,000 partitions are "
    "those of ten topics."
)
