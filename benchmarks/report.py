"""The text of RESULTS.md: what must be reached, then the section of each part,
with how it was measured.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import parley

HEAD, GOALS = "# Benchmark results", "## Must be reached"
MEASURED_BY = "Measured by "
GOALS_HEAD = ["what", "wanted", "measured", ""]


class Section(NamedTuple):
    """What one part says: its section, and its rows in the table of what must be reached."""

    title: str
    text: str
    goals: list[list[str]]


def write_report(sections: Sequence[Section], *, command: str, cores: int, rounds: int) -> str:
    """Return RESULTS.md; parts that were not run are left out."""
    note = (
        f"{MEASURED_BY}`{command}`, {datetime.date.today().isoformat()}, medians of {rounds} "
        f"rounds. {_machine(cores)}"
    )
    pieces = [
        HEAD,
        _TEXT,
        GOALS,
        table(GOALS_HEAD, [row for section in sections for row in section.goals]),
    ]
    for section in sections:
        pieces += [f"## {section.title}", section.text, note]
    return "\n\n".join(pieces) + "\n"


_TEXT = (
    "Written by the command, not by hand: `make bench`, or single parts by `python -m "
    "benchmarks.run --only PART`; below each section stands which run measured it. A real "
    "Kafka 3.9.1 broker with its defaults, topics of 4 partitions with records of 106 bytes "
    "(key 10, value 96), written by the Java producer with its default batch size. Broker "
    "and readers share the processors, and the readers take turns."
)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def goal(what: str, wanted: str, measured: str, reached: bool) -> list[str]:
    """Return the row of something that must be reached; `what` names it for good,
    for runs of single parts.
    """
    return [what, wanted, measured, "reached" if reached else "**missed**"]


def spread(*sources: list[float]) -> str:
    """Return from where to where the rounds of each source went, in seconds."""
    return ", ".join(f"{min(seconds):.2f}-{max(seconds):.2f}" for seconds in sources)


def _machine(cores: int) -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    others = ("pyarrow", "confluent-kafka", "aiokafka", "kafka-python")
    packages = ", ".join(
        # parley's is that of the source, which may run without being installed
        [f"kafka-parley {parley.__version__}", *(f"{name} {version(name)}" for name in others)]
    )
    load = os.getloadavg()[0]
    return (
        f"{model}, {cores} of {os.cpu_count()} cores used, {memory_gib:.0f} GiB, "
        f"{platform.system()} {platform.release().split('-')[0]}, Python "
        f"{platform.python_version()}, load at the end {load:.1f}. {packages}."
    )
