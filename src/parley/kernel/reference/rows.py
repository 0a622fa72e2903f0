"""Columns of what Python holds as lists, one object for each row."""

from __future__ import annotations

from parley.kernel.contract import MAX_COLUMN_BYTES, KernelError, KernelErrorKind, VarColumn
from parley.kernel.reference.columns import VarBuilder


def bytes_column(values: list[bytes | None]) -> VarColumn:
    """Return the column of a list of bytes and None."""
    builder = VarBuilder()
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, bytes):
            raise KernelError(
                KernelErrorKind.ARGUMENT, "a value that is neither bytes nor None", record=row
            )
        if value is not None and len(value) > MAX_COLUMN_BYTES - builder.size:
            raise KernelError(KernelErrorKind.TOO_LARGE, "a column beyond 2 GiB", record=row)
        builder.append(value)
    return builder.finish()
