"""Column types and distinct values out of the values seen: one pass, in chunks, over columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Set
from pathlib import Path

from parley.pipelines.demo.inputs.model import ADDED_COLUMNS, ColumnType, InputError
from parley.types import Json

MOST_DISTINCT = 50
"""A column with more distinct values is not counted on: it cannot partition a table."""

NOT_AVAILABLE = frozenset({"", "NA"})
"""Texts that stand for no value in a column of numbers."""

# At most 18 digits fit a bigint for sure; a leading zero is part of a code, not of a number.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_BOOLEANS = frozenset({"true", "false", "True", "False", "TRUE", "FALSE"})


class ColumnFacts:
    """What is known of one column so far."""

    def __init__(self) -> None:
        self.type: ColumnType | None = None
        self.distinct: set[object] = set()

    def see(self, values: Set[object], types: Iterable[ColumnType | None]) -> None:
        """Take in the distinct values of a chunk and their types (None: no value)."""
        for seen in types:
            self.type = widest(self.type, seen)
        if len(self.distinct) <= MOST_DISTINCT:
            self.distinct |= values

    @property
    def final_type(self) -> ColumnType:
        """The column's type; a column without any value is a string."""
        return self.type or ColumnType.STRING

    @property
    def partitions_well(self) -> bool:
        """Whether a table could be partitioned by this column."""
        return (
            self.final_type in {ColumnType.STRING, ColumnType.BOOLEAN}
            and 2 <= len(self.distinct) <= MOST_DISTINCT
        )


def widest(one: ColumnType | None, other: ColumnType | None) -> ColumnType | None:
    """Return the narrowest type that holds values of both.

    >>> widest(ColumnType.BIGINT, ColumnType.DOUBLE)
    <ColumnType.DOUBLE: 'double'>
    """
    if one is None or other is None or one is other:
        return one or other
    if {one, other} == {ColumnType.BIGINT, ColumnType.DOUBLE}:
        return ColumnType.DOUBLE
    return ColumnType.STRING


def type_of_text(text: str) -> ColumnType | None:
    """Return the type that a CSV field has by itself, None for an empty one."""
    if text in NOT_AVAILABLE:
        return None
    if _INTEGER.fullmatch(text):
        return ColumnType.BIGINT
    if text in _BOOLEANS:
        return ColumnType.BOOLEAN
    if (
        ("." in text or "e" in text or "E" in text)
        and _DECIMAL.fullmatch(text)
        and math.isfinite(float(text))
    ):
        return ColumnType.DOUBLE
    return ColumnType.STRING


def type_of_value(value: Json) -> ColumnType | None:
    """Return the type of a JSON value; what a table column cannot hold is kept as its JSON text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return ColumnType.BOOLEAN
    if isinstance(value, int):
        return ColumnType.BIGINT if -(2**63) <= value < 2**63 else ColumnType.STRING
    return ColumnType.DOUBLE if isinstance(value, float) else ColumnType.STRING


def check_names(path: Path, names: Iterable[str], line: int | None = None) -> None:
    """Raise InputError where these names cannot all be columns of one table."""
    seen: dict[str, str] = {}
    for name in names:
        if not name.strip():
            raise InputError(path, line, "a column has no name")
        folded = name.casefold()
        if folded in ADDED_COLUMNS:
            raise InputError(
                path, line, f'the column "{name}" has a name that the job adds itself; rename it'
            )
        if folded in seen:
            other = (
                f'"{seen[folded]}" and "{name}"'
                if seen[folded] != name
                else f'two columns "{name}"'
            )
            raise InputError(
                path, line, f"{other} cannot both be columns: Spark cannot distinguish them"
            )
        seen[folded] = name
