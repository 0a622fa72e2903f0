"""Decompression of single messages, as frames of some registries have it."""

from __future__ import annotations

from parley.errors import RemoteProtocolError
from parley.kernel import Buffer, KernelError, KernelErrorKind
from parley.kernel.zlib_stream import deflate, inflate as _inflate

__all__ = ["deflate", "inflate"]


def inflate(data: Buffer, max_bytes: int) -> bytes:
    """Return a zlib stream's bytes. Raises RemoteProtocolError if damaged, or too large."""
    try:
        return _inflate(data, max_bytes)
    except KernelError as error:
        hint = ""
        if error.kind is KernelErrorKind.TOO_LARGE:
            hint = "; raise max_bytes if such messages are meant to be"
        raise RemoteProtocolError(f"{error.detail}{hint}") from error
