"""Hand to Spark what parley hands to it, but from
memory: how fast Spark can take it. parley takes turns.

parley's own batches are kept, of each task apart, as files in memory that a task maps: it neither
copies nor decodes, and only the hand-over is left.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.bench import MEMORY
from benchmarks.jobs import arguments_of, compare, load, options_of, session


class KeptSource(DataSource):
    """The batches in the files of a folder, a task for each file, and nothing else."""

    @classmethod
    def name(cls) -> str:
        return "kept"

    def reader(self, schema: StructType) -> DataSourceReader:
        return KeptReader(sorted(str(path) for path in Path(self.options["folder"]).iterdir()))


class KeptReader(DataSourceReader):
    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(path) for path in self._paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as file, pa.ipc.open_stream(file) as batches:
            yield from batches


def keep(ours: DataFrame, options: dict[str, str], folder: str) -> None:
    """Write what parley's tasks hand to Spark, batch by batch."""
    from parley.spark.source import ParleySource

    source = ParleySource(options).reader(ours.schema)
    for number, partition in enumerate(source.partitions()):
        batches = iter(source.read(partition))
        first = next(batches)
        path = str(Path(folder) / str(number))
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, first.schema) as stream:
            for batch in chain([first], batches):
                stream.write_batch(batch)


def main() -> None:
    arguments = arguments_of()
    spark = session(arguments.jars)
    spark.dataSource.register(KeptSource)
    for topic in arguments.topics:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            ours = load(spark, "parley", arguments.bootstrap, topic)
            keep(ours, options_of(arguments.bootstrap, topic), folder)
            kept = spark.read.format("kept").schema(ours.schema).option("folder", folder).load()
            compare(arguments.rounds, {"parley": ours, "ceiling": kept}, topic)
    spark.stop()


if __name__ == "__main__":
    main()
