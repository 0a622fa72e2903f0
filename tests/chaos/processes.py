"""Which processes belong to a Spark job, found in /proc: driver, executor JVMs,
Python workers, planners.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A running process."""

    pid: int
    parent: int
    command: str


def family(root: int) -> list[Process]:
    """Return a process and all that descend from it."""
    every = {found.pid: found for found in _all()}
    kin, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        if pid in every:
            kin.append(every[pid])
        waiting += [found.pid for found in every.values() if found.parent == pid]
    return kin


def driver(kin: list[Process]) -> list[int]:
    """Return the Python program and its JVM; executors are not among them, and
    outlive it for a moment.
    """
    return [kin[0].pid] if kin else []


def driver_jvms(kin: list[Process]) -> list[int]:
    """Return the driver's JVM."""
    return [
        one.pid
        for one in kin
        if "SparkSubmit" in one.command and "java" in one.command.split("\0")[0]
    ]


def executors(kin: list[Process]) -> list[int]:
    """Return the JVMs of executors."""
    return [
        one.pid
        for one in kin
        if "CoarseGrainedExecutorBackend" in one.command and "java" in one.command
    ]


def workers(kin: list[Process]) -> list[int]:
    """Return the Python workers that run tasks: forked by the daemon of an executor, or
    of the driver if it is one.
    """
    jvms = set(executors(kin) or driver_jvms(kin))
    daemons = {one.pid for one in kin if one.parent in jvms and "pyspark.worker" in one.command}
    return [one.pid for one in kin if one.parent in daemons]


def planners(kin: list[Process]) -> list[int]:
    """Return the Python workers of the driver's JVM: they plan and commit."""
    jvms = set(driver_jvms(kin))
    daemons = [one.pid for one in kin if one.parent in jvms and "pyspark.sql" in one.command]
    forked = [one.pid for one in kin if one.parent in daemons]
    return forked or daemons


def kill(pids: list[int]) -> bool:
    """kill -9; return whether there was anything to kill."""
    hit = False
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            hit = True
    return hit


def kill_all(known: Mapping[int, Process]) -> None:
    """kill -9 those that still are what they were when they were seen."""
    now = {one.pid: one for one in _all()}
    kill([pid for pid, one in known.items() if pid in now and now[pid].command == one.command])


def _all() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                yield Process(int(folder.name), parent, (folder / "cmdline").read_text())
