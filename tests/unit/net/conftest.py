"""A broker in memory for the tests of this folder, and the clock that drives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest
import uvloop

from parley.messages import (
    ApiVersionsResponse,
    FetchResponse,
    ListGroupsResponse,
    MetadataResponse,
    ProduceResponse,
)
from parley.net import (
    Address,
    ConnectOptions,
    ManualClock,
    MemoryBackend,
    Server,
    ServerConnection,
    serve,
)
from parley.protocol import RequestReceived, ServeAll

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
BROKER = Address("broker", 9092)
RANGES = {0: (3, 11), 1: (4, 17), 3: (0, 12), 16: (0, 4), 18: (0, 4)}


class Broker:
    """Answers with empty messages; `hold` keeps requests of some keys unanswered until `let_go`."""

    def __init__(self) -> None:
        self.ranges = dict(RANGES)
        self.seen: list[RequestReceived] = []
        self.throttle_ms = 0
        self.hold: set[int] = set()
        self.held: list[Callable[[], Awaitable[None]]] = []
        self.server: Server | None = None

    def answer(self, request: RequestReceived) -> Any:
        if request.api_key == 18:
            entry = ApiVersionsResponse.ApiVersion
            return ApiVersionsResponse(
                api_keys=[
                    entry(api_key=key, min_version=a, max_version=b)
                    for key, (a, b) in self.ranges.items()
                ]
            )
        if request.api_key == 3:
            return MetadataResponse(
                cluster_id=str(len(self.seen)), throttle_time_ms=self.throttle_ms
            )
        return {0: ProduceResponse, 1: FetchResponse, 16: ListGroupsResponse}[request.api_key]()

    async def serve(self, connection: ServerConnection) -> None:
        async for request in connection:
            self.seen.append(request)
            if request.api_key in self.hold:
                await connection.wait_closed()
            elif request.api_key == 0 and request.message.acks == 0:
                connection.drop(request)
            else:
                await connection.respond(request, self.answer(request))

    def keys(self) -> list[int]:
        return [request.api_key for request in self.seen]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def network(clock: ManualClock) -> MemoryBackend:
    return MemoryBackend(clock)


@pytest.fixture
async def broker(network: MemoryBackend) -> AsyncIterator[Broker]:
    made = Broker()
    made.server = await serve(
        BROKER.host, BROKER.port, made.serve, policy=ServeAll(), backend=network
    )
    yield made
    await made.server.abort()


@pytest.fixture
def options() -> ConnectOptions:
    return ConnectOptions(
        bootstrap_servers=str(BROKER),
        socket_connection_setup_timeout_ms=2_000,
        request_timeout_ms=500,
    )


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run what opens sockets in each kind of loop that users have; asyncio's
    own alone serves the rest.
    """
    return (
        LOOPS if item.path.stem == "test_asyncio_backend" else {"asyncio": asyncio.new_event_loop}
    )
