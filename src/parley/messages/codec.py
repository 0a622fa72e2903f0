"""Encoding and decoding of message bodies: compiled at first use, behind two functions."""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from typing import Any, Generic, TypeAlias, TypeVar

from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.messages.classes import Message
from parley.messages.costs import CAREFUL_BYTES, QUICK_ALLOWED_BYTES, allowed_bytes
from parley.messages.decode import Decoder
from parley.messages.encode import Encoder
from parley.messages.fast_decode import Malformed, TooMuch, generate_decoder
from parley.messages.fast_encode import Unfit, generate_encoder
from parley.messages.plan import StructPlan, make_plan
from parley.wire import Cursor, WriteBuffer

M = TypeVar("M", bound=Message)
Data: TypeAlias = bytes | memoryview

QUICK_BYTES = 128 * 1024
"""What an event loop decodes itself: at worst some 20 ms of a quiet processor."""

EXPLAIN_UP_TO_BYTES = 64 * 1024
"""Bad messages up to this size are decoded once more by the slow reference to name the field;
beyond it a hostile peer could keep the event loop busy with explanations.
"""


class Codec(Generic[M]):
    """The compiled decoder and encoder of one message in one version."""

    __slots__ = (
        "careful",
        "decode",
        "encode",
        "holds_records",
        "message",
        "plan",
        "reading_plan",
        "version",
    )

    def __init__(self, message: type[M], version: int) -> None:
        self.message = message
        self.version = version
        self.plan: StructPlan = make_plan(message.SCHEMA, version)
        self.reading_plan: StructPlan = make_plan(message.SCHEMA, version, reading=True)
        self.holds_records = self.plan.holds_records()
        self.decode: Callable[[Data, int], tuple[M, int]] = _LazyDecoder(self)
        self.careful: Callable[[Data, int, int], tuple[M, int]] = _LazyCareful(self)
        self.encode: Callable[[M, WriteBuffer], None] = _LazyEncoder(self)


class _LazyDecoder(Generic[M]):
    """Stands in until the first call: a client encodes requests, decodes responses."""

    def __init__(self, codec: Codec[M]) -> None:
        self._codec = codec

    def __call__(self, data: Data, position: int) -> tuple[M, int]:
        codec = self._codec
        codec.decode = generate_decoder(codec.message, codec.version, codec.reading_plan)
        return codec.decode(data, position)


class _LazyCareful(Generic[M]):
    def __init__(self, codec: Codec[M]) -> None:
        self._codec = codec

    def __call__(self, data: Data, position: int, allowed: int) -> tuple[M, int]:
        codec = self._codec
        codec.careful = generate_decoder(
            codec.message, codec.version, codec.reading_plan, careful=True
        )
        return codec.careful(data, position, allowed)


class _LazyEncoder(Generic[M]):
    def __init__(self, codec: Codec[M]) -> None:
        self._codec = codec

    def __call__(self, message: M, buffer: WriteBuffer) -> None:
        codec = self._codec
        codec.encode = generate_encoder(codec.message, codec.version, codec.plan)
        codec.encode(message, buffer)


_CODECS: dict[tuple[type[Message], int], Codec[Any]] = {}


def codec_for(message: type[M], version: int) -> Codec[M]:
    """Return a message's codec in a version. Raises LocalProtocolError without that."""
    found = _CODECS.get((message, version))
    if found is None:
        found = _CODECS.setdefault((message, version), Codec(message, version))
    return found


def decode_at(
    message: type[M], version: int, data: bytes | bytearray | memoryview, position: int = 0
) -> tuple[M, int]:
    """Return the message that begins at `position` in `data`, and the position after it.

    Fields of type records are views of `data`; everything else is copied, so without such fields
    the message does not keep `data` alive. Raises RemoteProtocolError, and nothing else, for any
    bytes that are no such message, and for a large one whose objects would take far more memory
    than it.
    """
    codec = codec_for(message, version)
    if len(data) > CAREFUL_BYTES:
        return _decode_carefully(codec, memoryview(data).cast("B"), position)
    # Indexing and slicing bytes is faster than a view;
    # records must stay views of what was received.
    source = memoryview(data).cast("B") if codec.holds_records else bytes(data)
    try:
        return codec.decode(source, position)
    except (Malformed, StructError, IndexError, UnicodeDecodeError, RemoteProtocolError) as error:
        raise _explained(codec, source, position, error) from error


