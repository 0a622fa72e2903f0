"""Bounded decompression of one zlib stream (RFC 1950), and its opposite.

No record batch has such a stream; single messages do (AWS Glue's frames).
"""

from __future__ import annotations

import zlib

from parley.kernel.contract import Buffer, KernelError, KernelErrorKind


def inflate(data: Buffer, max_bytes: int) -> bytes:
    """Return the decompressed bytes.

    Raises KernelError: TOO_LARGE beyond `max_bytes`, COMPRESSED where the bytes are damaged, end
    early or go on behind the end of the stream.
    """
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise KernelError(KernelErrorKind.COMPRESSED, f"damaged zlib data: {error}") from error
    if len(found) > max_bytes:
        raise KernelError(KernelErrorKind.TOO_LARGE, f"decompresses to more than {max_bytes} bytes")
    if not stream.eof or stream.unused_data:
        what = "it ends early" if not stream.eof else "bytes follow its end"
        raise KernelError(KernelErrorKind.COMPRESSED, f"damaged zlib data: {what}")
    return found


def deflate(data: Buffer) -> bytes:
    """Return the bytes compressed."""
    return zlib.compress(data)
