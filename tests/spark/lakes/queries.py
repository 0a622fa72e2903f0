"""A stream into a Delta table without Spark: what Spark would call, in its order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from parley.spark.lakes.columns import columns_of
from parley.spark.lakes.decisions import joined
from parley.spark.lakes.delta import DeltaLake
from parley.spark.lakes.files import TaskWriter
from parley.spark.lakes.lake import Batch
from parley.spark.lakes.messages import TaskFiles
from parley.spark.lakes.options import read_lake_options
from parley.spark.options.row import Use
from parley.spark.write.intent import BatchOfQuery

SCHEMA = StructType().add("n", "long").add("text", "string")


def nothing(step: str) -> None:
    """Let every step pass."""


@dataclass
class Query:
    """One query and its table. `at` is called around each step, and may end it there."""

    table: Path
    query: str = "the-query"
    schema: StructType = field(default_factory=lambda: SCHEMA)
    options: dict[str, str] = field(default_factory=dict)
    overwrite: bool = False
    row_by_row: bool = False
    """Whether each row is an Arrow batch of its own."""
    at: Callable[[str], None] = nothing

    def lake(self) -> DeltaLake:
        given = {"path": str(self.table), "checkpointLocation": "/checkpoint", **self.options}
        return DeltaLake(read_lake_options(given, Use.STREAM_WRITE))

    def write(self, batch: int, tasks: Sequence[Sequence[dict[str, Any]]]) -> list[TaskFiles]:
        """Plan a batch and write the files of its tasks."""
        columns = columns_of(self.schema.json())
        schema = to_arrow_schema(self.schema, timezone="UTC")
        plan = self.lake().plan(columns, schema, stream=True, overwrite=self.overwrite)
        self.at("planned")
        what = BatchOfQuery(self.query, batch)
        if (done := plan.written(what)) is not None:
            return [done]
        found = []
        for slot, rows in enumerate(tasks):
            pieces = [[row] for row in rows] if self.row_by_row else [list(rows)] if rows else []
            batches = [pa.RecordBatch.from_pylist(piece, schema) for piece in pieces]
            files = TaskWriter(plan.folder, plan.layout, slot).write(batches)
            found.append(
                TaskFiles(what, files, plan.layout.partition_by, plan.folder.path, plan.made_for)
            )
            self.at(f"task {slot}")
        return found

    def commit(self, messages: Sequence[TaskFiles]) -> bool:
        """Commit a batch; return whether it was committed now."""
        self.at("before the commit")
        written = self.lake().commit(
            Batch(columns_of(self.schema.json()), joined(messages), self.overwrite)
        )
        self.at("after the commit")
        return written

    def run(self, batch: int, tasks: Sequence[Sequence[dict[str, Any]]]) -> bool:
        """Run a whole batch."""
        return self.commit(self.write(batch, tasks))


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Return rows that no other call with other numbers returns."""
    return [{"n": n, "text": f"row {n}"} for n in range(first, first + count)]
