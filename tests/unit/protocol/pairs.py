"""Two ends in memory, the ways of carrying bytes between them, and two releases' policies."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from parley.frames import EmptyFrames
from parley.messages import ApiVersionsResponse
from parley.protocol import (
    NEED_DATA,
    PAUSED,
    BrokerProtocol,
    ClientProtocol,
    ClientSettings,
    Close,
    Connection,
    Decision,
    Negotiated,
    Respond,
    Serve,
    Swallow,
)

RANGES = {0: (3, 11), 1: (4, 17), 3: (0, 12), 18: (0, 4)}


def own_versions() -> Any:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in RANGES.items()
        ]
    )


class Release:
    """A policy for tests: versions outside RANGES are refused as the given release refuses them."""

    def __init__(self, refusal: Decision, malformed: Decision, empty_frames: EmptyFrames) -> None:
        self.refusal = refusal
        self._malformed = malformed
        self.empty_frames = empty_frames

    def decide(self, api_key: int, api_version: int) -> Decision:
        low, high = RANGES.get(api_key, (1, 0))
        if low <= api_version <= high:
            return Serve()
        if api_key == 18:
            return Respond(ApiVersionsResponse(error_code=35), 0)
        return self.refusal

    def malformed(self, api_key: int, api_version: int) -> Decision:
        return self._malformed


MODERN = Release(Close("unsupported"), Close("malformed"), EmptyFrames.REJECT)
SILENT = Release(Swallow(), Swallow(), EmptyFrames.IGNORE)

Carry = Callable[[Connection, bytes], list[Any]]


def take(connection: Connection) -> list[Any]:
    found = []
    while (event := connection.next_event()) not in (NEED_DATA, PAUSED):
        found.append(event)
    return found


def carry_whole(connection: Connection, data: bytes) -> list[Any]:
    connection.receive_data(data)
    return take(connection)


def carry_bytes(connection: Connection, data: bytes) -> list[Any]:
    found = []
    for index in range(len(data)):
        connection.receive_data(data[index : index + 1])
        found += take(connection)
    return found


def carry_in_place(connection: Connection, data: bytes) -> list[Any]:
    """As a socket does: into the connection's own buffer, in ragged pieces."""
    rng, found = random.Random(5), []
    while data:
        buffer = connection.get_buffer()
        count = min(len(buffer), len(data), rng.choice((1, 7, 900)))
        buffer[:count] = data[:count]
        buffer.release()
        connection.buffer_updated(count)
        data = data[count:]
        found += take(connection)
    return found


CARRIERS = [carry_whole, carry_bytes, carry_in_place]


def flush(connection: Connection) -> bytes:
    return b"".join(connection.data_to_send())


def pair(**settings: Any) -> tuple[ClientProtocol, BrokerProtocol]:
    client, broker = ClientProtocol(ClientSettings(**settings)), BrokerProtocol(MODERN)
    client.start(0)
    (request,) = carry_whole(broker, flush(client))
    broker.send_response(request, own_versions())
    (event,) = carry_whole(client, flush(broker))
    assert isinstance(event, Negotiated)
    return client, broker
