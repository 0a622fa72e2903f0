"""One HTTP request and its answer, in the thread that asks: for registries, not for records.

Such requests are rare (one for each schema and process), so each has a connection of its own:
nothing is kept that a fork could share, a server could close in between, or a thread could wait
for. The standard library speaks HTTP/1.1; what is added here are bounds of size and time, and
errors that say what to do. Redirects are not followed: they would show credentials elsewhere.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

from parley.errors import ConfigError, NetworkError, RequestTimedOut, printable
from parley.net.address import Address
from parley.net.failures import NAME_LOOKUP, REQUEST, TLS
from parley.net.shared import result_of
from parley.net.tls import trusting_context

T = TypeVar("T")

DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
DEFAULT_MAX_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where requests go. `base_url` has no credentials; `path` of a request is put behind it."""

    base_url: str
    context: ssl.SSLContext | None = field(default=None, repr=False)
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 30_000
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            usable = parts.scheme in DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        # an @ behind the host is what remains of a password that was not escaped
        usable = usable and "@" not in parts.path + parts.query + parts.fragment
        if not usable or not self.base_url.isascii() or not self.base_url.isprintable():
            raise no_url(self.base_url)
        if parts.username is not None or parts.query or parts.fragment:
            raise ConfigError(
                f"the URL of {parts.hostname} has more than host, port and path; give user name "
                "and password as options"
            )

    @property
    def address(self) -> Address:
        """Host and port."""
        parts = urlsplit(self.base_url)
        return Address(parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme])


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered: HTTP's status, and a body of any kind."""

    status: int
    body: bytes
    location: str | None = None
    """Where a redirect leads."""


def no_url(text: str) -> ConfigError:
    """Return (not raise) the error for a text that is no URL of a server. It shows nothing of a
    login, wherever in the text that is.

    >>> print(no_url("https://ann:se/cret@h"))  # doctest: +ELLIPSIS
    "https://...@h" is no URL of the form http://HOST:PORT ...
    """
    scheme = _SCHEME.match(text)
    beginning = "" if scheme is None else scheme[0]
    login, at, host = text[len(beginning) :].rpartition("@")
    shown = f"{beginning}...@{host}" if at else text
    hint = "; in a login before the host / # ? @ and , are written %2F %23 %3F %40 and %2C"
    return ConfigError(
        f'"{printable(shown)}" is no URL of the form http://HOST:PORT or https://HOST:PORT'
        f"{hint if login else ''}"
    )


def exchange(
    target: HttpTarget,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """Send a request and return its answer, whatever its status is.

    Raises NetworkError with the stage ("name lookup", "connect", "tls", "request"), RequestTimedOut
    when connecting or answering takes longer than it may.
    """
    connection = connection_to(target.base_url, target.connect_timeout_ms, target.context)
    address = target.address
    try:
        _connect(connection, target)
        deadline_s = time.monotonic() + target.read_timeout_ms / 1000
        base = urlsplit(target.base_url).path.rstrip("/")
        try:
            connection.request(method, base + path, body, dict(headers or {}))
            with connection.getresponse() as answer:
                location = answer.getheader("Location")
                found = read_bounded(answer, target.max_bytes, deadline_s)
                if answer.length:
                    raise ValueError("it ends early")
                return HttpAnswer(answer.status, found, location)
        except TimeoutError as error:
            raise _timed_out(target, REQUEST, "read_timeout_ms") from error
        except (OSError, http.client.HTTPException, UnicodeError, ValueError) as error:
            raise NetworkError(
                f"{target.base_url}: the request got no usable answer ({_text(error)}); what "
                "listens there may not speak HTTP, or wants https",
                address=str(address),
                stage=REQUEST,
            ) from error
    finally:
        connection.close()


async def in_thread(call: Callable[[], T]) -> T:
    """Call in a thread of its own and return what it returns.

    Not in the loop's executor, which a slow server must not hold up. A caller that is cancelled
    leaves the thread behind, which ends by its own time-outs.
    """
    pending: Future[T] = Future()

    def run() -> None:
        try:
            found = call()
        except BaseException as error:
            pending.set_exception(error)
        else:
            pending.set_result(found)

    threading.Thread(target=run, name="parley-http", daemon=True).start()
    return await result_of(pending)


def connection_to(
    url: str, connect_timeout_ms: int, context: ssl.SSLContext | None
) -> http.client.HTTPConnection:
    """Return a connection to the server of a URL, not made yet. Without `context` the system's
    authorities are trusted.
    """
    parts, seconds = urlsplit(url), connect_timeout_ms / 1000
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, parts.port, timeout=seconds, context=context or trusting_context()
        )
    return http.client.HTTPConnection(host, parts.port, timeout=seconds)


def read_bounded(answer: http.client.HTTPResponse, max_bytes: int, deadline_s: float) -> bytes:
    """Return a body. Raises HTTPException beyond `max_bytes`, TimeoutError after the deadline."""
    pieces, size = [], 0
    while piece := answer.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise http.client.HTTPException(f"it is longer than {max_bytes} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError
    return b"".join(pieces)


def _connect(connection: http.client.HTTPConnection, target: HttpTarget) -> None:
    address = target.address
    try:
        connection.connect()
    except TimeoutError as error:
        raise _timed_out(target, "connect", "connect_timeout_ms") from error
    except (OSError, ssl.SSLError, UnicodeError) as error:
        stage, why = _failure(error)
        made = NetworkError(f"{target.base_url}: {why}", address=str(address), stage=stage)
        made.retriable = not isinstance(error, ssl.SSLCertVerificationError)
        raise made from error
    connection.sock.settimeout(target.read_timeout_ms / 1000)


def _failure(error: Exception) -> tuple[str, str]:
    """Return the stage in which connecting failed, and what to do."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return NAME_LOOKUP, f"the name cannot be resolved ({_text(error)}); check the URL and DNS"
    if isinstance(error, ssl.SSLCertVerificationError):
        return TLS, (
            f"the server's certificate is not trusted: {error.verify_message}; give its CA as "
            "ssl_cafile, and use a name that the certificate holds"
        )
    if isinstance(error, ssl.SSLError):
        return TLS, (
            f"the TLS handshake failed ({_text(error)}); if the server speaks http use an http "
            "URL, if it wants a client certificate give ssl_certfile"
        )
    if isinstance(error, ConnectionRefusedError):
        return "connect", "the connection was refused; nothing listens there"
    return "connect", f"no connection could be made ({_text(error)})"


def _timed_out(target: HttpTarget, stage: str, name: str) -> RequestTimedOut:
    limit_ms = getattr(target, name)
    return RequestTimedOut(
        f"{target.base_url}: no answer within http_{name}={limit_ms}, at the stage of {stage}",
        address=str(target.address),
        stage=stage,
    )


def _text(error: Exception) -> str:
    said = getattr(error, "strerror", None)
    return printable(said if isinstance(said, str) and said else str(error) or type(error).__name__)
