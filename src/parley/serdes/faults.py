"""What is wrong with data that are to be decoded, or with a value that is to be encoded."""

from __future__ import annotations


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
