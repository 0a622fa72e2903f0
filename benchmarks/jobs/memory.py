"""Report the peak memory of Spark's Python workers: with
an empty source, then with parley topic after topic.

Workers are kept from job to job, and a peak never falls: give the topics in the order of their
size.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.jobs import arguments_of, load, noop, say, session
from benchmarks.jobs.processes import PEAK, python_megabytes

TASKS = 4


class WorkerWatch:
    """The highest memory of any Python process below this one, looked at until it is left."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
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
        self.peak_mb = max([self.peak_mb, *python_megabytes(PEAK).values()])


class EmptySource(DataSource):
    """As many tasks as a topic has partitions, and no rows."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return "value binary"

    def reader(self, schema: StructType) -> DataSourceReader:
        return EmptyReader()


class EmptyReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        return iter(())


def main() -> None:
    arguments = arguments_of()
    spark = session(arguments.jars)
    measure_empty(spark)
    for topic in arguments.topics:
        with WorkerWatch() as watch:
            noop(load(spark, "parley", arguments.bootstrap, topic))
        say(kind="memory", topic=topic, peak_rss_mb=watch.peak_mb)
    spark.stop()


def measure_empty(spark: SparkSession) -> None:
    spark.dataSource.register(EmptySource)
    with WorkerWatch() as watch:
        noop(spark.read.format("empty").load())
    say(kind="empty", peak_rss_mb=watch.peak_mb)


if __name__ == "__main__":
    main()
