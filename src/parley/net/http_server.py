"""A small HTTP/1.1 server in the running event loop: for the embedded registry, not for the world.

What a client can cost is bounded: the length of a line, how many headers there are, the body. A
request that is none is answered with its status, and its connection is closed.
"""

from __future__ import annotations

import asyncio
import http
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from parley.errors import NetworkError
from parley.net.address import Address
from parley.net.failures import LISTEN, network_errors

MAX_LINE_BYTES = 16 * 1024
MAX_HEADERS = 100
MAX_BODY_BYTES = 16 * 1024 * 1024
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. `path` are the segments between slashes, decoded; header names are lower case."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer; length and connection are added."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]


class _Refused(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class HttpServer:
    """Listens, and has each request answered by `handler`, those of a connection in order."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.address = Address("", 0)

    async def start(self, address: Address, context: ssl.SSLContext | None = None) -> None:
        """Listen; port 0 lets the system choose. Raises NetworkError when the port is taken."""
        with network_errors(address, LISTEN):
            self._server = await asyncio.start_server(
                self._accept, address.host, address.port, ssl=context, limit=MAX_LINE_BYTES
            )
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = Address(str(host), int(port))

    async def close(self) -> None:
        """Listen no more, and end every connection. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, NetworkError):
                await self._converse(reader, writer)
        except asyncio.CancelledError:
            # the server is closed; asyncio's own callback would log a cancelled task
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        goes_on = True
        while goes_on:
            try:
                request = await _read_request(reader, writer)
            except _Refused as error:
                reply = HttpReply(error.status, str(error).encode(), {"Content-Type": "text/plain"})
                goes_on = False
            else:
                if request is None:
                    return
                reply = await self._handler(request)
                goes_on = request.headers.get("connection", "").lower() != "close"
            writer.write(_encoded(reply, goes_on=goes_on))
            await writer.drain()


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> HttpRequest | None:
    """Return the next request, None where the client has left."""
    first = await _line(reader, may_end=True)
    if first is None:
        return None
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not set(parts[0]) <= _TOKEN:
        raise _Refused(400, "the first line is no request of HTTP/1.1")
    method, target, version = parts
    headers = await _headers(reader)
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise _Refused(400, "the path does not begin with a slash")
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await _body(reader, headers)
    try:
        segments = tuple(unquote(part, errors="strict") for part in path[1:].rstrip("/").split("/"))
        found = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=100))
    except ValueError as error:
        raise _Refused(400, "path or query are no UTF-8") from error
    return HttpRequest(method, segments if segments != ("",) else (), found, headers, body)


async def _line(reader: asyncio.StreamReader, *, may_end: bool = False) -> str | None:
    try:
        raw = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError as error:
        raise _Refused(431, f"a line has more than {MAX_LINE_BYTES} bytes") from error
    except asyncio.IncompleteReadError as error:
        if may_end and not error.partial:
            return None
        raise
    return raw.decode("latin-1").rstrip("\r\n")


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    found: dict[str, str] = {}
    for _ in range(MAX_HEADERS + 1):
        line = await _line(reader)
        if not line:
            return found
        name, colon, value = line.partition(":")
        if not colon or not name or not set(name) <= _TOKEN:
            raise _Refused(400, "a header is none")
        if name.lower() in found and name.lower() in ("content-length", "transfer-encoding"):
            raise _Refused(400, f"{name} is there twice")
        found[name.lower()] = value.strip()
    raise _Refused(431, f"more than {MAX_HEADERS} headers")


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    encoding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if encoding is not None:
        if length is not None or encoding.lower() != "chunked":
            raise _Refused(400, "a body has one length: Content-Length, or chunks")
        return await _chunks(reader)
    if length is None:
        return b""
    if not length.isascii() or not length.isdigit():
        raise _Refused(400, "Content-Length is no number")
    size = int(length[:20])
    if size > MAX_BODY_BYTES:
        raise _Refused(413, f"a body has at most {MAX_BODY_BYTES} bytes")
    return await reader.readexactly(size)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while True:
        line = (await _line(reader) or "").partition(";")[0].strip()
        try:
            size = int(line, 16) if set(line) <= set("0123456789abcdefABCDEF") else -1
        except ValueError:
            size = -1
        if size < 0:
            raise _Refused(400, "a chunk has no size")
        if len(found) + size > MAX_BODY_BYTES:
            raise _Refused(413, f"a body has at most {MAX_BODY_BYTES} bytes")
        if size == 0:
            break
        found += await reader.readexactly(size)
        if await _line(reader):
            raise _Refused(400, "a chunk is longer than its size")
    await _headers(reader)
    return bytes(found)


def _encoded(reply: HttpReply, *, goes_on: bool) -> bytes:
    try:
        phrase = http.HTTPStatus(reply.status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {reply.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    lines.append(f"Content-Length: {len(reply.body)}")
    lines.append(f"Connection: {'keep-alive' if goes_on else 'close'}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + reply.body
