"""Real sockets on loopback: large frames both ways, TLS, resets, and every stage's error."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from parley.errors import NetworkError, RemoteProtocolError
from parley.messages import (
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
)
from parley.net import (
    Address,
    ConnectOptions,
    Server,
    ServerConnection,
    asyncio_listener,
    open_connection,
    serve,
)
from parley.net.asyncio_backend import WRITE_HIGH_BYTES, WRITE_PIECE_BYTES, AsyncioStream
from parley.protocol import ServeAll

from ...support import GENEROUS_MS, GENEROUS_S
from .conftest import Broker

MIB = 1024 * 1024


class Bulk(Broker):
    """Answers Fetch with as many bytes as max_bytes asks for, and counts what Produce brings."""

    def __init__(self) -> None:
        super().__init__()
        self.produced: list[bytes] = []
        self.connections: list[ServerConnection] = []

    async def serve(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        async for request in connection:
            answer = self.answer(request)
            if request.api_key == 1:
                size = request.message.max_bytes
                partition = FetchResponse.PartitionData(
                    records=(b"0123456789abcdef" * (size // 16 + 1))[:size]
                )
                answer = FetchResponse(
                    responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])]
                )
            elif request.api_key == 0:
                self.produced.append(bytes(request.message.topic_data[0].partition_data[0].records))
                answer = ProduceResponse()
            await connection.respond(request, answer)


@pytest.fixture
async def bulk() -> AsyncIterator[Bulk]:
    made = Bulk()
    made.server = await serve("127.0.0.1", 0, made.serve, policy=ServeAll())
    yield made
    await made.server.abort()


def address_of(broker: Broker) -> Address:
    assert broker.server is not None
    return broker.server.address


def produce(records: bytes) -> object:
    partition = ProduceRequest.PartitionProduceData(records=records)
    return ProduceRequest(
        acks=1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])]
    )


async def test_large_frames_both_ways(bulk: Bulk) -> None:
    connection = await open_connection(address_of(bulk))
    for size in (0, 1, 65_530, 65_536, 1_000_003, 9 * MIB + 5):
        reply = await connection.request(FetchRequest(max_bytes=size))
        records = reply.message.responses[0].partitions[0].records
        assert bytes(records) == (b"0123456789abcdef" * (size // 16 + 1))[:size]
        await connection.request(produce(bytes(records)))
        assert bulk.produced[-1] == bytes(records)
    await connection.close()
    assert connection.error is None


class Pieces(asyncio.Transport):
    """Takes whatever it is given at once."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is kept."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


async def test_small_segments_are_handed_over_together_and_large_ones_in_parts() -> None:
    transport, stream = Pieces(), AsyncioStream(None)
    stream.connection_made(transport)
    small = [bytes([at % 251]) * size for at in range(400) for size in (20, 3_000)]
    large = b"l" * (WRITE_PIECE_BYTES + 7)
    stream.write([*small, large, b"end"])
    assert b"".join(transport.written) == b"".join([*small, large, b"end"])
    pieces = sum(map(len, small)) // WRITE_PIECE_BYTES + 1
    assert len(transport.written) == pieces + 2  # the rest of the large one goes with the end
    assert all(len(piece) <= WRITE_PIECE_BYTES + 3_000 for piece in transport.written)
    assert stream.is_writable
    assert stream._unsent_bytes == 0


async def test_large_buffers_are_used_again(bulk: Bulk) -> None:
    connection = await open_connection(address_of(bulk))
    for _ in range(3):
        await connection.request(FetchRequest(max_bytes=4 * MIB))
    framer = connection._protocol._framer
    held = framer.allocated_bytes
    for _ in range(20):
        await connection.request(FetchRequest(max_bytes=4 * MIB))
    assert framer.allocated_bytes == held
    assert held <= 9 * MIB
    await connection.close()


async def test_a_reader_that_stops_stops_the_sender(bulk: Bulk) -> None:
    connection = await open_connection(address_of(bulk))
    assert connection._stream is not None
    connection._stream.pause_reading()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        futures = [connection.submit(FetchRequest(max_bytes=4 * MIB)) for _ in range(20)]
        (serving,) = bulk.connections
        for _ in range(100_000):
            if not serving._stream.is_writable:
                break
            await asyncio.sleep(0)
        assert not serving._stream.is_writable
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # One answer is being sent; the other nineteen were not even made. asyncio of Python 3.11 copies
    # what the socket does not take at once, so that it counts twice.
    assert grown <= 2 * 4 * MIB + WRITE_HIGH_BYTES
    connection._stream.resume_reading()
    replies = await asyncio.gather(*futures)
    assert all(
        len(reply.message.responses[0].partitions[0].records) == 4 * MIB for reply in replies
    )
    await connection.close()


async def test_addresses_of_both_ends(bulk: Bulk) -> None:
    connection = await open_connection(address_of(bulk))
    assert connection._stream is not None
    (serving,) = bulk.connections
    assert connection._stream.peer == serving.local == address_of(bulk)
    assert connection._stream.local == serving.peer
    await connection.close()


async def test_a_killed_broker_resets(bulk: Bulk) -> None:
    connection = await open_connection(address_of(bulk))
    await connection.request(MetadataRequest(topics=[]))
    assert bulk.server is not None
    await bulk.server.abort()
    await connection.wait_closed()
    assert isinstance(connection.error, NetworkError)
    assert "reset" in str(connection.error).lower()
    with pytest.raises(NetworkError, match="refused"):
        await open_connection(address_of(bulk))


async def test_a_broker_that_closes_in_order(bulk: Bulk) -> None:
    connection = await open_connection(address_of(bulk))
    bulk.connections[0].close()
    await connection.wait_closed()
    assert "the peer closed the connection" in str(connection.error)


