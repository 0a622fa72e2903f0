"""A standalone master of Spark with workers, as on machines of their own: each may be killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pyspark

PATIENCE_SECONDS = 600
"""Up to six JVMs start for one job: on two cores that do other work too, a minute for each is not
long.
"""
HOME = Path(pyspark.__file__).parent
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Standalone:
    """A master and two workers, each with one core. Ends with its `with` block."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self._environment = folder, environment
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Standalone:
        self.folder.mkdir(exist_ok=True)
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master", "--port", "0")
            self.address = self._wait_for(log, r"spark://127\.0\.0\.1:\d+")
            logs = [self._start_worker(f"worker{number}") for number in (1, 2)]
            for log in logs:
                self._wait_for(log, "Successfully registered with master")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def kill_worker(self) -> None:
        """Kill a worker with the executors that it started, as its machine dies."""
        worker = self._started.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def _start_worker(self, name: str) -> Path:
        return self._start(
            name, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "512m",
            "--work-dir", str(self.folder / f"work-{name}"), self.address,
        )  # fmt: skip

    def _start(self, name: str, kind: str, *arguments: str) -> Path:
        log = self.folder / f"{name}.log"
        where = ["--host", "127.0.0.1", "--webui-port", "0"]
        with log.open("wb") as output:
            started = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), kind, *where, *arguments],
                stdout=output, stderr=output, env=self._environment, start_new_session=True,
            )  # fmt: skip
        self._started.append(started)
        return log

    def _wait_for(self, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := re.search(pattern, log.read_text())) is None:
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._started[-1].wait(0.1)
        return found.group(0)

    def _end(self) -> None:
        for process in reversed(self._started):
            if process.poll() is None:
                process.terminate()
        for process in self._started:
            process.wait(30)
