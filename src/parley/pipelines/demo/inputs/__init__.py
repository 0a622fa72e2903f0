"""Files as rows: every reader yields dicts, and every complaint names the file and the line.

Map: `choose` picks a reader for a file: `csv_rows`, `jsonl_rows`, `parquet_rows`; `lines` and
`infer` help, `model` is what all give.
"""

from parley.pipelines.demo.inputs.choose import open_input
from parley.pipelines.demo.inputs.model import ROW_ID, ColumnType, Dataset, InputError, Row

__all__ = ["ROW_ID", "ColumnType", "Dataset", "InputError", "Row", "open_input"]
"""`open_input(path, ...)` returns a Dataset; `Dataset.rows()` reads it from the start each time."""
