"""Where a table's files go: a folder, or a place in an object store."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from parley.spark.lakes.options import local_folder


class Stream(Protocol):
    """What bytes are written to: a file, or a library's way into a store."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""

    def flush(self) -> object:
        """Hand on what is buffered."""

    def close(self) -> object:
        """Finish."""


OpenInStore: TypeAlias = Callable[[str, Mapping[str, str], str], Stream]
"""Begins a file in an object store: the folder's address, the store's options, the file's name."""


class Folder:
    """The folder of a table's files as a task writes into it."""

    def __init__(self, path: str, storage: Mapping[str, str], in_store: OpenInStore) -> None:
        self.path = path
        self._storage, self._in_store = storage, in_store
        self._local = local_folder(path)

    def create(self, name: str) -> CountedFile:
        """Begin a file of that name below the folder."""
        if self._local is None:
            return CountedFile(self._in_store(self.path, self._storage, name))
        place = os.path.join(self._local, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return CountedFile(open(place, "xb", buffering=2**20))


class CountedFile:
    """A file being written, which knows its size; pyarrow takes it for a file of Python's."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.size = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Write bytes."""
        self._stream.write(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._stream.flush()

    def close(self) -> None:
        """Finish the file."""
        self.closed = True
        self._stream.close()
