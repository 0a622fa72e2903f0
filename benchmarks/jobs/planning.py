"""What a planner's process does, without Spark's JVM: one JSON line of seconds and memory.

`python -m benchmarks.jobs.planning batch|stream|empty BOOTSTRAP TOPIC`, in a fresh interpreter that
has imported what Spark's planner has imported. `batch` plans a read of all partitions; `stream`
starts one and asks an idle topic for its end again and again; `empty` does the same with a source
of nothing, for what such a process weighs by itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow  # noqa: F401  # as Spark's own planner does
import pyspark.sql.streaming.python_streaming_source_runner
import pyspark.sql.worker.plan_data_source_read  # noqa: F401
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from benchmarks.jobs.processes import PEAK, own_megabytes

POLLS = 50


class EmptySource(DataSource):
    """Has no rows and never will."""

    def schema(self) -> str:
        return "value binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return EmptyReader()


class EmptyReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, Any]:
        return {}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(())


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def main() -> None:
    what, bootstrap, topic = sys.argv[1:]
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    source: DataSource
    if what == "empty":
        source = EmptySource(options)
    else:
        from parley.spark.source import ParleySource

        source = ParleySource(options)
    schema = source.schema()
    if isinstance(schema, str):
        schema = StructType()
    if what == "batch":
        partitions, seconds = timed(lambda: source.reader(schema).partitions())
        print(
            json.dumps(
                {"partitions": len(partitions), "seconds": seconds, "peak_mb": own_megabytes(PEAK)}
            )
        )
        return
    reader = source.streamReader(schema)
    everything = ReadAllAvailable()
    start = reader.initialOffset()
    end = reader.latestOffset(start, everything)
    partitions, seconds = timed(lambda: list(reader.partitions(start, end)))
    polls = [timed(lambda: reader.latestOffset(end, everything))[1] for _ in range(POLLS)]
    print(
        json.dumps(
            {
                "partitions": len(partitions),
                "seconds": seconds,
                "polls": polls,
                "peak_mb": own_megabytes(PEAK),
            }
        )
    )


if __name__ == "__main__":
    main()
