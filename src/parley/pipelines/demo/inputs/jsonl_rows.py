"""JSON lines: one object per line, UTF-8; empty lines are passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from parley.pipelines.demo.inputs.infer import (
    MOST_DISTINCT,
    ColumnFacts,
    check_names,
    type_of_value,
)
from parley.pipelines.demo.inputs.lines import open_binary, text_lines
from parley.pipelines.demo.inputs.model import ColumnType, InputError, Row


def survey_jsonl(path: Path) -> tuple[dict[str, ColumnFacts], int]:
    """Look a file through: the facts of each column, and the number of rows. Raises InputError."""
    facts: dict[str, ColumnFacts] = {}
    count = 0
    for line, row in _objects(path):
        if not row.keys() <= facts.keys():
            check_names(path, facts.keys() | row.keys(), line)
        count += 1
        for name, value in row.items():
            known = facts.setdefault(name, ColumnFacts())
            hashable = (
                value if isinstance(value, str | int | float | bool | None) else json.dumps(value)
            )
            known.see(
                {hashable} if len(known.distinct) <= MOST_DISTINCT else set(),
                [type_of_value(value)],
            )
    return facts, count


def read_jsonl(path: Path, columns: Mapping[str, ColumnType]) -> Iterator[Row]:
    """Yield the objects as they are. Raises InputError at a line that is not a JSON object."""
    for _, row in _objects(path):
        yield row


def _objects(path: Path) -> Iterator[tuple[int, Row]]:
    with open_binary(path) as binary:
        for number, text in enumerate(text_lines(path, binary), start=1):
            if not text.strip():
                continue
            try:
                value = json.loads(text, parse_constant=_refuse)
            except ValueError as error:
                raise InputError(path, number, f"not JSON: {error}") from error
            if not isinstance(value, dict):
                raise InputError(
                    path, number, f"a JSON object is expected, not {text.strip()[:40]}"
                )
            yield number, value


def _refuse(constant: str) -> NoReturn:
    """Refuse what Python's parser takes and JSON does not have."""
    raise ValueError(f"{constant} is not JSON")
