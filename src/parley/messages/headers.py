"""Whole frames: request and response headers with the message behind them.

    request header   v0  api key, version, correlation id     ControlledShutdown v0 only
                     v1  … and client id (int16 length)       versions that are not flexible
                     v2  … and tagged fields                  flexible versions
    response header  v0  correlation id                       not flexible, and every ApiVersions
                     v1  … and tagged fields                  flexible versions

1. The client id never has a compact length, not even in header v2: a broker must be able to read
   it before it knows whether the version is one it has (KIP-482).
2. ApiVersions answers always with header v0, because the client may have asked in a version that
   the broker does not know (KIP-511).
3. For the same reason an ApiVersions answer begins with the error code in every version, and
   with error 35 its body is that of v0 (KIP-35, KIP-511).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct, error as StructError

from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.errors.codes import UNSUPPORTED_VERSION
from parley.messages.catalog import request_class, response_class
from parley.messages.classes import Message
from parley.messages.codec import check_end, decode_at, decode_quickly, encode_to
from parley.schema import ApiKey
from parley.wire import Cursor, WriteBuffer

_HEAD = Struct(">hhi")
MAX_HEADER_BYTES = 64 * 1024
"""A client id has up to 32,767 bytes; tagged fields of headers were never defined."""


@dataclass(slots=True)
class RequestHeader:
    """What a request's frame begins with. `client_id`: None for null, and in header v0."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    unknown_tagged_fields: dict[int, bytes] = field(default_factory=dict)


