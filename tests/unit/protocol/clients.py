"""Clients in each stage of negotiation, the requests they sent, and answers written by hand."""

from __future__ import annotations

import struct
from typing import Any

from parley.errors import KafkaError
from parley.messages import ApiVersionsResponse, encode_response, peek_request_header
from parley.protocol import NEED_DATA, ClientProtocol, ClientSettings, Closed, Negotiated, State
from parley.schema import ApiKey
from parley.versions import CLIENT_RANGES

NEWEST = CLIENT_RANGES[ApiKey.API_VERSIONS].max
BOTH = {18: (0, 4), 3: (0, 12), 0: (0, 11), 1: (4, 17)}


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def sent(client: ClientProtocol) -> list[bytes]:
    """Return the requests that are waiting to be sent, without their sizes."""
    stream, found = b"".join(client.data_to_send()), []
    while stream:
        size = int.from_bytes(stream[:4], "big")
        found.append(stream[4 : 4 + size])
        stream = stream[4 + size :]
    return found


def versions_sent(client: ClientProtocol) -> list[tuple[int, int, int]]:
    return [peek_request_header(request) for request in sent(client)]


def events(client: ClientProtocol) -> list[Any]:
    found = []
    while (event := client.next_event()) is not NEED_DATA:
        found.append(event)
    return found


def error_35(correlation_id: int, offered: tuple[int, int] | None) -> bytes:
    """The answer to an unknown ApiVersions version: 10 bytes up to 2.3, 16 bytes from 2.4 on."""
    if offered is None:
        return framed(struct.pack(">ihi", correlation_id, 35, 0))
    return framed(struct.pack(">ihihhh", correlation_id, 35, 1, 18, *offered))


def api_versions(correlation_id: int, version: int, ranges: dict[int, tuple[int, int]]) -> bytes:
    entries = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in ranges.items()
    ]
    segments = encode_response(ApiVersionsResponse(api_keys=entries), version, correlation_id)
    return framed(b"".join(bytes(segment) for segment in segments))


def started(**settings: Any) -> ClientProtocol:
    client = ClientProtocol(ClientSettings(**settings))
    client.start(0)
    return client


def ready(ranges: dict[int, tuple[int, int]] | None = None, **settings: Any) -> ClientProtocol:
    client = started(**settings)
    sent(client)
    client.receive_data(api_versions(0, NEWEST, BOTH if ranges is None else ranges))
    (event,) = events(client)
    assert isinstance(event, Negotiated)
    return client


def closed_by(client: ClientProtocol) -> KafkaError | None:
    (event,) = events(client)
    assert isinstance(event, Closed)
    assert client.state is State.CLOSED
    return event.error
