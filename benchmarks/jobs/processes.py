"""The processes below this one, Spark's JVM, workers and planners: their memory, and
the processor time they took.
"""

from __future__ import annotations

import os
from pathlib import Path

RESIDENT, PEAK = "VmRSS:", "VmHWM:"
PROC = Path("/proc")
_OWN, _WITH_ENDED_CHILDREN = slice(11, 13), slice(11, 15)
"""Fields of /proc/PID/stat behind the name: user and system time, and those of
children that were waited for.
"""


def python_megabytes(field: str) -> dict[int, float]:
    """Return the resident (RESIDENT) or highest resident (PEAK) memory of each
    Python process, by its id.
    """
    found = {}
    for pid in _below():
        try:
            if _is_python(pid):
                found[pid] = _megabytes(str(pid), field)
        except (OSError, StopIteration):  # it has just ended
            continue
    return found


def own_megabytes(field: str) -> float:
    """Return the same of this process. (`ru_maxrss` is that of the process that
    started it, where that was more.)
    """
    return _megabytes("self", field)


def processor_seconds(broker: int) -> dict[str, float]:
    """Return what Spark's JVM, its Python processes (ended ones too) and a broker's
    process have taken so far.
    """
    taken = {"jvm": 0.0, "python": 0.0, "broker": _ticks(broker, _OWN)}
    for pid in _below():
        try:
            if _is_python(pid):
                taken["python"] += _ticks(pid, _WITH_ENDED_CHILDREN)
            else:
                taken["jvm"] += _ticks(pid, _OWN)
        except OSError:
            continue
    return {kind: ticks / os.sysconf("SC_CLK_TCK") for kind, ticks in taken.items()}


def _megabytes(process: str, field: str) -> float:
    lines = (PROC / process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def _below() -> set[int]:
    parents = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
            except OSError:
                continue
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return mine - {os.getpid()}


def _stat(pid: int) -> list[str]:
    return (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()


def _ticks(pid: int, fields: slice) -> float:
    return float(sum(map(int, _stat(pid)[fields])))


def _is_python(pid: int) -> bool:
    """Return whether its program is Python; Spark's Java has pyspark's folder in its arguments."""
    program = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0", 1)[0]
    return b"python" in program.rsplit(b"/", 1)[-1]
