"""Rows sorted within bounded memory: what is too much waits in files. Blocking.

Sorted runs of about the limit are written into a temporary folder, and merged from there, a piece
of each at a time; where there are many, some are merged into one first. Rows that are equal in all
that they are sorted by have no order among them.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from parley.errors import KafkaError

PIECE_BYTES = 2**20
"""About so much of each run is in memory while they are merged."""
MOST_RUNS = 16
"""So many are merged at once."""

Place = tuple[tuple[bool, Any], ...]
"""Where a row stands: nulls come last."""


class Sorter:
    """Takes rows in any order, and gives them back sorted."""

    def __init__(self, sorted_by: Sequence[str], limit_bytes: int) -> None:
        self._by, self._limit = tuple(sorted_by), limit_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._runs: list[Path] = []
        self._written = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows. Raises KafkaError where they do not fit on the disk."""
        self._waiting.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._limit:
            self._spill()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, sorted."""
        if not self._runs:
            if self._waiting:
                yield from _pieces(self._sorted())
            return
        if self._waiting:
            self._spill()
        while len(self._runs) > MOST_RUNS:
            self._write(self._merged(self._runs[:MOST_RUNS]))
            for path in self._runs[:MOST_RUNS]:
                path.unlink()
            del self._runs[:MOST_RUNS]
        yield from self._merged(self._runs)

    def close(self) -> None:
        """Remove the files. Idempotent."""
        self._waiting = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _sorted(self) -> pa.RecordBatch:
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._bytes = [], 0
        (joined,) = table.to_batches()
        return _in_order(joined, self._by)

    def _merged(self, paths: Sequence[Path]) -> Iterator[pa.RecordBatch]:
        return _merged([_Run(path, self._by) for path in paths], self._by)

    def _spill(self) -> None:
        self._write(iter([self._sorted()]))

    def _write(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Write rows that are sorted as another run."""
        first = next(rows)
        self._written += 1
        try:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="parley-replay-")
            path = Path(self._folder.name) / str(self._written)
            with pa.ipc.new_file(path, first.schema) as file:
                for batch in chain([first], rows):
                    for piece in _pieces(batch):
                        file.write_batch(piece)
        except OSError as error:
            raise KafkaError(
                f"rows that are sorted do not fit into {tempfile.gettempdir()}: {error}. Make room "
                "there, name another folder in TMPDIR, or choose fewer rows with where"
            ) from error
        self._runs.append(path)


class _Run:
    """A file of sorted rows, read piece by piece."""

    def __init__(self, path: Path, by: Sequence[str]) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path)))
        self._by, self._next = by, 0
        self.piece: pa.RecordBatch | None = None
        self.advance()

    def advance(self) -> None:
        """Have the next piece, None at the end."""
        is_there = self._next < self._file.num_record_batches
        self.piece = self._file.get_batch(self._next) if is_there else None
        self._next += 1

    @property
    def last(self) -> Place:
        """Where the last row of the piece stands."""
        assert self.piece is not None
        return _place(self.piece, self.piece.num_rows - 1, self._by)

    def take(self, until: Place) -> pa.RecordBatch:
        """Return the rows up to a place, which is included."""
        assert self.piece is not None
        rows, whole = self.piece, self.piece.num_rows

        def at(row: int) -> Place:
            return _place(rows, row, self._by)

        count = bisect_right(range(whole), until, key=at)
        if count == whole:
            self.advance()
        else:
            self.piece = rows.slice(count)
        return rows.slice(0, count)


def _merged(runs: list[_Run], by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    while runs := [run for run in runs if run.piece is not None]:
        # every run has shown what it has up to there
        until = min(run.last for run in runs)
        taken = [found for run in runs if (found := run.take(until)).num_rows]
        (joined,) = pa.Table.from_batches(taken).combine_chunks().to_batches()
        yield _in_order(joined, by)


def _in_order(rows: pa.RecordBatch, by: Sequence[str]) -> pa.RecordBatch:
    keys = [(name, "ascending") for name in by]
    return rows.take(pa.compute.sort_indices(rows, keys))


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    step = max(1, rows.num_rows * PIECE_BYTES // max(1, rows.nbytes))
    for at in range(0, rows.num_rows, step):
        yield rows.slice(at, step)


def _place(rows: pa.RecordBatch, row: int, by: Sequence[str]) -> Place:
    values = [rows.column(name)[row].as_py() for name in by]
    return tuple((value is None, value) for value in values)
