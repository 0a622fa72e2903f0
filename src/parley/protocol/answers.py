"""Answers of the application's requests: which of them may be decoded in the event
loop, and how all of them are.
"""

from __future__ import annotations

from parley.errors import RemoteProtocolError
from parley.messages import (
    QUICK_BYTES,
    Message,
    decode_at,
    decode_quickly,
    decode_response,
    decode_response_header,
    response_class,
)
from parley.protocol.inflight import Pending
from parley.schema import ApiKey


def message_of(pending: Pending, data: memoryview) -> Message:
    """Return the message of an answer's frame. Raises RemoteProtocolError for other bytes."""
    api_key, version = pending.api_key, pending.version
    if api_key == ApiKey.API_VERSIONS:
        return decode_response(api_key, version, data)[1]  # its errors come in the shape of v0
    _, start = decode_response_header(api_key, version, data)
    # Bytes behind the message are ignored, as Kafka's own client ignores them.
    return decode_at(response_class(api_key), version, data, start)[0]


def decoded(pending: Pending, data: memoryview) -> Message | RemoteProtocolError:
    """Return the message, or the error of bytes that are none."""
    try:
        return message_of(pending, data)
    except RemoteProtocolError as error:
        return error


def decoded_quickly(pending: Pending, data: memoryview) -> Message | RemoteProtocolError | None:
    """Return the message, or the error of bytes that are none; None where decoding takes long."""
    if len(data) <= QUICK_BYTES:
        return decoded(pending, data)
    try:
        _, start = decode_response_header(pending.api_key, pending.version, data)
        found = decode_quickly(response_class(pending.api_key), pending.version, data, start)
    except RemoteProtocolError as error:
        return error
    return None if found is None else found[0]
