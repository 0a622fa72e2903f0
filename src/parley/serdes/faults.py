"""What is wrong with data that are to be decoded, or with a value that is to be encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from parley.errors import SchemaError
from parley.types import shown

Given = TypeVar("Given")
Made = TypeVar("Made")


class DatumFault(Exception):
    """What is wrong with data; the text says at which byte, where there is such a place."""


class ValueFault(Exception):
    """Why a value does not fit its schema, and where in it: names of fields, joined by dots."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(f"{path}: {why}" if path else why)
        self.why = why
        self.path = path

    def within(self, name: str) -> ValueFault:
        """Return the same fault as seen from around the value: as that of a field or an item."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return ValueFault(self.why, f"{name}{dot}{self.path}")


class RowFault(Exception):
    """A fault of a column's value, and in which row, where that is known."""

    def __init__(self, fault: ValueFault, row: int | None) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.row = row


def wrong_value(value: object, wanted: str) -> ValueFault:
    """Return the fault of a value of another kind than is wanted."""
    given = "null" if value is None else shown(value)
    return ValueFault(f"{given} is given where {wanted} is wanted")


@contextmanager
def bounded_depth() -> Iterator[None]:
    """Raise SchemaError where the types of a schema lead deeper into each other than can be."""
    try:
        yield
    except RecursionError:
        raise SchemaError("the types of the schema are nested too deep") from None


def inner_path(path: str, name: str) -> str:
    """Return the path of a field, or of what a list or map holds."""
    return f"{path}.{name}" if path else name


def each_item(items: Iterable[Given], convert: Callable[[Given], Made]) -> list[Made]:
    """Return what is made of each item of a list. A fault says of which."""
    found: list[Made] = []
    for index, one in enumerate(items):
        try:
            found.append(convert(one))
        except ValueFault as fault:
            raise fault.within(f"[{index}]") from None
    return found


def each_row(values: Iterable[object], encode: Callable[[object], bytes]) -> list[bytes | None]:
    """Return the data of each row of a column, None for null. Raises RowFault."""
    found: list[bytes | None] = []
    for row, value in enumerate(values):
        try:
            found.append(None if value is None else encode(value))
        except ValueFault as fault:
            raise RowFault(fault, row) from fault
    return found
