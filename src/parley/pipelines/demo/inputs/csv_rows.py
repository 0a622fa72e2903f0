"""CSV files: a header line, commas, double quotes, UTF-8."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from parley.pipelines.demo.inputs.infer import NOT_AVAILABLE, ColumnFacts, check_names, type_of_text
from parley.pipelines.demo.inputs.lines import open_binary, text_lines
from parley.pipelines.demo.inputs.model import ColumnType, InputError, Row

_CHUNK_ROWS = 20_000


def survey_csv(path: Path) -> tuple[dict[str, ColumnFacts], int]:
    """Look a file through: the facts of each column, and the number of rows. Raises InputError."""
    records = _records(path)
    _, names = next(records)
    facts = {name: ColumnFacts() for name in names}
    count = 0
    while chunk := [fields for _, fields in islice(records, _CHUNK_ROWS)]:
        count += len(chunk)
        for one, column in zip(facts.values(), zip(*chunk, strict=True), strict=True):
            # Types are asked of distinct values only: most columns repeat themselves.
            values = set(column)
            one.see(values, map(type_of_text, values))
    return facts, count


def read_csv(path: Path, columns: Mapping[str, ColumnType]) -> Iterator[Row]:
    """Yield the rows, typed as the survey found. Raises InputError at a line that does not fit."""
    records = _records(path)
    _, names = next(records)
    if list(names) != list(columns):
        raise InputError(path, 1, "the header is not what it was a moment ago")
    converters = [_CONVERTERS[columns[name]] for name in names]
    for line, fields in records:
        try:
            values = [convert(text) for convert, text in zip(converters, fields, strict=True)]
        except ValueError as error:
            raise InputError(path, line, str(error)) from error
        yield dict(zip(names, values, strict=True))


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its last line, fields): the header, then records that are not empty."""
    with open_binary(path) as binary:
        reader = csv.reader(text_lines(path, binary), strict=True)
        width = -1
        try:
            for fields in reader:
                if width < 0:
                    check_names(path, fields, reader.line_num)
                    width = len(fields)
                elif not fields:
                    continue
                elif len(fields) != width:
                    raise InputError(
                        path, reader.line_num, f"{len(fields)} fields, but the header has {width}"
                    )
                yield reader.line_num, fields
        except csv.Error as error:
            raise InputError(path, reader.line_num, f"not CSV: {error}") from error
    if width < 0:
        raise InputError(path, 1, "the file is empty; a header line is expected")


def _integer(text: str) -> int | None:
    return None if text in NOT_AVAILABLE else int(text)


def _decimal(text: str) -> float | None:
    return None if text in NOT_AVAILABLE else float(text)


def _boolean(text: str) -> bool | None:
    return None if text in NOT_AVAILABLE else text.lower() == "true"


def _string(text: str) -> str | None:
    return text or None


_CONVERTERS: dict[ColumnType, Callable[[str], str | int | float | None]] = {
    ColumnType.BIGINT: _integer,
    ColumnType.DOUBLE: _decimal,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.STRING: _string,
}
