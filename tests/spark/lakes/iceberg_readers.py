"""What an Iceberg table holds, by a reader that knows only the format: the catalog's database says
which metadata are the table's, manifests are read by fastavro, Parquet by pyarrow. No pyiceberg.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq

DELETED = 2


def place(location: str) -> Path:
    """Return the path of a location on this machine."""
    return Path(location.removeprefix("file://"))


def metadata_of(root: Path, name: str = "flights") -> dict[str, Any]:
    """Return the table's metadata as they are now."""
    database = sqlite3.connect(root / "catalog.db")
    try:
        ((location,),) = database.execute(
            "select metadata_location from iceberg_tables where table_name = ?", [name]
        ).fetchall()
    finally:
        database.close()
    found: dict[str, Any] = json.loads(place(location).read_text())
    return found


def schema_of(metadata: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the columns that the table has now, by their ids."""
    (schema,) = [
        one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"]
    ]
    return {field["id"]: field for field in schema["fields"]}


def data_files(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the files that the newest snapshot consists of, as manifests have them."""
    newest = metadata["current-snapshot-id"]
    found: list[dict[str, Any]] = []
    for snapshot in metadata["snapshots"]:
        if snapshot["snapshot-id"] == newest:
            for manifest in _avro(snapshot["manifest-list"]):
                assert manifest["content"] == 0, "parley writes no delete files"
                for entry in _avro(manifest["manifest_path"]):
                    if entry["status"] != DELETED:
                        found.append(entry["data_file"])
    assert len({file["file_path"] for file in found}) == len(found), "a file is in it twice"
    return found


def rows_of(root: Path, name: str = "flights") -> list[dict[str, Any]]:
    """Return all rows, sorted by their text; columns are found by the ids in the files."""
    metadata = metadata_of(root, name)
    columns = schema_of(metadata)
    (spec,) = [
        one for one in metadata["partition-specs"] if one["spec-id"] == metadata["default-spec-id"]
    ]
    rows = []
    for file in data_files(metadata):
        path = place(file["file_path"])
        assert path.stat().st_size == file["file_size_in_bytes"]
        table = pq.ParquetFile(path).read()
        assert table.num_rows == file["record_count"]
        ids = [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema]
        by_id = dict(zip(ids, table.columns, strict=True))
        for field in spec["fields"]:
            wanted = file["partition"][field["name"]]
            if isinstance(wanted, dt.date):
                wanted = wanted.isoformat()
            there = {
                value.isoformat() if isinstance(value, dt.date) else value
                for value in by_id[field["source-id"]].to_pylist()
            }
            assert there == {wanted}
        nothing = [None] * table.num_rows
        values = {
            column["name"]: by_id[number].to_pylist() if number in by_id else nothing
            for number, column in columns.items()
        }
        rows += [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return sorted(rows, key=str)


def numbers_of(root: Path) -> dict[str, int]:
    """Return the numbers that the table remembers, by name."""
    properties = metadata_of(root)["properties"]
    prefix = "parley.batch."
    return {
        name.removeprefix(prefix): int(value)
        for name, value in properties.items()
        if name.startswith(prefix)
    }


def parquet_of(root: Path) -> set[str]:
    """Return all Parquet files, whether a snapshot names them or not."""
    return {str(file) for file in (root / "warehouse").rglob("*.parquet")}


def _avro(location: str) -> list[dict[str, Any]]:
    with place(location).open("rb") as file:
        return [one for one in fastavro.reader(file) if isinstance(one, dict)]
