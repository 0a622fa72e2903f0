"""Read the values alone with both sources, alternately:
of large topics, and of one with hardly a record.

What the latter takes is the fixed start of a job: planning, tasks, connections.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from benchmarks.jobs import arguments_of, compare, reader, session


def values(spark: SparkSession, bootstrap: str, topic: str) -> dict[str, DataFrame]:
    return {
        "parley": reader(spark, "parley", bootstrap, topic).schema("value binary").load(),
        "spark": reader(spark, "spark", bootstrap, topic).load().select("value"),
    }


def main() -> None:
    arguments = arguments_of(
        lambda parser: parser.add_argument("--unix-sockets", action="store_true")
    )
    spark = session(arguments.jars, unix_sockets=arguments.unix_sockets)
    for topic in arguments.topics:
        compare(arguments.rounds, values(spark, arguments.bootstrap, topic), topic)
    spark.stop()


if __name__ == "__main__":
    main()
