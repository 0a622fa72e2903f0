"""Where a log segment's bytes lie: in shared memory slabs, or in a file.

Rules of this file:
1. A slab is written once, front to back: what stands in it never changes, so that readers,
   sockets and the logs of follower replicas may all point into it without a copy.
2. A store that fails to append is left as it was: no half-written batch stays.
3. Nothing here knows what a batch is.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from parley.devcluster.state.log.batches import Bytes

FIRST_SLAB_BYTES = 64 * 1024
LARGEST_SLAB_BYTES = 8 * 1024 * 1024
ALONE_BYTES = LARGEST_SLAB_BYTES // 8
"""What is larger gets a slab of its own size."""


class Slab:
    """A block of memory that is filled from the front and never rewritten."""

    __slots__ = ("size", "used", "view")

    def __init__(self, memory: Bytes, used: int = 0) -> None:
        self.size = len(memory)
        self.view = memoryview(memory)
        self.used = used


class Extent(NamedTuple):
    """The bytes `start` to `end` of a slab."""

    slab: Slab
    start: int
    end: int

    @property
    def data(self) -> memoryview:
        """The bytes themselves, by reference."""
        return self.slab.view[self.start : self.end]


def whole(memory: Bytes) -> Extent:
    """Return memory that nobody writes any more as an extent of its own."""
    return Extent(Slab(memory, len(memory)), 0, len(memory))


Part = Extent | Bytes | tuple[Bytes, Bytes]
"""What may be appended: bytes to copy (a pair is one run in two), or an extent to share."""


def _in_one(part: Part) -> Bytes:
    if isinstance(part, Extent):
        return part.data
    return b"".join(part) if isinstance(part, tuple) else part


class ByteStore(Protocol):
    """An append-only run of bytes."""

    size: int

    @property
    def name(self) -> str:
        """Where they lie."""

    def append(self, part: Part) -> Part:
        """Append bytes; return what a follower's store may share. OSError leaves no trace."""

    def view(self, start: int, end: int) -> list[memoryview]:
        """Return the bytes `start` to `end`, in as few pieces as they are stored in."""

    def truncate(self, size: int) -> None:
        """Forget everything from `size` on."""

    def close(self, *, sync: bool = False) -> None:
        """Release what the store holds; with `sync` its bytes reach the disk first."""

    def delete(self) -> None:
        """Close the store and remove what it left outside of memory."""


class MemoryStore:
    """Bytes in slabs, shared with other stores by reference."""

    name = "memory"

    def __init__(self) -> None:
        self.size = 0
        self._extents: list[Extent] = []
        self._starts: list[int] = []
        self._slab: Slab | None = None

    def append(self, part: Part) -> Part:
        """Append by reference when given an extent, else by one copy into the slab."""
        if isinstance(part, Extent):
            extent = part
        else:
            extent = self._copy_in(*part) if isinstance(part, tuple) else self._copy_in(part, b"")
        last = self._extents[-1] if self._extents else None
        if last is not None and last.slab is extent.slab and last.end == extent.start:
            self._extents[-1] = Extent(extent.slab, last.start, extent.end)
        else:
            self._extents.append(extent)
            self._starts.append(self.size)
        self.size += extent.end - extent.start
        return extent

    def _copy_in(self, head: Bytes, rest: Bytes) -> Extent:
        middle = len(head)
        needed = middle + len(rest)
        slab = self._slab
        if needed > ALONE_BYTES:  # else up to half of each slab would stay empty
            return whole(b"".join((head, rest)))
        if slab is None or slab.used + needed > slab.size:
            usual = FIRST_SLAB_BYTES if slab is None else min(slab.size * 2, LARGEST_SLAB_BYTES)
            self._slab = slab = Slab(bytearray(max(usual, needed)))
        start = slab.used
        slab.used = end = start + needed
        slab.view[start : start + middle] = head
        slab.view[start + middle : end] = rest
        return Extent(slab, start, end)

    def view(self, start: int, end: int) -> list[memoryview]:
        """Return references into the slabs: one piece unless the range crosses a slab's end."""
        pieces = []
        which = bisect_right(self._starts, start) - 1
        while start < end:
            extent, base = self._extents[which], self._starts[which]
            stop = min(end, base + extent.end - extent.start)
            pieces.append(
                extent.slab.view[extent.start + start - base : extent.start + stop - base]
            )
            start = stop
            which += 1
        return pieces

    def truncate(self, size: int) -> None:
        """Forget the tail. The slab keeps its bytes: a later append goes behind them."""
        while self._starts and self._starts[-1] >= size:
            self._starts.pop()
            self._extents.pop()
        if self._extents:
            last = self._extents[-1]
            self._extents[-1] = Extent(last.slab, last.start, last.start + size - self._starts[-1])
        self.size = size

    def close(self, *, sync: bool = False) -> None:
        """Keep the bytes: memory is all there is."""

    def delete(self) -> None:
        """Drop the references."""
        self.truncate(0)
        self._slab = None


