"""The busy machine of `make test-busy`: the load is there while the command
runs, and gone afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ...support import GENEROUS_S, eventually

TOOL = str(Path(__file__).parents[3] / "tools" / "run_busy.py")


def children(pid: int) -> list[int]:
    """Return the ids of a process's children that have not ended."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def start(*command: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, TOOL, "--processes", "3", *command]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_the_commands(code: int) -> None:
    with start(sys.executable, "-c", f"raise SystemExit({code})") as running:
        assert running.wait(GENEROUS_S) == code


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_load_is_left_however_it_ends(how: signal.Signals) -> None:
    wait = f"import sys, time; print('here', flush=True); time.sleep({GENEROUS_S})"
    with start(sys.executable, "-c", wait) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "here\n"
        started = children(running.pid)
        assert len(started) == 3 + 1
        command = started[-1]
        if how is signal.SIGINT:
            os.kill(command, how)  # a terminal sends it to both
        running.send_signal(how)
        running.wait(GENEROUS_S)
        for pid in started[:-1]:
            eventually(lambda pid=pid: gone(pid), f"the end of busy process {pid}")
        if how is signal.SIGKILL:
            os.kill(command, how)
