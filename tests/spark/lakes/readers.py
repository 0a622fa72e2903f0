"""What a Delta table holds, by a reader that knows only the format: the log is JSON, replayed here,
and Parquet is read by pyarrow. No delta-rs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq


def log_of(table: Path) -> list[list[dict[str, Any]]]:
    """Return the actions of each version. The tests' tables are too young for checkpoints."""
    files = sorted((table / "_delta_log").glob("[0-9]*.json"))
    assert [int(file.stem) for file in files] == list(range(len(files)))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def added(table: Path) -> dict[str, dict[str, Any]]:
    """Return what the newest version consists of, by path."""
    found: dict[str, dict[str, Any]] = {}
    for actions in log_of(table):
        for action in actions:
            if "remove" in action:
                found.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                found[action["add"]["path"]] = action["add"]
    return found


def schema_of(table: Path) -> list[dict[str, Any]]:
    """Return the fields of the newest version."""
    metadata = [
        action["metaData"]
        for actions in log_of(table)
        for action in actions
        if "metaData" in action
    ]
    fields: list[dict[str, Any]] = json.loads(metadata[-1]["schemaString"])["fields"]
    return fields


def rows_of(table: Path) -> list[dict[str, Any]]:
    """Return all rows, partition columns as the log's texts, sorted by their text."""
    names = [field["name"] for field in schema_of(table)]
    found = []
    for path, add in added(table).items():
        file = table / unquote(path)
        assert file.stat().st_size == add["size"]
        rows = pq.ParquetFile(file).read()
        assert json.loads(add["stats"])["numRecords"] == rows.num_rows
        for name, value in add["partitionValues"].items():
            assert name not in rows.column_names
            rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()))
        found += [{name: row.get(name) for name in names} for row in rows.to_pylist()]
    return sorted(found, key=str)


def versions_of(table: Path) -> dict[str, int]:
    """Return the newest version that each application has left in the log."""
    found = {}
    for actions in log_of(table):
        for action in actions:
            if "txn" in action:
                found[action["txn"]["appId"]] = action["txn"]["version"]
    return found


def files_of(table: Path) -> set[str]:
    """Return all Parquet files in the folder, whether a commit names them or not."""
    return {str(file.relative_to(table)) for file in table.rglob("*.parquet")}
