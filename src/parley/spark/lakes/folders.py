"""Where a table's files go: a folder, or a place in an object store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeAlias

from parley.errors import KafkaError, LakeError
from parley.spark.lakes.opening import said, secrets_of
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
        """Begin a file of that name below the folder. Raises LakeError, as the file does."""
        with self._taking(name):
            return CountedFile(self._begun(name), lambda: self._taking(name))

    def _begun(self, name: str) -> Stream:
        if self._local is None:
            return self._in_store(self.path, self._storage, name)
        place = os.path.join(self._local, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return open(place, "xb", buffering=2**20)

    @contextmanager
    def _taking(self, name: str) -> Iterator[None]:
        """Raise as LakeError what the folder or the store says against a file."""
        try:
            yield
        except KafkaError:
            raise
        except Exception as error:
            what = "folder" if self._local is not None else "store"
            raise LakeError(
                f"the {what} {self.path} of the table did not take the file {name}: "
                f"{said(error, secrets_of(self._storage))}. Nothing of the rows can be seen. "
                "Each task must be able to write there: correct the path, the rights or the "
                f"{what}'s room, and start the query again"
            ) from error


class CountedFile:
    """A file being written, which knows its size; pyarrow takes it for a file of Python's.

    What is done with the stream is done within `taking`, which knows the file's place.
    """

    def __init__(self, stream: Stream, taking: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream, self._taking = stream, taking
        self.size = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Write bytes."""
        with self._taking():
            self._stream.write(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Hand on what is buffered."""
        with self._taking():
            self._stream.flush()

    def close(self) -> None:
        """Finish the file."""
        self.closed = True
        with self._taking():
            self._stream.close()