def request_header_version(api_key: int, version: int) -> int:
    """Return the version of the header that a request of this API and version has."""
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if request_class(api_key).SCHEMA.is_flexible(version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return the version of the header that a response of this API and version has."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if response_class(api_key).SCHEMA.is_flexible(version) else 0


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> list[bytes | memoryview]:
    """Return a request with its header, without the size in front, as segments.

    Large records fields are among the segments by reference. Raises LocalProtocolError when the
    message has a value that the version cannot carry; nothing of it can be sent then.
    """
    key = message.API_KEY
    if key is None or not message.IS_REQUEST:
        raise LocalProtocolError(f"{type(message).__name__} is not a request")
    buffer = WriteBuffer()
    buffer.write_int16(key)
    buffer.write_int16(version)
    buffer.write_int32(correlation_id)
    header_version = request_header_version(key, version)
    if header_version >= 1:
        buffer.write_nullable_string(client_id)
    if header_version >= 2:
        buffer.tail.append(0)
    encode_to(message, version, buffer)
    return buffer.segments()


def peek_request_header(frame: bytes | memoryview) -> tuple[int, int, int]:
    """Return API key, version and correlation id of a request's frame, whatever they are."""
    try:
        api_key, version, correlation_id = _HEAD.unpack_from(frame)
    except StructError:
        raise RemoteProtocolError(
            f"a request of {len(frame)} bytes: its header alone has 8"
        ) from None
    return api_key, version, correlation_id


def decode_request_header(
    frame: bytes | memoryview, *, header_version: int | None = None
) -> tuple[RequestHeader, int]:
    """Return a request's header, and the position at which its body begins.

    `header_version` reads another one than the API and its version have: brokers take every version
    of ApiVersions above their own for a flexible one. Raises RemoteProtocolError for an API key
    that parley does not know: where the header ends depends on the API.
    """
    api_key, version, correlation_id = peek_request_header(frame)
    header = RequestHeader(api_key, version, correlation_id, None)
    if header_version is None:
        header_version = request_header_version(api_key, version)
    cursor = Cursor(
        frame if len(frame) <= MAX_HEADER_BYTES else memoryview(frame)[:MAX_HEADER_BYTES],
        _HEAD.size,
    )
    if header_version >= 1:
        header.client_id = cursor.read_nullable_string()
    if header_version >= 2:
        header.unknown_tagged_fields = {
            tag: bytes(data) for tag, data in cursor.read_tagged_fields().items()
        }
    return header, cursor.pos


def decode_request(
    frame: bytes | memoryview, *, as_version: int | None = None
) -> tuple[RequestHeader, Message]:
    """Return the header and the message of a request's frame. A large one may take long: see
    `decode_request_quickly`.

    `as_version` reads the body in another version than the header names (0.9 brokers read any
    Metadata version as v0). Bytes after the body are accepted, as every broker accepts them.
    Raises RemoteProtocolError for anything that is no request of an API and version in the schema.
    """
    header, message, version, position = _request_parts(frame, as_version)
    decoded, _ = decode_at(message, version, frame, position)
    return header, decoded


def decode_request_quickly(
    frame: bytes | memoryview, *, as_version: int | None = None
) -> tuple[RequestHeader, Message] | None:
    """Do what `decode_request` does where that is a matter of milliseconds, else return None."""
    header, message, version, position = _request_parts(frame, as_version)
    found = decode_quickly(message, version, frame, position)
    return None if found is None else (header, found[0])


def _request_parts(
    frame: bytes | memoryview, as_version: int | None
) -> tuple[RequestHeader, type[Message], int, int]:
    header, position = decode_request_header(frame)
    message = request_class(header.api_key)
    version = header.api_version if as_version is None else as_version
    if version not in message.SCHEMA.valid_versions:
        raise RemoteProtocolError(
            f"{message.__name__} v{version} was sent, but it "
            f"has versions {message.SCHEMA.valid_versions}"
        )
    return header, message, version, position


def encode_response(
    message: Message, version: int, correlation_id: int
) -> list[bytes | memoryview]:
    """Return a response with header, no size in front, in segments; see `encode_request`."""
    key = message.API_KEY
    if key is None or message.IS_REQUEST:
        raise LocalProtocolError(f"{type(message).__name__} is not a response")
    buffer = WriteBuffer()
    buffer.write_int32(correlation_id)
    if response_header_version(key, version) >= 1:
        buffer.tail.append(0)
    encode_to(message, version, buffer)
    return buffer.segments()


def decode_response_header(
    api_key: int, version: int, frame: bytes | memoryview
) -> tuple[int, int]:
    """Return a response frame's correlation id, and the position where its body begins."""
    cursor = Cursor(
        frame if len(frame) <= MAX_HEADER_BYTES else memoryview(frame)[:MAX_HEADER_BYTES]
    )
    correlation_id = cursor.read_int32()
    if response_header_version(api_key, version) >= 1:
        cursor.read_tagged_fields()
    return correlation_id, cursor.pos


def decode_response(api_key: int, version: int, frame: bytes | memoryview) -> tuple[int, Message]:
    """Return the correlation id and the message of a response's frame.

    `api_key` and `version` are those of the request: a response does not say them. Fields of type
    records are views of the frame. Bytes after the body raise RemoteProtocolError: the peer
    answered in another version. An ApiVersions error is understood in whatever version it comes.
    """
    correlation_id, position = decode_response_header(api_key, version, frame)
    if api_key == ApiKey.API_VERSIONS:
        return correlation_id, _decode_api_versions(version, frame, position)
    message = response_class(api_key)
    decoded, end = decode_at(message, version, frame, position)
    check_end(message, version, end, len(frame))
    return correlation_id, decoded


def _decode_api_versions(version: int, frame: bytes | memoryview, position: int) -> Message:
    """Decode an ApiVersions response; an error may have v0's shape, or nothing behind."""
    message = response_class(ApiKey.API_VERSIONS)
    error_code = Cursor(frame, position).read_int16()
    candidates = (
        [version]
        if error_code == 0
        else [0, version]
        if error_code == UNSUPPORTED_VERSION
        else [version, 0]
    )
    for candidate in candidates:
        try:
            decoded, end = decode_at(message, candidate, frame, position)
            check_end(message, candidate, end, len(frame))
            return decoded
        except RemoteProtocolError:
            if error_code == 0:
                raise
    return message(error_code=error_code)  # type: ignore[call-arg]  # the generated constructor
