"""The broker's side: one request at a time, back-pressure, orderly and disorderly ends."""

from __future__ import annotations

import asyncio
import logging

import pytest

from parley.errors import LocalProtocolError, NetworkError
from parley.messages import FetchRequest, FetchResponse, MetadataRequest, MetadataResponse
from parley.net import (
    BrokerConnection,
    ConnectOptions,
    ManualClock,
    MemoryBackend,
    ServerConnection,
    open_connection,
    serve,
)
from parley.net.clock import settle
from parley.net.server_connection import READ_AHEAD_BYTES
from parley.protocol import RequestReceived, ServeAll

from ...support import GENEROUS_S
from .conftest import BROKER, Broker


async def test_requests_come_one_at_a_time(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    broker.hold.add(1)
    connection.submit(FetchRequest())
    connection.submit(MetadataRequest(topics=[]))
    await settle()
    assert broker.keys() == [18, 16, 1]
    connection.abort()
    await settle()
    assert broker.server is not None
    assert broker.server.connections == ()


async def test_only_the_current_request_can_be_answered(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    results: list[object] = []
    helper = Broker()

    async def handler(connection: ServerConnection) -> None:
        last: RequestReceived | None = None
        async for request in connection:
            await connection.respond(request, helper.answer(request))
            if last is not None:
                try:
                    await connection.respond(last, helper.answer(last))
                except LocalProtocolError as error:
                    results.append(error)
            last = request
        await connection.respond(request, helper.answer(request))  # after the end: dropped
        connection.drop(request)

    server = await serve(BROKER.host, BROKER.port, handler, policy=ServeAll(), backend=network)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    await connection.request(MetadataRequest(topics=[]))
    await connection.close()
    await settle()
    assert len(results) == 2
    assert server.connections == ()
    await server.close()


async def test_a_client_that_sends_ahead_is_not_read_any_further(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    broker.hold.add(1)
    connection.submit(FetchRequest())
    filler = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="x" * 30_000)])
    for _ in range(60):
        connection.submit(filler)
    await settle(200)
    assert broker.server is not None
    (serving,) = broker.server.connections
    assert READ_AHEAD_BYTES < serving._protocol.unread_bytes <= READ_AHEAD_BYTES + 2 * 64 * 1024
    connection.abort()


async def test_reading_goes_on_after_a_pause(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    helper, gate = Broker(), asyncio.Event()

    async def handler(connection: ServerConnection) -> None:
        async for request in connection:
            if request.api_key == 1:
                await gate.wait()
            await connection.respond(request, helper.answer(request))

    server = await serve(BROKER.host, BROKER.port, handler, policy=ServeAll(), backend=network)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    first = connection.submit(FetchRequest())
    filler = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="x" * 30_000)])
    others = [connection.submit(filler) for _ in range(60)]
    await settle(200)
    gate.set()
    await asyncio.wait_for(asyncio.gather(first, *others), GENEROUS_S)
    await connection.close()
    await server.close()


async def test_closing_in_order_sends_what_is_queued(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    helper, records, answering = Broker(), bytes(3 * 1024 * 1024), asyncio.Event()

    async def handler(connection: ServerConnection) -> None:
        async for request in connection:
            answer = helper.answer(request)
            if request.api_key == 1:
                partition = FetchResponse.PartitionData(records=records)
                answer = FetchResponse(
                    responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])]
                )
                answering.set()
            await connection.respond(request, answer)

    server = await serve(BROKER.host, BROKER.port, handler, policy=ServeAll(), backend=network)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    future = connection.submit(FetchRequest())
    await answering.wait()
    await asyncio.sleep(0)
    await server.close()
    reply = await asyncio.wait_for(future, GENEROUS_S)
    assert reply.message.responses[0].partitions[0].records == records
    await connection.wait_closed()
    with pytest.raises(NetworkError, match="no broker listens"):
        await open_connection(BROKER, options, backend=network, clock=clock)


async def test_aborting_looks_like_a_killed_broker(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    broker.hold.add(1)
    future = connection.submit(FetchRequest())
    await settle()
    assert broker.server is not None
    await broker.server.abort()
    with pytest.raises(NetworkError, match="reset"):
        await future


async def test_a_handler_that_fails_costs_one_connection_and_is_logged(
    network: MemoryBackend,
    clock: ManualClock,
    options: ConnectOptions,
    caplog: pytest.LogCaptureFixture,
) -> None:
    helper = Broker()

    async def handler(connection: ServerConnection) -> None:
        async for request in connection:
            if request.api_key == 3:
                raise RuntimeError("a bug in a handler")
            await connection.respond(request, helper.answer(request))

    server = await serve(BROKER.host, BROKER.port, handler, policy=ServeAll(), backend=network)
    first = await open_connection(BROKER, options, backend=network, clock=clock)
    second = await open_connection(BROKER, options, backend=network, clock=clock)
    with caplog.at_level(logging.ERROR), pytest.raises(NetworkError):
        await first.request(MetadataRequest(topics=[]))
    assert "a bug in a handler" in caplog.text
    await second.request(FetchRequest())
    await second.close()
    await server.close()


async def test_a_handler_that_returns_ends_the_connection(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    helper = Broker()

    async def handler(connection: ServerConnection) -> None:
        for _ in range(3):
            request = await connection.receive()
            assert request is not None
            await connection.respond(request, helper.answer(request))

    server = await serve(BROKER.host, BROKER.port, handler, policy=ServeAll(), backend=network)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    assert isinstance(
        (await connection.request(MetadataRequest(topics=[]))).message, MetadataResponse
    )
    await connection.wait_closed()
    assert isinstance(connection.error, NetworkError)
    await server.close()


async def test_each_connection_may_have_its_own_policy(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    made: list[ServeAll] = []

    def policy() -> ServeAll:
        made.append(ServeAll())
        return made[-1]

    server = await serve(BROKER.host, BROKER.port, Broker().serve, policy=policy, backend=network)
    for _ in range(2):
        await (await open_connection(BROKER, options, backend=network, clock=clock)).close()
    assert len(made) == 2
    await server.close()


async def test_a_connection_that_is_accepted_while_the_server_closes_is_reset(
    options: ConnectOptions,
) -> None:
    """The system may have accepted it already; nothing of it may stay open (a
    flaky ResourceWarning, once).
    """
    for turns in range(6):
        server = await serve("127.0.0.1", 0, Broker().serve, policy=ServeAll())
        opening = asyncio.create_task(open_connection(server.address, options))
        for _ in range(turns):
            await asyncio.sleep(0)
        await (server.abort() if turns % 2 else server.close())
        assert server._open == set()
        opening.cancel()
        (result,) = await asyncio.gather(opening, return_exceptions=True)
        if isinstance(result, BrokerConnection):
            await result.close()
