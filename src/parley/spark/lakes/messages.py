"""What goes from the driver to its tasks and back: plain values that can be pickled."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from parley.spark.write.intent import BatchOfQuery


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file in the table's folder, and what a commit says of it."""

    path: str
    """Below the folder of the table's files."""
    size: int
    rows: int
    partition_values: tuple[tuple[str, str | None], ...]
    statistics: str | bytes
    """What the lake wants to know of the file's columns, as `Layout.describe` makes it."""
    modified_ms: int


@dataclass(frozen=True)
class TaskFiles(WriterCommitMessage):  # type: ignore[misc]  # pyspark comes without types
    """What a task wrote. Without `what` for a batch write."""

    what: BatchOfQuery | None
    files: tuple[WrittenFile, ...]
    partition_by: tuple[str, ...] = ()
    """What the files are partitioned by."""
    folder: str = ""
    """What their paths are below."""
    made_for: str = ""
    """Which table, and which state of it, the tasks wrote for, in the lake's own terms."""
    passed_over: bool = False
    """Whether the task wrote nothing because the table has the batch's number already."""
