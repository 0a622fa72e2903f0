"""Kafka in Spark without JARs: `format("parley")` for reading and writing, batch and stream; and
`format("parley-delta")` and `format("parley-iceberg")`, which write Delta and Iceberg tables.

>>> import parley.spark
>>> parley.spark.register(spark)
>>> flights = spark.read.format("parley").option("kafka.bootstrap.servers", "localhost:9092")
>>> flights.option("subscribe", "flights").load().count()
2

Map: `source` is what Spark finds; `progress` is for people. Rooms, each of which imports only from
those behind it: `lakes`, `stream` and `write`, `read`, `options`, `values`. `edge` shortens errors,
`clients` keeps one per process, `tables` reads OPTIONS, `worker_facts`, `worker_memory` and
`worker_python` are about Spark's workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

    from parley.spark.source import ParleySource

__all__ = ["ParleySource", "register"]

OLDEST_SPARK = (4, 2)


def register(spark: SparkSession) -> None:
    """Make `format("parley")`, `format("parley-delta")` and `format("parley-iceberg")` known to a
    session, in workers that have parley.

    Spark looks for data sources with the interpreter that PYSPARK_PYTHON names, or `python3`, and
    runs them with it: not with the one that runs. A local session without PYSPARK_PYTHON is given
    the latter, for user-defined functions as well. Where Spark knows the data source already,
    nothing is done, so that doing it twice does no harm.

    Raises ConfigError for a Spark before 4.2, which lacks admission control for Python sources, and
    where the workers' interpreter has no parley and must be chosen by whoever starts Spark; the
    text says what to set.
    """
    from parley.errors import ConfigError
    from parley.spark.worker_python import settle_interpreter

    release = tuple(int(part) for part in spark.version.split(".")[:2])
    if release < OLDEST_SPARK:
        raise ConfigError(f"parley needs Spark 4.2 or later, this is {spark.version}")
    # Spark Connect has none: its server's workers are out of reach
    context = getattr(spark, "sparkContext", None)
    changed = context is not None and settle_interpreter(context)
    for source in data_sources():
        if changed or not _is_known(spark, source.name()):
            spark.dataSource.register(source)


def data_sources() -> tuple[type[DataSource], ...]:
    """Return the classes that stand for the three formats."""
    from parley.spark.lakes.source import DeltaSink, IcebergSink
    from parley.spark.source import ParleySource

    return ParleySource, DeltaSink, IcebergSink


def _is_known(spark: SparkSession, name: str) -> bool:
    """Return whether Spark has that data source: to register it twice makes Spark warn."""
    try:
        return bool(spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name))
    except Exception:  # a session of another kind, or a Spark that keeps them elsewhere
        return False


def __getattr__(name: str) -> object:
    if name == "ParleySource":
        from parley.spark.source import ParleySource

        return ParleySource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