async def test_ipv6_and_names() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    broker = Broker()
    try:
        server = await serve("::1", 0, broker.serve, policy=ServeAll())
    except NetworkError:
        pytest.skip("this machine has no IPv6 loopback")
    connection = await open_connection(f"[::1]:{server.address.port}")
    await connection.close()
    await server.close()
    server = await serve("localhost", 0, broker.serve, policy=ServeAll())
    connection = await open_connection(f"localhost:{server.address.port}")
    await connection.close()
    await server.close()


async def test_a_port_that_is_taken(bulk: Bulk) -> None:
    with pytest.raises(NetworkError, match="choose another port") as caught:
        await serve("127.0.0.1", address_of(bulk).port, bulk.serve, policy=ServeAll())
    assert caught.value.stage == "listen"


async def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(NetworkError, match="cannot be resolved") as caught:
        await open_connection("no-such-host.invalid:9092")
    assert caught.value.stage == "name lookup"


async def test_a_name_that_cannot_even_be_asked_for() -> None:
    with pytest.raises(NetworkError) as caught:
        await open_connection(Address("x" * 70 + ".example", 9092))
    assert caught.value.stage == "name lookup"


async def test_socket_buffers_can_be_set(bulk: Bulk) -> None:
    options = ConnectOptions(receive_buffer_bytes=65_536, send_buffer_bytes=65_536)
    connection = await open_connection(address_of(bulk), options)
    stream = connection._stream
    sock = stream._transport.get_extra_info("socket")  # type: ignore[union-attr]
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 65_536  # Linux doubles it
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await connection.close()


async def test_opening_against_real_sockets_can_be_cancelled_at_each_await(bulk: Bulk) -> None:
    steps, running = 0, True
    while running:
        task = asyncio.create_task(open_connection(address_of(bulk)))
        for _ in range(steps):
            await asyncio.sleep(0)
        running = not task.done()
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        if not isinstance(result, BaseException):
            await result.close()
        steps += 1
    assert steps > 3
    assert bulk.server is not None
    for serving in bulk.server.connections:
        await asyncio.wait_for(serving.wait_closed(), GENEROUS_S)


# -- TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def tls_server(authority: trustme.CA) -> AsyncIterator[Server]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    server = await serve("127.0.0.1", 0, Bulk().serve, policy=ServeAll(), ssl_context=context)
    yield server
    await server.abort()


@pytest.fixture
def trusting(authority: trustme.CA, tmp_path: Path) -> ConnectOptions:
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return ConnectOptions(security_protocol="SSL", ssl_cafile=str(file))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_tls_with_large_frames(
    tls_server: Server, trusting: ConnectOptions, host: str
) -> None:
    connection = await open_connection(Address(host, tls_server.address.port), trusting)
    reply = await connection.request(FetchRequest(max_bytes=5 * MIB))
    assert len(reply.message.responses[0].partitions[0].records) == 5 * MIB
    await connection.request(produce(bytes(3 * MIB)))
    await connection.close()


async def test_an_untrusted_certificate(tls_server: Server) -> None:
    with pytest.raises(NetworkError, match="ssl_cafile") as caught:
        await open_connection(tls_server.address, ConnectOptions(security_protocol="SSL"))
    assert (caught.value.stage, caught.value.retriable) == ("tls", False)


async def test_a_certificate_for_another_name(
    authority: trustme.CA, trusting: ConnectOptions
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("elsewhere.example").configure_cert(context)
    server = await serve("127.0.0.1", 0, Broker().serve, policy=ServeAll(), ssl_context=context)
    with pytest.raises(NetworkError, match="by a name that the certificate holds"):
        await open_connection(server.address, trusting)
    await server.abort()


async def test_plaintext_at_a_tls_port_is_named(tls_server: Server) -> None:
    with pytest.raises((RemoteProtocolError, NetworkError)) as caught:
        await open_connection(
            tls_server.address, ConnectOptions(socket_connection_setup_timeout_ms=GENEROUS_MS)
        )
    assert "security_protocol" in str(caught.value)


@pytest.mark.parametrize("ending", ["close", "abort"])
async def test_a_client_that_never_shakes_hands_is_let_go_with_the_server(
    tls_server: Server, ending: str
) -> None:
    """Its socket has no stream yet that the server could close: asyncio alone
    would keep it for a minute.
    """
    reader, writer = await asyncio.open_connection(tls_server.address.host, tls_server.address.port)
    listener: Any = tls_server._listener
    async with asyncio.timeout(GENEROUS_S):
        while not listener._opening:  # noqa: ASYNC110 nobody is notified that a socket was accepted
            await asyncio.sleep(0)
        await getattr(tls_server, ending)()
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_a_server_without_descriptors_left_accepts_again(
    bulk: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it does not try: who waits keeps the socket readable, and
    every turn of the loop would.
    """
    monkeypatch.setattr(asyncio_listener, "ACCEPT_AGAIN_S", 0.05)
    accept, tries, is_full, tried = socket.socket.accept, 0, True, asyncio.Event()

    def accept_if_there_is_room(listening: socket.socket) -> tuple[socket.socket, Any]:
        nonlocal tries
        tries += 1
        tried.set()
        if is_full:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", accept_if_there_is_room)
    opening = asyncio.create_task(open_connection(address_of(bulk)))
    async with asyncio.timeout(GENEROUS_S):
        await tried.wait()
    for _ in range(500):
        await asyncio.sleep(0)
    assert tries < 50
    is_full = False
    connection = await opening
    await connection.close()


async def test_tls_at_a_plaintext_port_is_named(bulk: Bulk, trusting: ConnectOptions) -> None:
    with pytest.raises(NetworkError, match="PLAINTEXT") as caught:
        await open_connection(address_of(bulk), trusting)
    assert caught.value.stage == "tls"
