"""Frames: the size-prefixed units of Kafka's wire, cut out of a byte stream without copying.

    frame  = size:int32 big-endian, then `size` bytes (KIP-0, unchanged since 0.7)

`Framer` receives into its own buffers and hands out `Frame`s that are views of them;
`encode_frame` is its mirror for sending.

Map: `framer` cuts frames out of bytes, in buffers of `chunks`; `foreign` recognises other
protocols.
"""

from parley.frames.chunks import Chunk, ChunkPool
from parley.frames.framer import (
    DEFAULT_MAX_FRAME_BYTES,
    UNAUTHENTICATED_MAX_FRAME_BYTES,
    EmptyFrames,
    Frame,
    Framer,
    encode_frame,
)

__all__ = [
    "DEFAULT_MAX_FRAME_BYTES",
    "UNAUTHENTICATED_MAX_FRAME_BYTES",
    "Chunk",
    "ChunkPool",
    "EmptyFrames",
    "Frame",
    "Framer",
    "encode_frame",
]
