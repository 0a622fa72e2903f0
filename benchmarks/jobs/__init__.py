"""What is measured inside of Spark: one module per job, each one session; they print JSON lines.

Run by Bench.spark_job with the Python of an environment that has pyspark 4.2.0 (the release for
which Spark's own connector can be had), parley and the native kernel: `python -m
benchmarks.jobs.NAME`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession, functions as f

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
FORMATS = {"parley": "parley", "spark": "kafka"}


def arguments_of(
    add: Callable[[argparse.ArgumentParser], object] = lambda _: None,
) -> argparse.Namespace:
    """Return what Bench.spark_job says; `add` declares what only this job understands."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    add(parser)
    parser.add_argument("--topics", nargs="*", required=True)
    return parser.parse_args()


def session(jars: str, *, unix_sockets: bool = False) -> SparkSession:
    """Return a session on two cores that knows both sources; its workers may talk
    to the JVM by Unix sockets.
    """
    # Spark's workers would run on whatever `python3` is
    os.environ["PYSPARK_PYTHON"] = sys.executable
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
        .config("spark.python.unix.domain.socket.enabled", str(unix_sockets).lower())
        .getOrCreate()
    )
    from parley.spark import register

    register(spark)
    return spark


def load(spark: SparkSession, source: str, bootstrap: str, topic: str, **more: str) -> DataFrame:
    """Return all seven columns of a topic, by the source of that name (see
    FORMATS); `more` are options.
    """
    return reader(spark, source, bootstrap, topic).options(**more).load().select(COLUMNS)


def options_of(bootstrap: str, topic: str) -> dict[str, str]:
    """Return the options with which both sources read a topic from its first record on."""
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}


def reader(spark: SparkSession, source: str, bootstrap: str, topic: str) -> DataFrameReader:
    return spark.read.format(FORMATS[source]).options(**options_of(bootstrap, topic))


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def alternate(rounds: int, works: dict[str, Callable[[], object]], **facts: object) -> None:
    """Time each of them in turn, and another one goes first each turn; round 0
    warms up and is not reported.
    """
    names = list(works)
    for turn in range(rounds + 1):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            works[name]()
            seconds = time.perf_counter() - start
            if turn > 0:
                say(kind="speed", source=name, seconds=seconds, **facts)


def compare(rounds: int, frames: dict[str, DataFrame], topic: str) -> None:
    """Time the reading of each frame in turn, to nowhere; then exit unless
    all have the same rows.
    """
    alternate(
        rounds, {source: partial(noop, frame) for source, frame in frames.items()}, topic=topic
    )
    same(topic, frames)


def same(topic: str, frames: dict[str, DataFrame]) -> None:
    """Exit unless the frames have the same rows: their count, and the sum of a hash
    over all columns of each.
    """
    contents = {source: _content(frame) for source, frame in frames.items()}
    if len({tuple(content) for content in contents.values()}) != 1:
        sys.exit(f"the sources disagree on {topic}: {contents}")
    say(kind="same", topic=topic, rows=next(iter(contents.values()))[0])


def _content(frame: DataFrame) -> list[Any]:
    hashed = f.sum(f.xxhash64(*frame.columns).cast("decimal(38,0)"))
    return list(frame.agg(f.count("*"), hashed).collect()[0])


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)
