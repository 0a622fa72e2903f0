"""What is measured inside of Spark: one module per job, each one session; they print JSON lines.

Run by Bench.spark_job with the Python of an environment that has pyspark 4.2.0 (the release for which
Spark's own connector can be had), parley and the native kernel: `python -m benchmarks.jobs.NAME`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
FORMATS = {"parley": "parley", "spark": "kafka"}


def arguments_of(add: Callable[[argparse.ArgumentParser], object] = lambda _: None) -> argparse.Namespace:
    """Return what Bench.spark_job says; `add` declares what only this job understands."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    add(parser)
    parser.add_argument("--topics", nargs="*", required=True)
    return parser.parse_args()


def session(jars: str) -> SparkSession:
    """Return a session on two cores that knows both sources."""
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


def load(spark: SparkSession, source: str, bootstrap: str, topic: str) -> DataFrame:
    """Return all seven columns of a topic, by the source of that name (see FORMATS)."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.read.format(FORMATS[source]).options(**options).load().select(COLUMNS)


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(turn: int, names: list[str]) -> list[str]:
    """Return the names in the order in which they take this turn: another one goes first each time."""
    first = turn % len(names)
    return names[first:] + names[:first]


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)
