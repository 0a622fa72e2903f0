"""How long `import parley` takes, and three embedded brokers; each in fresh interpreters."""

from __future__ import annotations

import statistics
import sys

from benchmarks.bench import Bench, progress, run_json
from benchmarks.report import Section, goal, table

IMPORT_SECONDS, CLUSTER_SECONDS = 0.2, 0.5


def measure(bench: Bench) -> dict[str, float]:
    """Return the median seconds of what was started, by its name."""
    return {what: _measure(what, bench.rounds) for what in ("import", "cluster")}


def _measure(what: str, rounds: int) -> float:
    """Return the median seconds of several interpreters; the first one fills
    caches and is not counted.
    """
    command = [sys.executable, "-m", "benchmarks.startup_process", what]
    seconds = [float(run_json(command)[0]["seconds"]) for _ in range(rounds + 1)]
    progress(f"{what}: {seconds}")
    return statistics.median(seconds[1:])


def report(found: dict[str, float]) -> Section:
    goals = []
    for what, name, limit in (
        ("import", "`import parley`", IMPORT_SECONDS),
        ("cluster", "three embedded brokers ready", CLUSTER_SECONDS),
    ):
        if what in found:
            goals.append(goal(name, f"< {limit} s", f"{found[what]:.3f} s", found[what] < limit))
    rows = [[what, f"{seconds * 1000:.0f} ms"] for what, seconds in found.items()]
    return Section("Start", table(["what", "median"], rows), goals)
