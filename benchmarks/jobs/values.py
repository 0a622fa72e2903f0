"""Read the values alone with both sources, alternately: of large topics, and of one with hardly a record.

What the latter takes is the fixed start of a job: planning, tasks, connections.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession

from benchmarks.jobs import alternate, arguments_of, noop, reader, same, session


def values(spark: SparkSession, bootstrap: str, topic: str) -> dict[str, DataFrame]:
    return {
        "parley": reader(spark, "parley", bootstrap, topic).schema("value binary").load(),
        "spark": reader(spark, "spark", bootstrap, topic).load().select("value"),
    }


def main() -> None:
    arguments = arguments_of()
    spark = session(arguments.jars)
    for topic in arguments.topics:
        frames = values(spark, arguments.bootstrap, topic)
        works = {source: partial(noop, frame) for source, frame in frames.items()}
        alternate(arguments.rounds, works, topic=topic)
        same(topic, frames)
    spark.stop()


if __name__ == "__main__":
    main()