def decode_quickly(
    message: type[M], version: int, data: bytes | bytearray | memoryview, position: int = 0
) -> tuple[M, int] | None:
    """Do what `decode_at` does where that is a matter of milliseconds, else return None.

    Large record batches are quick, since they stay views; a large message without them is not.
    """
    if len(data) <= QUICK_BYTES:
        return decode_at(message, version, data, position)
    codec = codec_for(message, version)
    if not codec.holds_records:
        return None
    try:
        return _decode_carefully(codec, memoryview(data).cast("B"), position, QUICK_ALLOWED_BYTES)
    except TooMuch:
        return None


def _decode_carefully(
    codec: Codec[M], source: memoryview, position: int, allowed: int | None = None
) -> tuple[M, int]:
    try:
        return codec.careful(source, position, allowed or allowed_bytes(len(source)))
    except TooMuch:
        if allowed is not None:
            raise
        raise RemoteProtocolError(
            f"{codec.message.__name__} v{codec.version} of {len(source)} "
            f"bytes would take more than {allowed_bytes(len(source)) >> 20} "
            "MiB of memory: so many elements that hold nothing are an attack"
        ) from None
    except (Malformed, StructError, IndexError, UnicodeDecodeError, RemoteProtocolError) as error:
        raise _explained(codec, source, position, error) from error


def _explained(codec: Codec[M], data: Data, position: int, error: Exception) -> RemoteProtocolError:
    name = f"{codec.message.__name__} v{codec.version}"
    if len(data) <= EXPLAIN_UP_TO_BYTES:
        try:
            reference_decode_at(codec.message, codec.version, data, position)
        except RemoteProtocolError as explained:
            return explained
    return RemoteProtocolError(
        f"{len(data) - position} bytes are not a whole {name}: {error or 'bad length or count'}"
    )


def decode_body(
    message: type[M], version: int, data: bytes | bytearray | memoryview, *, trailing: bool = False
) -> M:
    """Return the message that `data` holds, header excluded.

    Bytes after the message raise RemoteProtocolError unless `trailing` allows them: brokers accept
    them in requests, but in a response they mean that it has another version than was asked for.
    """
    decoded, end = decode_at(message, version, data)
    if not trailing:
        check_end(message, version, end, len(data))
    return decoded


def check_end(message: type[Message], version: int, end: int, size: int) -> None:
    """Raise RemoteProtocolError when a message ended before its frame did."""
    if end != size:
        raise RemoteProtocolError(
            f"{message.__name__} v{version} ends at byte {end}, but the frame has {size}: "
            "the peer answered in another version than was asked for"
        )


def encode_to(message: Message, version: int, buffer: WriteBuffer) -> None:
    """Append a message, without header, to a buffer. LocalProtocolError names the field."""
    codec = codec_for(type(message), version)
    try:
        codec.encode(message, buffer)
    except (Unfit, StructError, TypeError, AttributeError, ValueError, LocalProtocolError) as error:
        Encoder(message, version, codec.plan, WriteBuffer()).encode()
        raise LocalProtocolError(
            f"{type(message).__name__} v{version} cannot be encoded: {error}"
        ) from error


def encode_body(message: Message, version: int) -> list[bytes | memoryview]:
    """Return a message's bytes, header excluded, as segments; large records fields by reference."""
    buffer = WriteBuffer()
    encode_to(message, version, buffer)
    return buffer.segments()


def reference_decode_at(
    message: type[M], version: int, data: bytes | bytearray | memoryview, position: int = 0
) -> tuple[M, int]:
    """Do what `decode_at` does with the reference decoder; the oracle of the compiled ones."""
    cursor = Cursor(data, position)
    decoded = Decoder(message, version, codec_for(message, version).reading_plan, cursor).decode()
    return decoded, cursor.pos


def reference_encode_to(message: Message, version: int, buffer: WriteBuffer) -> None:
    """Do what `encode_to` does with the reference encoder."""
    Encoder(message, version, codec_for(type(message), version).plan, buffer).encode()
