"""From a byte stream to frames and back.

Rules of the receiving half:
1. The framer owns the memory that bytes are received into; frames are views of it, never copies.
2. Memory grows with the bytes that arrived, doubling up to the announced size, by 4 MiB at most at
   a time; never by announcement.
3. Small frames share a chunk: of 4 KiB at first, of 64 KiB once those were full. A frame that does
   not fit there gets a chunk of its own, which ends with the frame, so that the frame after it
   starts in a small chunk again.
4. A released chunk is used again only if nobody can see its bytes (see chunks.py).
5. After an error the framer only repeats that error.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.frames.chunks import FIRST_CHUNK_BYTES, SMALL_CHUNK_BYTES, Chunk, ChunkPool
from parley.frames.foreign import describe_foreign, describe_text

DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's `socket.request.max.bytes`; other clients use 100 MB for answers too."""

UNAUTHENTICATED_MAX_FRAME_BYTES = 512 * 1024
"""Kafka's `sasl.server.max.receive.size` (CVE-2022-34917): the cap before a login."""

_SIZE_BYTES = 4
# below this one copy is cheaper than another buffer for the system call
_JOIN_BELOW_BYTES = 64 * 1024

Segment = bytes | memoryview


class EmptyFrames(enum.Enum):
    """What a frame of size 0 means; releases and phases differ, as measured on real brokers."""

    REJECT = "reject"  # brokers >= 1.0 close the connection; an answer is never empty
    IGNORE = "ignore"  # brokers <= 0.11 keep the connection open and answer nothing
    YIELD = "yield"  # raw SASL tokens (SaslHandshake v0) may be empty


class Frame:
    """One frame's content, without its size prefix: a view of the receive buffer."""

    __slots__ = ("_chunk", "data")

    def __init__(self, data: memoryview, chunk: Chunk | None = None) -> None:
        self.data = data
        self._chunk = chunk

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        try:
            return f"Frame({len(self.data)} bytes)"
        except ValueError:
            return "Frame(released)"

    def release(self) -> None:
        """Give the buffer back to its framer; `data` must not be used after it. Idempotent.

        Slices of `data` stay good: the buffer is used again only when no view of it is alive any
        more. Call it in the framer's thread.
        """
        chunk, self._chunk = self._chunk, None
        if chunk is None:
            return
        try:
            self.data.release()
        except BufferError:
            self.data = memoryview(b"")  # somebody exported this very view: only drop our reference
        chunk.frame_released()


