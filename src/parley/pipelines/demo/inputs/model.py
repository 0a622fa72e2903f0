"""What a file of rows is to the demo job: its columns, its key, and how its table is laid out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from parley.errors import KafkaError
from parley.types import Json

Row = dict[str, Json]
"""One row: column name to int, float, bool, str, None or, from JSON, anything JSON has."""

ROW_ID = "row_id"
BY_KAFKA_PARTITION = "kafka_partition"
ADDED_COLUMNS = (ROW_ID, BY_KAFKA_PARTITION, "kafka_offset", "kafka_timestamp")
"""Columns that the job adds to the table: a file must not have its own by these names."""


class ColumnType(StrEnum):
    """The types of table columns, under Spark's names."""

    BIGINT = "bigint"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    STRING = "string"


class InputError(KafkaError):
    """An input file cannot be parsed; `line` is its first bad one, None without lines."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        where = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{where}: {problem}")
        self.path = path
        self.line = line


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """An input that was looked through once.

    `key_columns` make the record key; the table is partitioned by `partition_column`, and the
    aggregates are counted per value of it; `measure_column`, if given, is averaged in them.
    """

    name: str
    path: Path
    columns: Mapping[str, ColumnType]
    row_count: int
    key_columns: tuple[str, ...]
    partition_column: str
    measure_column: str | None
    reader: Callable[[Path, Mapping[str, ColumnType]], Iterator[Row]]

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """Column name to the name that Avro and Delta allow: letters, digits, underscores."""
        found: dict[str, str] = {}
        taken = set(ADDED_COLUMNS)
        for name in self.columns:
            wanted = re.sub(r"[^A-Za-z0-9_]", "_", name)
            wanted = f"_{wanted}" if wanted[0].isdigit() else wanted
            field, number = wanted, 1
            while field.casefold() in taken:
                number += 1
                field = f"{wanted}_{number}"
            taken.add(field.casefold())
            found[name] = field
        return found

    @property
    def partition_field(self) -> str:
        """The table's column of `partition_column`."""
        return self.fields.get(self.partition_column, self.partition_column)

    @property
    def measure_field(self) -> str | None:
        """The table's column of `measure_column`."""
        return None if self.measure_column is None else self.fields[self.measure_column]

    def rows(self) -> Iterator[Row]:
        """Yield the rows from the start of the file. Raises InputError at the first bad line."""
        return self.reader(self.path, self.columns)