class FileStore:
    """Bytes in one file, appended by pwrite and read by pread.

    Written bytes are the kernel's as soon as the call returns: they survive a kill -9 of the
    process (not a power cut, as with Kafka's own defaults).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._fd).st_size

    @property
    def name(self) -> str:
        """Where the file is."""
        return str(self.path)

    def append(self, part: Part) -> Part:
        """Write at the end. Raises OSError when the disk refuses; the file is then as before."""
        data = _in_one(part)
        left = memoryview(data)
        at = self.size
        try:
            while left:
                written = os.pwrite(self._fd, left, at)
                at += written
                left = left[written:]
        except OSError:
            os.ftruncate(self._fd, self.size)
            raise
        self.size = at
        return data

    def view(self, start: int, end: int) -> list[memoryview]:
        """Read the range into one new piece."""
        return [memoryview(os.pread(self._fd, end - start, start))] if end > start else []

    def truncate(self, size: int) -> None:
        """Cut the file."""
        os.ftruncate(self._fd, size)
        self.size = size

    def close(self, *, sync: bool = False) -> None:
        """Close the file."""
        if self._fd >= 0:
            if sync:
                os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def rename(self, path: Path) -> None:
        """Take the place of another file. Raises OSError."""
        self.path = self.path.rename(path)

    def delete(self) -> None:
        """Close and remove the file."""
        self.close()
        self.path.unlink(missing_ok=True)


class StoreFactory(Protocol):
    """Makes the store of a new segment, and finds those that are there already."""

    def create(self, base_offset: int) -> ByteStore:
        """Return an empty store for the segment that begins at `base_offset`."""

    def create_beside(self, base_offset: int) -> ByteStore:
        """Return an empty store for what will take the place of the segment of that offset."""

    def put_in_place(self, store: ByteStore, base_offset: int) -> None:
        """Let such a store be the segment's, at once or not at all. The old one is closed."""

    def existing(self) -> Sequence[tuple[int, ByteStore]]:
        """Return the base offset and store of each segment found, in order."""

    def delete(self) -> None:
        """Remove what is left of the log outside of memory."""


class MemoryStores:
    """Segments in memory."""

    def create(self, base_offset: int) -> ByteStore:
        """Return an empty store."""
        return MemoryStore()

    def create_beside(self, base_offset: int) -> ByteStore:
        """Return an empty store."""
        return MemoryStore()

    def put_in_place(self, store: ByteStore, base_offset: int) -> None:
        """Do nothing: who holds the store decides what it is."""

    def existing(self) -> Sequence[tuple[int, ByteStore]]:
        """Return nothing: memory starts empty."""
        return ()

    def delete(self) -> None:
        """Do nothing."""


def make_private(directory: Path) -> None:
    """Create a directory and those above it that are missing, for this user only."""
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700)


class FileStores:
    """Segments as `<base offset, 20 digits>.log` in one directory, as Kafka names them.

    What will replace one is `.cleaned` until it is whole.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        make_private(directory)

    def create(self, base_offset: int) -> ByteStore:
        """Return an empty store; a file of that name left over is emptied."""
        return self._empty(base_offset, "log")

    def create_beside(self, base_offset: int) -> ByteStore:
        """Return an empty store under a name that no segment has."""
        return self._empty(base_offset, "cleaned")

    def put_in_place(self, store: ByteStore, base_offset: int) -> None:
        """Give the file the segment's name, which its old one loses. Raises OSError."""
        assert isinstance(store, FileStore)
        store.rename(self._path(base_offset, "log"))

    def _empty(self, base_offset: int, kind: str) -> FileStore:
        store = FileStore(self._path(base_offset, kind))
        store.truncate(0)
        return store

    def _path(self, base_offset: int, kind: str) -> Path:
        return self.directory / f"{base_offset:020d}.{kind}"

    def existing(self) -> Sequence[tuple[int, ByteStore]]:
        """Open the segment files found, in offset order; what replaced none is removed."""
        for unfinished in self.directory.glob("*.cleaned"):
            unfinished.unlink()
        names = sorted(path for path in self.directory.glob("*.log") if path.stem.isdigit())
        return [(int(path.stem), FileStore(path)) for path in names]

    def delete(self) -> None:
        """Remove the directory with its content, and the topic's with its last partition."""
        for path in self.directory.iterdir():
            path.unlink()
        self.directory.rmdir()
        if not any(self.directory.parent.iterdir()):
            self.directory.parent.rmdir()
