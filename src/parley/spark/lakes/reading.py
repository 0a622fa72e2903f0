"""A small table's rows, without Spark: for tests of what was written."""

from __future__ import annotations

from pathlib import Path


def delta_rows(folder: Path) -> list[dict[str, object]]:
    """Return all rows of a Delta table; none where there is no table."""
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(folder)):
        return []
    rows: list[dict[str, object]] = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return rows
