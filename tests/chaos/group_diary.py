"""What one member of a group writes down: a line for each thing that it did, with the time.

The clock is CLOCK_MONOTONIC, which all processes of a machine share. A line is one write to a file,
so that what was written is there whoever is killed next.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
"""`did`, what; `at`, when in seconds; and what belongs to it."""


class Diary:
    """The diary of one process, while it writes it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, did: str, **what: object) -> None:
        """Write a line."""
        line = {"did": did, "at": time.monotonic(), **what}
        os.write(self._file, (json.dumps(line) + "\n").encode())


class DiaryReader:
    """The same diary, read by another process while it grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.lines: list[Line] = []

    def look(self) -> list[Line]:
        """Return all lines that are there."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read += len(whole) + len(newline)
            self.lines += [json.loads(line) for line in whole.splitlines()]
        return self.lines

    @property
    def last(self) -> Line:
        """The last line, an empty one where there is none."""
        lines = self.look()
        return lines[-1] if lines else {"did": "", "at": 0.0}

    def since(self, did: str, first: int = 0) -> Iterator[Line]:
        """Yield the lines from a place on that say that something was done."""
        return (line for line in self.look()[first:] if line["did"] == did)

    def held(self) -> set[int]:
        """Return the partitions that the member has by its diary."""
        found: set[int] = set()
        for line in self.look():
            if line["did"] == "assigned":
                found |= set(line["partitions"])
            elif line["did"] in ("revoked", "lost"):
                found -= set(line["partitions"])
        return found
