"""Receive buffers that are used again, but never while anybody can still see their bytes.

Rules:
1. A chunk is idle when every frame cut from it was released.
2. Release is a promise, not a proof: before an idle chunk is used again its memory is asked whether
   any view of it is still alive (a bytearray refuses to change its length while one is). A chunk
   that is still seen stays idle and is asked again; its bytes are never overwritten. So messages
   may keep views of a released frame, and the buffer comes back by itself when they are gone.
3. Idle memory is bounded in bytes and chunks; the oldest are left to the garbage collector. It is
   given up when no large frame came for a while.
4. Everything here happens in one thread. Views may die in any other.
"""

from __future__ import annotations

SMALL_CHUNK_BYTES = 64 * 1024
"""One receive buffer for many small frames; also the first step of a large frame's own buffer."""

FIRST_CHUNK_BYTES = 4 * 1024
"""What a connection receives into at first: heartbeats and what they bring never need more."""

MAX_STEP_BYTES = 4 * 1024 * 1024
"""The most by which a large frame's buffer grows at once: about a millisecond of the event loop."""

MAX_IDLE_BYTES = 64 * 1024 * 1024
"""Idle memory one connection may keep: two fetches of 16 MiB and their successors, with room."""

MAX_IDLE_CHUNKS = 8
"""More idle chunks than this are not worth asking: each costs about a microsecond."""

IDLE_TICKS = 256
"""Small-chunk turnovers (some 16 MiB of small frames) before idle large buffers go."""

_ZEROS = memoryview(bytes(MAX_STEP_BYTES))


class Chunk:
    """A writable buffer, the view through which it is used, and the count of frames cut from it."""

    __slots__ = ("_memory", "_pool", "frames", "retired", "view")

    def __init__(self, capacity: int, pool: ChunkPool) -> None:
        self._memory = bytearray(capacity)
        self._pool = pool
        self.view = memoryview(self._memory)
        self.frames = 0  # handed out and not yet released
        self.retired = False  # the framer writes no more into it

    @property
    def capacity(self) -> int:
        """The number of bytes it can hold."""
        return len(self._memory)

    def is_seen(self) -> bool:
        """Say whether a view other than the chunk's own is alive. Renews `view`."""
        self.view.release()
        try:
            # A bytearray cannot change its length while a buffer of it is exported; one byte less
            # and one more stays inside its allocation, so this costs nothing and moves nothing.
            self._memory.append(self._memory.pop())
        except BufferError:
            seen = True
        else:
            seen = False
        self.view = memoryview(self._memory)
        return seen

    def grow(self, most_bytes: int) -> bool:
        """Make it larger in place, up to `most_bytes`: twice as large, by MAX_STEP_BYTES at most.

        Returns False, and changes nothing, while a view other than the chunk's own is alive. Renews
        `view`. The allocator moves a large buffer's pages, not its bytes.
        """
        step = min(most_bytes - len(self._memory), len(self._memory), MAX_STEP_BYTES)
        self.view.release()
        try:
            self._memory += _ZEROS[:step]
        except BufferError:
            grown = False
        else:
            grown = True
        self.view = memoryview(self._memory)
        return grown

    def retire(self) -> None:
        """Say that nothing more is written into it; idle with the last frame's release."""
        self.retired = True
        if self.frames == 0:
            self._pool.give(self)

    def frame_released(self) -> None:
        """Count one frame less; the last one makes a retired chunk idle."""
        self.frames -= 1
        if self.retired and self.frames == 0:
            self._pool.give(self)


class ChunkPool:
    """The idle buffers of one connection."""

    __slots__ = ("_idle", "_max_idle_bytes", "_ticks", "idle_bytes")

    def __init__(self, max_idle_bytes: int = MAX_IDLE_BYTES) -> None:
        self._idle: list[Chunk] = []
        self._max_idle_bytes = max_idle_bytes
        self._ticks = 0
        self.idle_bytes = 0

    def take_small(self, capacity: int = SMALL_CHUNK_BYTES) -> Chunk:
        """Return a chunk of so many bytes with nothing in it."""
        self.tick()
        for chunk in self._idle:
            if chunk.capacity == capacity and not chunk.is_seen():
                return self._renewed(chunk)
        return Chunk(capacity, self)

    def take_large(self, wanted: int, earned: int) -> Chunk:
        """Return a chunk for a frame that announces `wanted` bytes, of which `earned` have arrived.

        A new chunk is never larger than twice what arrived (and SMALL_CHUNK_BYTES): a peer that
        announces much and sends little must not cost memory. An idle one of any size is free.
        """
        self._ticks = 0
        usable = [chunk for chunk in self._idle if chunk.capacity > earned and not chunk.is_seen()]
        fitting = [chunk for chunk in usable if chunk.capacity >= wanted]
        if fitting:
            return self._renewed(min(fitting, key=lambda chunk: chunk.capacity))
        if usable:
            return self._renewed(max(usable, key=lambda chunk: chunk.capacity))
        return Chunk(min(wanted, max(2 * earned, SMALL_CHUNK_BYTES)), self)

    def give(self, chunk: Chunk) -> None:
        """Take back a chunk without frames; the oldest idle ones make room for it."""
        self._idle.append(chunk)
        self.idle_bytes += chunk.capacity
        while self.idle_bytes > self._max_idle_bytes or len(self._idle) > MAX_IDLE_CHUNKS:
            self.idle_bytes -= self._idle.pop(0).capacity

    def tick(self) -> None:
        """Count a turnover of small frames; after IDLE_TICKS without a large one, free memory."""
        self._ticks += 1
        if self._ticks == IDLE_TICKS:
            self._idle.clear()
            self.idle_bytes = 0

    def _renewed(self, chunk: Chunk) -> Chunk:
        self._idle.remove(chunk)
        self.idle_bytes -= chunk.capacity
        chunk.retired = False
        return chunk
