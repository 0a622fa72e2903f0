"""The file of a persisted cluster's state beside records: topics, leaders, offsets, producer ids.

Rules of this file:
1. One entry per line: 16 hex digits of BLAKE2b over the JSON text, a space, the JSON text. Entries
   are only appended; a later entry about the same thing replaces an earlier one.
2. An entry counts once its line is whole. A torn last line (kill -9) is cut off; a damaged line
   before the end is none of ours, and nobody goes on without what stood in it.
3. `begin` rewrites the journal as the shortest one that says the same, under another name, then
   renames: at each start, and when it has grown long.
4. JSON only: no pickle on disk.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from parley.errors import DataLossError

Entry = dict[str, Any]
LONG_BYTES = 16 * 1024 * 1024


def _line(entry: Entry) -> bytes:
    text = json.dumps(entry, separators=(",", ":"), sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest().encode() + b" " + text + b"\n"


def read_entries(data: bytes) -> Iterator[Entry]:
    """Yield the entries of a journal; a last line without its end is left out.

    Raises DataLossError at a line that is not what was written.
    """
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            return
        digest, _, text = line[:-1].partition(b" ")
        if hashlib.blake2b(text, digest_size=8).hexdigest().encode() != digest:
            raise DataLossError(
                f"line {number} of the cluster's journal is damaged, and with it topics or offsets "
                "are lost; restore the data directory from a copy, or begin with an empty one"
            )
        yield json.loads(text)


class Journal:
    """An append-only file of JSON entries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self._size = 0
        self._first_size = 0

    @property
    def is_long(self) -> bool:
        """Whether most of it has been replaced by later entries, so that `begin` would pay."""
        return self._size > LONG_BYTES + 4 * self._first_size

    def read(self) -> list[Entry]:
        """Return the entries of an earlier life; none when there is no file."""
        try:
            return list(read_entries(self.path.read_bytes()))
        except FileNotFoundError:
            return []

    def begin(self, entries: Iterable[Entry]) -> None:
        """Replace the file by these entries, in one step, and keep it open for more."""
        temporary = self.path.with_suffix(".new")
        data = b"".join(_line(entry) for entry in entries)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fd, data, 0)
            os.fsync(fd)
            temporary.replace(self.path)
        except OSError:
            os.close(fd)
            raise
        self.close()
        self._fd, self._size, self._first_size = fd, len(data), len(data)

    def append(self, *entries: Entry) -> None:
        """Append entries, all or none. Raises OSError, the file as before, if the disk refuses."""
        data = b"".join(_line(entry) for entry in entries)
        try:
            _write_all(self._fd, data, self._size)
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def close(self, *, sync: bool = False) -> None:
        """Close the file."""
        if self._fd >= 0:
            if sync:
                os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1


def _write_all(fd: int, data: bytes, at: int) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(fd, left, at)
        at += written
        left = left[written:]
