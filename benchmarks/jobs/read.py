"""Read all seven columns with both sources, alternately.

`noop` writes them to Spark's noop sink; `aggregation` groups by partition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, functions as f

from benchmarks.jobs import FORMATS, alternate, arguments_of, load, noop, same, session


def aggregate(frame: DataFrame) -> None:
    columns = [f.count("*"), f.min("offset"), f.max("timestamp"), f.sum(f.length("value"))]
    frame.groupBy("partition").agg(*columns).collect()


JOBS: dict[str, Callable[[DataFrame], None]] = {"noop": noop, "aggregation": aggregate}


def main() -> None:
    arguments = arguments_of()
    spark = session(arguments.jars)
    for topic in arguments.topics:
        frames = {source: load(spark, source, arguments.bootstrap, topic) for source in FORMATS}
        for job, work in JOBS.items():
            works = {source: partial(work, frame) for source, frame in frames.items()}
            alternate(arguments.rounds, works, job=job, topic=topic)
        same(topic, frames)
    spark.stop()


if __name__ == "__main__":
    main()
