"""Report the peak memory of parley's Python workers after each topic (given in the order of their size)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from benchmarks.jobs import arguments_of, load, noop, say, session


class WorkerWatch:
    """The highest memory (VmHWM) of any Python process below this one, looked at until it is left."""

    def __init__(self) -> None:
        self.peak_kb = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._look()
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self._look()

    def _look(self) -> None:
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
        for pid in mine - {os.getpid()}:
            try:
                program = (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0", 1)[0]
                if b"python" in program.rsplit(b"/", 1)[-1]:  # Spark's Java has pyspark's folder in its arguments
                    self._note((Path("/proc") / str(pid) / "status").read_text())
            except OSError:
                continue

    def _note(self, status: str) -> None:
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.peak_kb = max(self.peak_kb, int(line.split()[1]))


if __name__ == "__main__":
    arguments = arguments_of()
    spark = session(arguments.jars)
    for topic in arguments.topics:
        with WorkerWatch() as watch:
            noop(load(spark, "parley", arguments.bootstrap, topic))
        say(kind="memory", topic=topic, peak_rss_mb=watch.peak_kb / 1024)
    spark.stop()
