"""Hashes of records, and digests of runs of them: equal for equal records, wherever they stand."""

from __future__ import annotations

from array import array
from struct import Struct

from parley.kernel.contract import (
    DIGEST_BASE,
    DIGEST_MODULUS,
    Buffer,
    Columns,
    HeadersColumn,
    KernelError,
    KernelErrorKind,
    VarColumn,
)
from parley.kernel.reference.columns import VarReader
from parley.kernel.reference.xxh64 import xxh64

_INT32, _INT64 = Struct("<i"), Struct("<q")
_NULL = _INT32.pack(-1)


def record_hashes(columns: Columns) -> Buffer:
    """Return the hash of each record as uint64."""
    times = None
    if columns.timestamps is not None:
        times = memoryview(columns.timestamps).cast("B").cast("q")
        if len(times) < columns.rows:
            raise _missing("timestamps")
    key, value = _reader(columns.key, columns.rows), _reader(columns.value, columns.rows)
    headers = _Headers(columns.headers, columns.rows)
    found = array("Q")
    for row in range(columns.rows):
        form = bytearray() if times is None else bytearray(_INT64.pack(times[row]))
        _push(form, None if key is None else key[row])
        _push(form, None if value is None else value[row])
        headers.push(form, row)
        found.append(xxh64(form))
    return found.tobytes()


def digest_runs(hashes: Buffer, first: int, run: int) -> Buffer:
    """Return number of records, sum and polynomial of each run of hashes."""
    if first < 1 or run < 1:
        raise KernelError(KernelErrorKind.ARGUMENT, "a run has at least one record")
    numbers = memoryview(hashes).cast("B").cast("Q")
    found, start, end = array("Q"), 0, first
    while start < len(numbers):
        part = numbers[start:end]
        polynomial = 0
        for number in part:
            polynomial = (polynomial * DIGEST_BASE + number) % DIGEST_MODULUS
        found.extend((len(part), sum(part) & 0xFFFFFFFFFFFFFFFF, polynomial))
        start, end = end, end + run
    return found.tobytes()


def _push(form: bytearray, value: memoryview | None) -> None:
    if value is None:
        form += _NULL
    else:
        form += _INT32.pack(len(value))
        form += value


def _missing(what: str) -> KernelError:
    return KernelError(KernelErrorKind.ARGUMENT, f"the {what} are fewer than the rows")


def _reader(column: VarColumn | None, rows: int) -> VarReader | None:
    if column is None:
        return None
    reader = VarReader(column)
    if len(reader) < rows:
        raise _missing("keys or values")
    return reader


class _Headers:
    """Appends the headers of rows."""

    def __init__(self, column: HeadersColumn | None, rows: int) -> None:
        self._ends = None
        if column is not None:
            self._ends = memoryview(column.offsets).cast("B").cast("i")
            if len(self._ends) <= rows:
                raise _missing("headers")
            self._keys, self._values = VarReader(column.keys), VarReader(column.values)

    def push(self, form: bytearray, row: int) -> None:
        start, end = (0, 0) if self._ends is None else self._ends[row : row + 2]
        form += _INT32.pack(end - start)
        for at in range(start, end):
            key = self._keys[at]
            if key is None:
                raise KernelError(KernelErrorKind.ARGUMENT, "a header's key is null")
            _push(form, key)
            _push(form, self._values[at])
