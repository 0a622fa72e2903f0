"""The server of the embedded registry: requests in all the shapes that HTTP/1.1 has, and none."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings, strategies as st

from parley.errors import NetworkError
from parley.net import Address
from parley.net.http_server import MAX_BODY_BYTES, HttpReply, HttpRequest, HttpServer


async def echo(request: HttpRequest) -> HttpReply:
    said = (request.method, request.path, dict(request.query), len(request.body))
    return HttpReply(200, repr(said).encode())


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    running = HttpServer(echo)
    await running.start(Address("127.0.0.1", 0))
    yield running
    await running.close()


async def send(server: HttpServer, data: bytes, *, ends: bool = True) -> bytes:
    """Send bytes, and return everything that comes back until the server closes."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(data)
    if ends:
        writer.write_eof()
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1]) if answer else 0


async def test_requests_of_one_connection_are_answered_in_order(server: HttpServer) -> None:
    data = (
        b"GET /a%20b/%C3%BC/?x=1&y=%26 HTTP/1.1\r\nHost: h\r\n\r\n"
        b"POST /p HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n"
        b"0\r\nTrailer: x\r\n\r\n"
        b"GET /last HTTP/1.1\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\n\r\n"
    )
    answer = await send(server, data, ends=False)
    bodies = [part.split(b"\r\n\r\n")[1] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [
        b"('GET', ('a b', '\xc3\xbc'), {'x': '1', 'y': '&'}, 0)",
        b"('POST', ('p',), {}, 3)",
        b"('PUT', (), {}, 13)",
        b"('GET', ('last',), {}, 0)",
    ]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET http://x/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n", 413),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nContent-Length: 9\r\n\r\nshort", 0),
        (b"GET / HTTP/1.1\r\nHalf", 0),
        (b"", 0),
    ],
)
async def test_what_is_no_request_is_refused(server: HttpServer, data: bytes, wanted: int) -> None:
    assert status(await send(server, data)) == wanted


def test_any_bytes_are_answered_or_refused() -> None:
    pieces = st.sampled_from(
        [
            b"GET / HTTP/1.1\r\n",
            b"POST /x HTTP/1.1\r\n",
            b"\r\n",
            b"Content-Length: 5\r\n",
            b"5\r\n",
        ]
    )

    @settings(max_examples=12)
    @given(st.lists(pieces | st.binary(max_size=20), max_size=12).map(b"".join))
    def check(data: bytes) -> None:
        async def talk() -> None:
            server = HttpServer(echo)
            await server.start(Address("127.0.0.1", 0))
            try:
                answer = await send(server, data)
                assert not answer or status(answer) in (200, 400, 413, 431)
                assert status(await send(server, b"GET / HTTP/1.0\r\n\r\n")) == 200
            finally:
                await server.close()

        asyncio.run(talk())

    check()


async def test_closing_ends_connections_and_frees_the_port(server: HttpServer) -> None:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"GET / HTTP/1.1\r\n")
    other = HttpServer(echo)
    with pytest.raises(NetworkError, match="cannot be listened on"):
        await other.start(server.address)
    address = server.address
    await server.close()
    await server.close()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
    await other.start(address)
    assert status(await send(other, b"GET / HTTP/1.0\r\n\r\n")) == 200
    await other.close()


async def test_the_standard_librarys_client_is_answered(server: HttpServer) -> None:
    def ask() -> list[bytes]:
        connection = http.client.HTTPConnection(*server.address, timeout=60)
        found = []
        for body in (None, b"abc", iter([b"chunk", b"chunk"])):
            connection.request("POST", "/x?y=z", body)  # type: ignore[arg-type]
            found.append(connection.getresponse().read())
        connection.close()
        return found

    assert [one[-3:] for one in await asyncio.to_thread(ask)] == [b" 0)", b" 3)", b"10)"]
