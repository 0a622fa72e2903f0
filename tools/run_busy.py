#!/usr/bin/env python3
"""Run a command on a busy machine: beside processes that do nothing but use the processor.

    tools/run_busy.py --processes 8 make test

The exit code is the command's. The busy processes end with this one, however it ends: each looks
whether its parent is still there.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""
INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def busy(processes: int) -> Iterator[list[int]]:
    """Keep the machine busy; yield the ids of the processes."""
    command = [sys.executable, "-I", "-S", "-c", SPIN, str(os.getpid())]
    started: list[subprocess.Popen[bytes]] = []
    try:
        # In a group of their own: Ctrl-C is for the command, and this script ends them then.
        started += (subprocess.Popen(command, start_new_session=True) for _ in range(processes))
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def run(command: Sequence[str]) -> int:
    """Run the command to its end and return its exit code. It gets Ctrl-C and
    SIGTERM, and is waited for.
    """
    with subprocess.Popen(command) as running:
        try:
            code = running.wait()
        except KeyboardInterrupt:  # the terminal sent it to the command, too
            running.wait()
            return INTERRUPTED
        except SystemExit:
            running.terminate()
            running.wait()
            raise
    return code if code >= 0 else 128 - code


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--processes", type=int, default=8, help="how many busy processes (default: 8)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run beside them")
    given = parser.parse_args(arguments)
    if not given.command:
        parser.error("which command?")
    signal.signal(signal.SIGTERM, _end)
    # a shell starts what runs in the background without it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with busy(given.processes) as pids:
        print(
            f"{len(pids)} busy processes beside: {' '.join(given.command)}",
            file=sys.stderr,
            flush=True,
        )
        return run(given.command)


if __name__ == "__main__":
    sys.exit(main())