class Framer:
    """Cuts frames out of received bytes. Call `next_frame` until None after each
    `buffer_updated` that returns True.
    """

    def __init__(
        self,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        *,
        empty_frames: EmptyFrames = EmptyFrames.REJECT,
    ) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.empty_frames = empty_frames
        self._pool = ChunkPool()
        self._small_bytes = FIRST_CHUNK_BYTES
        self._chunk = self._pool.take_small(self._small_bytes)
        self._start = 0  # of the bytes in _chunk that are not yet cut into frames
        self._end = 0  # of the received bytes in _chunk
        self._size = -1  # announced by the frame at _start; -1 while its prefix is incomplete
        self._own = False  # _chunk holds the content of one large frame only, without its prefix
        self._first = True  # no frame was cut yet
        self._ready: Frame | None = None  # a large frame that was whole before it was asked for
        self._error: RemoteProtocolError | None = None

    @property
    def pending_bytes(self) -> int:
        """Received bytes that are not part of a frame returned so far."""
        prefix = _SIZE_BYTES if self._own else 0
        return self._end - self._start + prefix

    @property
    def announced_bytes(self) -> int | None:
        """The size that the incomplete frame at the end announces, None while that is unknown."""
        return self._size if self._size >= 0 else None

    @property
    def allocated_bytes(self) -> int:
        """The memory held for receiving, with idle buffers, without frames not yet released."""
        return self._chunk.capacity + self._pool.idle_bytes

    def get_buffer(self, size_hint_bytes: int = -1) -> memoryview:
        """Return where the next bytes go; never empty. Fulfils asyncio's BufferedProtocol.

        Mutates: may grow or exchange the receive buffer, so an earlier result is void.
        """
        if self._own and self._end == self._size:
            # whole, but not asked for yet: the next bytes are another frame's
            self._ready = self._cut_own()
        if self._own:
            if self._end == self._chunk.capacity:
                self._grow()
            return self._chunk.view[self._end : self._size]
        if self._start == self._end:
            if self._end:
                self._rewind()
        elif self._end == self._chunk.capacity:
            self._make_room()
        return self._chunk.view[self._end :]

    def buffer_updated(self, received_bytes: int) -> bool:
        """Take note that this many bytes were written into the last `get_buffer` result.

        Returns False in the middle of a large frame: `next_frame` would return None.
        """
        self._end += received_bytes
        if self._error is not None:
            self._start = self._end  # nothing after an error is kept
        return not self._own or self._end >= self._size or self._ready is not None

    def feed(self, data: Segment) -> None:
        """Copy `data` in, as if it had been received. For tests and in-memory peers."""
        view = memoryview(data).cast("B")
        while view:
            buffer = self.get_buffer(len(view))
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            buffer.release()  # or the chunk would look as if somebody still read it
            self.buffer_updated(count)
            view = view[count:]

    def next_frame(self) -> Frame | None:
        """Return the next whole frame, or None while bytes are missing.

        Mutates: consumes the frame's bytes. Raises RemoteProtocolError for a size that is negative,
        empty where that is not allowed, or above `max_frame_bytes`; the stream cannot be read any
        further then, and every later call raises the same.
        """
        if self._ready is not None:
            frame, self._ready = self._ready, None
            return frame
        while True:
            if self._error is not None:
                raise self._error
            if self._size < 0:
                if self._end - self._start < _SIZE_BYTES:
                    return None
                self._read_size()
            if self._own:
                return self._cut_own() if self._end == self._size else None
            first = self._start + _SIZE_BYTES
            if self._end - first < self._size:
                if _SIZE_BYTES + self._size > self._chunk.capacity:
                    self._move_to_own()
                return None
            frame = self._cut(first, first + self._size)
            if len(frame) or self.empty_frames is EmptyFrames.YIELD:
                return frame
            frame.release()

    def _read_size(self) -> None:
        prefix = bytes(self._chunk.view[self._start : self._start + _SIZE_BYTES])
        size = int.from_bytes(prefix, "big", signed=True)
        if self._first or size < 0 or size > self.max_frame_bytes:
            self._check_prefix(prefix, size)
            self._first = False
        if size == 0 and self.empty_frames is EmptyFrames.REJECT:
            self._fail("the peer sent an empty frame, which no Kafka message is")
        self._size = size

    def _check_prefix(self, prefix: bytes, size: int) -> None:
        foreign = describe_foreign(prefix)
        if foreign is None and size > self.max_frame_bytes:
            foreign = describe_text(prefix)
        if foreign is not None:
            self._fail(f"the peer sent {foreign}")
        if size < 0:
            self._fail(
                f"the peer announced a frame of {size} bytes: this is not Kafka's protocol; "
                "check the port"
            )
        if size > self.max_frame_bytes:
            self._fail(
                f"the peer announced a frame of {size} bytes, more than "
                f"max_frame_bytes={self.max_frame_bytes}: check the port, or raise "
                "max_frame_bytes if answers really are that large"
            )

    def _fail(self, message: str) -> None:
        self._error = RemoteProtocolError(message)
        raise self._error

    def _cut(self, first: int, end: int) -> Frame:
        self._chunk.frames += 1
        self._start = end
        self._size = -1
        return Frame(self._chunk.view[first:end], self._chunk)

    def _cut_own(self) -> Frame:
        chunk, size = self._chunk, self._size
        chunk.frames += 1
        frame = Frame(chunk.view[:size], chunk)
        chunk.retire()
        if size <= SMALL_CHUNK_BYTES:
            self._small_bytes = SMALL_CHUNK_BYTES
        self._replace(self._pool.take_small(self._small_bytes), 0)
        self._size = -1
        self._own = False
        return frame

    def _move_to_own(self) -> None:
        # Only bytes of this frame can follow its prefix here, because the frame is incomplete.
        content = self._chunk.view[self._start + _SIZE_BYTES : self._end]
        self._exchange(self._pool.take_large(self._size, len(content)), content)
        self._own = True

    def _grow(self) -> None:
        if self._chunk.grow(self._size):
            return
        fresh = self._pool.take_large(self._size, self._end)
        fresh.view[: self._end] = self._chunk.view[: self._end]
        self._replace(fresh, self._end)  # the outgrown chunk is not worth keeping

    def _rewind(self) -> None:
        if self._end == self._chunk.capacity:
            self._small_bytes = SMALL_CHUNK_BYTES
        enough = self._chunk.capacity >= self._small_bytes
        if enough and self._chunk.frames == 0 and not self._chunk.is_seen():
            self._pool.tick()
            self._start = self._end = 0
        else:
            self._exchange(self._pool.take_small(self._small_bytes), self._chunk.view[:0])

    def _make_room(self) -> None:
        # The chunk is full. What is left in it is one incomplete frame, or whole frames that the
        # caller did not ask for yet; only the latter can need more than a small chunk.
        count = self._end - self._start
        is_first, self._small_bytes = self._chunk.capacity < SMALL_CHUNK_BYTES, SMALL_CHUNK_BYTES
        is_small = (
            count < _SIZE_BYTES + self._size <= SMALL_CHUNK_BYTES or count <= SMALL_CHUNK_BYTES // 2
        )
        may_stay = self._start and is_small and not is_first
        if may_stay and self._chunk.frames == 0 and not self._chunk.is_seen():
            # copes with the overlap
            self._chunk.view[:count] = self._chunk.view[self._start : self._end]
            self._start, self._end = 0, count
        else:
            fresh = self._pool.take_small() if is_small else self._pool.take_large(2 * count, count)
            self._exchange(fresh, self._chunk.view[self._start : self._end])

    def _exchange(self, fresh: Chunk, content: memoryview) -> None:
        old, count = self._chunk, len(content)
        fresh.view[:count] = content
        content.release()
        self._replace(fresh, count)
        old.retire()

    def _replace(self, fresh: Chunk, count: int) -> None:
        self._chunk = fresh
        self._start = 0
        self._end = count


def encode_frame(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments of one message with their size prefix in front.

    Small messages come back as one piece; the pieces of a large one stay as they are (no copy), and
    must not be changed until they are written. Raises LocalProtocolError above 2^31-1 bytes.
    """
    size = sum(len(segment) for segment in segments)
    if size > 0x7FFFFFFF:
        raise LocalProtocolError(
            f"a message of {size} bytes does not fit into a frame; send fewer records at once"
        )
    prefix = size.to_bytes(_SIZE_BYTES, "big")
    if size <= _JOIN_BELOW_BYTES:
        return [b"".join((prefix, *segments))]
    return [prefix, *segments]
