"""The memory of the Python processes below this one: Spark's workers and planners."""

from __future__ import annotations

import os
from pathlib import Path

RESIDENT, PEAK = "VmRSS:", "VmHWM:"


def python_megabytes(field: str) -> dict[int, float]:
    """Return the resident (RESIDENT) or highest resident (PEAK) memory of each process, by its id."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    found = {}
    for pid in mine - {os.getpid()}:
        try:
            program = (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0", 1)[0]
            if b"python" in program.rsplit(b"/", 1)[-1]:  # Spark's Java has pyspark's folder in its arguments
                for line in (Path("/proc") / str(pid) / "status").read_text().splitlines():
                    if line.startswith(field):
                        found[pid] = int(line.split()[1]) / 1024
        except OSError:
            continue
    return found
