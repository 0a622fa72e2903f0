"""A Spark application that reads and writes without end,
and prints what becomes of each attempt as a line of JSON.

    python job.py parley|kafka SERVERS FOLDER [JARS]

Runs in an environment of its own, so that it imports nothing of the tests. What fails is begun
again.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

PAUSE_SECONDS = 0.5
SAYING = threading.Lock()
Say = Callable[[str | None], None]


def main() -> None:
    engine, servers, folder, *jars = sys.argv[1:]
    builder = (
        SparkSession.builder.master("local[6]")
        .appName("outages")
        .config("spark.ui.enabled", "false")
    )
    if jars:
        builder = builder.config("spark.jars", jars[0])
    builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", "2")
    spark = builder.config("spark.default.parallelism", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if engine == "parley":
        from parley.spark import register

        register(spark)
    job = Job(spark, engine, servers, folder)
    works: dict[str, Callable[[Say], None]] = {
        "batch read": job.batch_read,
        "stream": job.stream,
        "write at least once": lambda say: job.write(say, {}),
    }
    if engine == "parley":
        works["exactly once"] = lambda say: job.write(say, {"delivery": "exactly-once"})
    for name, work in works.items():
        threading.Thread(target=again_and_again, args=(spark, name, work), daemon=True).start()
    sys.stdin.read()  # until the parent closes it
    sys.stdout.flush()
    spark.stop()


def again_and_again(spark: SparkSession, name: str, work: Callable[[Say], None]) -> None:
    """Do a work forever, and say what becomes of it."""
    # Without it `writeStream` looks for the data source in
    # no session: the JVM's thread for this one has none.
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)

    def say(error: str | None) -> None:
        with SAYING:
            print(json.dumps({"work": name, "at": time.time(), "error": error}), flush=True)

    while True:
        try:
            work(say)
        except Exception as error:
            say(f"{type(error).__name__}: {error}"[:3000])
        time.sleep(PAUSE_SECONDS)


class Job:
    """The reads and writes. Each method does one thing, or goes on until it fails;
    success is said with None.
    """

    def __init__(self, spark: SparkSession, engine: str, servers: str, folder: str) -> None:
        self.spark, self.engine, self.servers, self.folder = spark, engine, servers, folder

    def batch_read(self, say: Say) -> None:
        """Read a topic that does not grow."""
        reader = self.spark.read.format(self.engine).option("kafka.bootstrap.servers", self.servers)
        assert reader.option("subscribe", "fixed").load().count() == 100
        say(None)

    def stream(self, say: Say) -> None:
        """Read what is written by somebody else."""
        reader = self.spark.readStream.format(self.engine).option(
            "kafka.bootstrap.servers", self.servers
        )
        frame = reader.option("subscribe", "in").option("startingOffsets", "latest").load()
        self._follow(frame.writeStream.format("noop"), say)

    def write(self, say: Say, options: dict[str, str]) -> None:
        """Write what a clock makes."""
        rows = (
            self.spark.readStream.format("rate")
            .option("rowsPerSecond", 20)
            .option("numPartitions", 1)
            .load()
        )
        writer = rows.selectExpr("CAST(value AS STRING) AS value").writeStream.format(self.engine)
        writer = (
            writer.option("kafka.bootstrap.servers", self.servers)
            .option("topic", "out")
            .options(**options)
        )
        self._follow(writer, say)

    def _follow(self, writer: Any, say: Say) -> None:
        checkpoint = f"{self.folder}/{uuid.uuid4().hex}"
        query = (
            writer.option("checkpointLocation", checkpoint)
            .trigger(processingTime="500 milliseconds")
            .start()
        )
        seen = -1
        while query.isActive:
            progress = query.lastProgress
            if progress is not None and progress["batchId"] != seen and progress["numInputRows"]:
                seen = progress["batchId"]
                say(None)
            time.sleep(0.1)
        raise RuntimeError(str(query.exception()))


if __name__ == "__main__":
    main()
