"""Read all seven columns with both sources, alternately.

`noop` writes them to Spark's noop sink; `aggregation` groups by partition. A hash over all columns of
all rows, not timed, shows that both sources return the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.jobs import COLUMNS, FORMATS, arguments_of, in_turn, load, noop, say, session, timed


def aggregate(frame: DataFrame) -> None:
    columns = [f.count("*"), f.min("offset"), f.max("timestamp"), f.sum(f.length("value"))]
    frame.groupBy("partition").agg(*columns).collect()


JOBS: dict[str, Callable[[DataFrame], None]] = {"noop": noop, "aggregation": aggregate}


def measure(spark: SparkSession, bootstrap: str, topics: list[str], rounds: int) -> None:
    """Alternate the sources, and which of them goes first; round 0 warms up and is not reported."""
    for topic in topics:
        frames = {source: load(spark, source, bootstrap, topic) for source in FORMATS}
        for turn in range(rounds + 1):
            for job, work in JOBS.items():
                for source in in_turn(turn, list(FORMATS)):
                    seconds = timed(lambda work=work, frame=frames[source]: work(frame))  # type: ignore[misc]
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


if __name__ == "__main__":
    arguments = arguments_of()
    spark = session(arguments.jars)
    measure(spark, arguments.bootstrap, arguments.topics, arguments.rounds)
    spark.stop()
