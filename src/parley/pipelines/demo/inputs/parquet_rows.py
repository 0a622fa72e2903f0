"""Parquet files, read batch by batch."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from parley.pipelines.demo.inputs.infer import ColumnFacts, check_names
from parley.pipelines.demo.inputs.model import ColumnType, InputError, Row
from parley.types import Json

_BATCH_ROWS = 10_000


def survey_parquet(path: Path) -> tuple[dict[str, ColumnFacts], int]:
    """Look a file through: the facts of each column, and the number of rows. Raises InputError."""
    with _opened(path) as file:
        check_names(path, file.schema_arrow.names)
        facts = {field.name: ColumnFacts() for field in file.schema_arrow}
        for field in file.schema_arrow:
            facts[field.name].type = _column_type(field.type)
        narrow = [
            name
            for name, one in facts.items()
            if one.final_type in {ColumnType.STRING, ColumnType.BOOLEAN}
        ]
        for batch in file.iter_batches(_BATCH_ROWS, columns=narrow):
            for name in narrow:
                column = batch.column(name)
                if not pa.types.is_nested(column.type):
                    facts[name].see(set(column.unique().to_pylist()), ())
        return facts, file.metadata.num_rows


def read_parquet(path: Path, columns: Mapping[str, ColumnType]) -> Iterator[Row]:
    """Yield the rows; what JSON lacks becomes text (dates, decimals) or base64 (binary)."""
    with _opened(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns)):
            values = [_values(column) for column in batch.columns]
            for fields in zip(*values, strict=True):
                yield dict(zip(columns, fields, strict=True))


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; what pyarrow raises while it is read becomes InputError."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except pa.ArrowException as error:
        raise InputError(path, None, f"not a usable Parquet file: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        # pyarrow's OSError without a number is about the contents, not about the file system.
        raise InputError(path, None, f"not a usable Parquet file: {error}") from error


def _column_type(arrow_type: pa.DataType) -> ColumnType:
    if pa.types.is_boolean(arrow_type):
        return ColumnType.BOOLEAN
    if pa.types.is_integer(arrow_type) and not pa.types.is_uint64(arrow_type):
        return ColumnType.BIGINT
    return ColumnType.DOUBLE if pa.types.is_floating(arrow_type) else ColumnType.STRING


def _values(column: pa.Array) -> list[Json]:
    """Return a column's values as JSON has them."""
    if pa.types.is_floating(column.type):
        floats: list[float | None] = column.to_pylist()
        return [one if one is None or math.isfinite(one) else None for one in floats]
    if (
        pa.types.is_boolean(column.type)
        or pa.types.is_integer(column.type)
        or pa.types.is_string(column.type)
    ):
        values: list[Json] = column.to_pylist()
        return values
    return [None if value is None else _text(value) for value in column.to_pylist()]


def _text(value: object) -> Json:
    """Return a value of a type that JSON does not have, in a form that it has."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, list):
        return [_text(one) for one in value]
    if isinstance(value, dict):
        return {name: _text(one) for name, one in value.items()}
    if isinstance(value, str | int | bool | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat() if callable(isoformat) else value)
