"""One Spark session with both sources, read alternately; prints one JSON line per measurement.

Run by benchmarks.run with the Python of an environment that has pyspark 4.2.0 (the release for
which Spark's own connector can be had), parley and the native kernel.

Jobs: `noop` writes all seven columns to Spark's noop sink; `aggregation` groups by partition. A hash
over all columns of all rows, not timed, shows that both sources return the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
FORMATS = {"parley": "parley", "spark": "kafka"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--topics", nargs="+", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--only", choices=["speed", "memory"], default="speed")
    arguments = parser.parse_args()
    spark = session(arguments.jars)
    if arguments.only == "memory":
        measure_memory(spark, arguments.bootstrap, arguments.topics)
    else:
        measure_speed(spark, arguments.bootstrap, arguments.topics, arguments.rounds)
    spark.stop()


def session(jars: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers would run on whatever `python3` is
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("parley-benchmark")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    from parley.spark import register

    register(spark)
    return spark


def read(spark: SparkSession, source: str, bootstrap: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.read.format(FORMATS[source]).options(**options).load().select(COLUMNS)


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def aggregate(frame: DataFrame) -> None:
    columns = [f.count("*"), f.min("offset"), f.max("timestamp"), f.sum(f.length("value"))]
    frame.groupBy("partition").agg(*columns).collect()


JOBS: dict[str, Callable[[DataFrame], None]] = {"noop": noop, "aggregation": aggregate}


def measure_speed(spark: SparkSession, bootstrap: str, topics: list[str], rounds: int) -> None:
    """Alternate the sources, and which of them goes first; round 0 warms up and is not reported."""
    for topic in topics:
        frames = {source: read(spark, source, bootstrap, topic) for source in FORMATS}
        for turn in range(rounds + 1):
            for job, work in JOBS.items():
                for source in ("spark", "parley") if turn % 2 else ("parley", "spark"):
                    start = time.perf_counter()
                    work(frames[source])
                    seconds = time.perf_counter() - start
                    if turn > 0:
                        say(kind="speed", job=job, topic=topic, source=source, seconds=seconds)
        contents = {source: content(frame) for source, frame in frames.items()}
        if contents["spark"] != contents["parley"]:
            sys.exit(f"the sources disagree on {topic}: {contents}")
        say(kind="same", topic=topic, rows=contents["parley"][0])


def content(frame: DataFrame) -> list[Any]:
    """Return the row count and the sum of a hash over all columns of each row."""
    hashed = f.sum(f.xxhash64(*COLUMNS).cast("decimal(38,0)"))
    return list(frame.agg(f.count("*"), hashed).collect()[0])


def measure_memory(spark: SparkSession, bootstrap: str, topics: list[str]) -> None:
    """Report the peak memory of parley's Python workers after each topic (given in the order of their size)."""
    for topic in topics:
        with WorkerWatch() as watch:
            noop(read(spark, "parley", bootstrap, topic))
        say(kind="memory", topic=topic, peak_rss_mb=watch.peak_kb / 1024)


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


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
    main()
