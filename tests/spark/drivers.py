"""Programs with a Spark driver of their own, to be killed as a machine dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from parley.host import spark_environment

from ..support import GENEROUS_S

BEGIN = """
import json, sys
from pyspark.sql import SparkSession

folder, config, *given = sys.argv[1:]
builder = SparkSession.builder.master("local[2,4]")
for name, value in json.loads(config).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
"""
END = """
print("STARTED", flush=True)
query.awaitTermination()
print("DONE", flush=True)
"""
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class Driver:
    """A program that starts `query`, with what it is `given`, in a process group of its own. Its
    checkpoint is in the folder.
    """

    def __init__(self, program: str, folder: Path, *given: str) -> None:
        environment = {**os.environ, **spark_environment()}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        text = BEGIN + textwrap.dedent(program) + END
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, str(folder), json.dumps(CONFIG), *given],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip

    def batches(self, kind: str = "offsets") -> int:
        """Return how many files of a kind the checkpoint has had."""
        found = (self.folder / "checkpoint" / kind).glob("[0-9]*")
        return max((int(file.name) + 1 for file in found if file.name.isdigit()), default=0)

    def wait_for(self, reached: Callable[[], bool], look_s: float = 0.05) -> None:
        """Return when something is reached, or the query is done."""
        deadline = time.monotonic() + GENEROUS_S
        while not reached() and self.process.poll() is None:
            assert time.monotonic() < deadline, "no progress"
            self.wait(look_s)

    def wait(self, seconds: float) -> None:
        """Return when the query is done, or after so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def kill(self) -> None:
        """Kill the driver with everything that it started."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def finish(self) -> None:
        """Let it run to its end."""
        out, _ = self.process.communicate(timeout=2 * GENEROUS_S)
        assert b"DONE" in out

    def workers(self) -> list[int]:
        """Return the process ids of the Python workers that run tasks."""
        parents: dict[int, int] = {}
        daemons = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    if (
                        os.getpgid(int(entry.name)) == self.process.pid
                        or os.getsid(int(entry.name)) == self.process.pid
                    ):
                        parents[int(entry.name)] = int(fields[1])
                        if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                            daemons.add(int(entry.name))
        return [pid for pid, parent in parents.items() if parent in daemons and pid in daemons]
