"""Kafka in Spark without JARs: `format("parley")` for reading and writing, batch and stream.

import parley.spark

parley.spark.register(spark)
rows = (
    spark.read.format("parley")
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("subscribe", "flights")
    .load()
)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from parley.spark.source import ParleySource

__all__ = ["ParleySource", "register"]

OLDEST_SPARK = (4, 2)


def register(spark: SparkSession) -> None:
    """Make `format("parley")` known to a session.

    Needed where Spark does not find `pyspark_parley` by itself: it looks with the interpreter that
    PYSPARK_PYTHON names, or `python3`, not with the one that runs. Doing it twice does no harm.
    Raises ConfigError for a Spark before 4.2, which lacks admission control for Python sources.
    """
    from parley.errors import ConfigError
    from parley.spark.source import ParleySource

    release = tuple(int(part) for part in spark.version.split(".")[:2])
    if release < OLDEST_SPARK:
        raise ConfigError(f"parley needs Spark 4.2 or later, this is {spark.version}")
    spark.dataSource.register(ParleySource)


def __getattr__(name: str) -> Any:
    if name == "ParleySource":
        from parley.spark.source import ParleySource

        return ParleySource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
