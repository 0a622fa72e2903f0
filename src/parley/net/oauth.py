"""Tokens for OAUTHBEARER: from a token endpoint (KIP-768), a file, or a function of the user's.

A token is fetched when a connection logs in and used for further logins until 80 % of its life is
over, as Java's clients do (`sasl.login.refresh.window.factor`). Logins at the same time share one
request.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import inspect
import json
import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote_plus, urlsplit

from parley.errors import AuthenticationError, ConfigError, NetworkError
from parley.net.failures import TOKEN
from parley.net.http_client import connection_to, in_thread, read_bounded
from parley.net.options import TokenProvider
from parley.net.shared import outcome, result_of
from parley.types import Json, Secret

TOKEN_ENDPOINT = "token endpoint"
"""The stage of a NetworkError."""
MAX_ANSWER_BYTES = 1 << 20
REFRESH_WINDOW_FACTOR = 0.8
DEFAULT_TIMEOUT_MS = 10_000
DEFAULT_BACKOFF_MS, DEFAULT_BACKOFF_MAX_MS = 100, 10_000
_WORTHLESS_TO_RETRY = frozenset({*range(400, 408), *range(409, 419), 426, 431, 501, 505, 511})
"""HTTP answers that will be the same next time; 408, 429 and 5xx may pass."""
_ERROR_CODE = re.compile(r"[a-z_]{1,64}")
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where tokens are to be had, for whom, and how long to try. Times in milliseconds.

    `url` is http or https. `scope` is what is asked for, None: the server's default. With
    `urlencode_credentials` id and secret are encoded before they go into the Authorization header
    (RFC 6749, 2.3.1), which some servers want. Raises ConfigError for a URL that cannot be used.
    """

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    urlencode_credentials: bool = False
    connect_timeout_ms: int = DEFAULT_TIMEOUT_MS
    read_timeout_ms: int = DEFAULT_TIMEOUT_MS
    retry_backoff_ms: int = DEFAULT_BACKOFF_MS
    retry_backoff_max_ms: int = DEFAULT_BACKOFF_MAX_MS
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)
    """What the server's certificate is verified with; None trusts the system's authorities."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            _ = parts.port
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "sasl_oauthbearer_token_endpoint_url is not of the form https://HOST/PATH"
            )
        if parts.username is not None or parts.password is not None:
            raise ConfigError(
                "sasl_oauthbearer_token_endpoint_url holds a user name or "
                "password; give them as clientId and clientSecret"
            )

    @property
    def shows_secret(self) -> bool:
        """Whether everybody on the way can read the client's secret: http to another machine."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in _LOCAL

    @property
    def place(self) -> str:
        """The URL without its query, for errors."""
        return self.url.partition("?")[0]


class EndpointTokens:
    """A token provider that asks a `TokenEndpoint` by the client credentials grant (RFC 6749, 4.4).

    `await tokens()` raises AuthenticationError where the endpoint refuses, NetworkError where it
    cannot be reached or does not answer as one; neither shows the secret, the token or the answer.
    """

    def __init__(
        self,
        endpoint: TokenEndpoint,
        *,
        now_s: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.endpoint = endpoint
        self._now_s = now_s
        self._pause = pause
        self._lock = threading.Lock()
        self._token: Secret | None = None
        self._fresh_until_s = 0.0
        self._pending: Future[Secret] | None = None
        self._trouble: NetworkError | None = None

    @property
    def waiting(self) -> str:
        """What to say of a login that waits for this endpoint: its last failure, if it had one."""
        if self._trouble is not None:
            return f"{self._trouble}; it is asked again"
        return f"the token endpoint {self.endpoint.place} has not answered"

    async def __call__(self) -> Secret:
        """Return a token that is still good for a while."""
        with self._lock:
            if self._token is not None and self._now_s() < self._fresh_until_s:
                return self._token
            pending = self._pending
            if pending is None:
                pending = Future()
                # A thread of its own: the loop's executor must not be held up by a slow server.
                thread = threading.Thread(
                    target=self._fetch, args=(pending,), name="parley-token", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:  # the process has as many as it may
                    raise NetworkError(
                        f"the token endpoint {self.endpoint.place} was not asked: {error}",
                        stage=TOKEN_ENDPOINT,
                    ) from None
                self._pending = pending
        return await result_of(pending)

    def _fetch(self, pending: Future[Secret]) -> None:
        try:
            answer = self._asked()
            token = _token_in(answer, self.endpoint)
            fresh_until_s = self._now_s() + REFRESH_WINDOW_FACTOR * _lifetime_s(
                token, answer, self._now_s()
            )
        except BaseException as error:
            with self._lock:
                self._pending = None
            pending.set_exception(error)
            return
        with self._lock:
            self._token, self._fresh_until_s, self._pending = token, fresh_until_s, None
        pending.set_result(token)

    def _asked(self) -> dict[str, Json]:
        """Ask again, with growing pauses, until an answer or the end of the time for it."""
        endpoint, began = self.endpoint, time.monotonic()
        backoff_ms = float(endpoint.retry_backoff_ms)
        while True:
            try:
                answer = _ask(endpoint)
            except NetworkError as error:
                self._trouble = error
                spent_ms = (time.monotonic() - began) * 1000
                if not error.retriable or spent_ms + backoff_ms > endpoint.retry_backoff_max_ms:
                    raise
            else:
                self._trouble = None
                return answer
            self._pause(backoff_ms / 1000)
            backoff_ms = max(1.0, backoff_ms) * 2


class FunctionTokens:
    """A token provider that calls a function which may block, in a thread of its own.

    Logins at the same time share one call: the function need not be ready for several.
    """

    def __init__(self, function: TokenProvider) -> None:
        self._function = function
        self._pending: asyncio.Task[Secret | str] | None = None

    async def __call__(self) -> Secret | str:
        """Return what the function returns, and awaits where it is to be. Raises what it does."""
        loop, task = asyncio.get_running_loop(), self._pending
        if task is None or task.done() or task.get_loop() is not loop:
            task = self._pending = loop.create_task(self._called())
            # retrieved: those who wait for it get it too
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await outcome(task)

    async def _called(self) -> Secret | str:
        given = await in_thread(self._function)
        return await given if inspect.isawaitable(given) else given


class FileToken:
    """A token provider that reads a file at every login: who renews a token writes the file.

    One that cannot be read, or is empty, may be about to be written: it is read again, with growing
    pauses, as an endpoint is asked again. Then `await token()` raises NetworkError, which may pass,
    and AuthenticationError where what the file holds is no token. Neither shows the file's text.
    """

    def __init__(
        self,
        path: Path,
        retry_backoff_ms: int = DEFAULT_BACKOFF_MS,
        retry_backoff_max_ms: int = DEFAULT_BACKOFF_MAX_MS,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.path = path
        self._backoff_ms, self._backoff_max_ms = retry_backoff_ms, retry_backoff_max_ms
        self._pause = pause
        self._trouble: NetworkError | None = None

    @property
    def waiting(self) -> str:
        """What to say of a login that waits for this file."""
        if self._trouble is not None:
            return f"{self._trouble}; it is read again"
        return f"the token file {self.path} is being read"

    async def __call__(self) -> Secret:
        """Return what the file says now, without white space around it."""
        backoff_ms, paused_ms = float(self._backoff_ms), 0.0
        while True:
            try:
                token = await asyncio.to_thread(self._read)
            except NetworkError as error:
                self._trouble = error
                if paused_ms + backoff_ms > self._backoff_max_ms:
                    raise
            else:
                self._trouble = None
                return token
            await self._pause(backoff_ms / 1000)
            paused_ms += backoff_ms
            backoff_ms = max(1.0, backoff_ms) * 2

    def _read(self) -> Secret:
        try:
            with self.path.open("rb") as file:
                text = file.read(MAX_ANSWER_BYTES + 1)
        except OSError as error:
            raise NetworkError(
                f"the token file {self.path} cannot be read: {error.strerror}", stage=TOKEN
            ) from None
        token = text.strip()
        if not token:
            raise NetworkError(f"the token file {self.path} holds no token", stage=TOKEN)
        if len(text) > MAX_ANSWER_BYTES or not token.isascii():
            raise AuthenticationError(
                f"the token file {self.path} is not a token: too long, or not ASCII"
            )
        return Secret(token.decode("ascii"))


def _ask(endpoint: TokenEndpoint) -> dict[str, Json]:
    """Send one request and return the JSON object of the answer."""
    parts = urlsplit(endpoint.url)
    connection = connection_to(endpoint.url, endpoint.connect_timeout_ms, endpoint.ssl_context)
    try:
        connection.connect()
        connection.sock.settimeout(endpoint.read_timeout_ms / 1000)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, _body(endpoint), _headers(endpoint))
        # it holds the socket where the server ends the connection
        with connection.getresponse() as answer:
            status = answer.status
            deadline_s = time.monotonic() + endpoint.read_timeout_ms / 1000
            body = read_bounded(answer, MAX_ANSWER_BYTES, deadline_s)
    except ssl.SSLCertVerificationError as error:
        made = NetworkError(
            f"the certificate of the token endpoint {endpoint.place} is not trusted: "
            f"{error.verify_message}; give its CA as ssl.truststore.location in sasl.jaas.config, "
            "and a URL with a name that the certificate holds",
            address=parts.netloc,
            stage=TOKEN_ENDPOINT,
        )
        made.retriable = False  # the same certificate comes again
        raise made from None
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise NetworkError(
            f"the token endpoint {endpoint.place} did not answer ({reason})",
            address=parts.netloc,
            stage=TOKEN_ENDPOINT,
        ) from None
    finally:
        connection.close()
    return _answer(endpoint, status, body)


def _body(endpoint: TokenEndpoint) -> bytes:
    scope = "" if endpoint.scope is None else f"&scope={quote_plus(endpoint.scope)}"
    return f"grant_type=client_credentials{scope}".encode("ascii")


def _headers(endpoint: TokenEndpoint) -> dict[str, str]:
    pair = [endpoint.client_id, endpoint.client_secret.reveal()]
    if endpoint.urlencode_credentials:
        pair = [quote_plus(text) for text in pair]
    credentials = base64.b64encode(":".join(pair).encode()).decode("ascii")
    return {
        "Authorization": f"Basic {credentials}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
        "Cache-Control": "no-cache",
    }


def _answer(endpoint: TokenEndpoint, status: int, body: bytes) -> dict[str, Json]:
    found: Json = None
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
    if status in (200, 201) and isinstance(found, dict):
        return found
    code = found.get("error") if isinstance(found, dict) else None
    # A description may hold anything; the code is one of a few words (RFC 6749, 5.2).
    said = f", error {code}" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
    text = f"the token endpoint {endpoint.place} answered HTTP status {status}{said}"
    if status in _WORTHLESS_TO_RETRY:
        raise AuthenticationError(f"{text}. Check client id, secret, scope and URL")
    if status in (200, 201):
        raise AuthenticationError(f"{text}, but not with a JSON object. Check the URL")
    if 300 <= status < 400:
        raise AuthenticationError(
            f"{text}: it redirects, which would show the secret elsewhere. Give its target"
        )
    raise NetworkError(text, address=urlsplit(endpoint.url).netloc, stage=TOKEN_ENDPOINT)


def _token_in(answer: dict[str, Json], endpoint: TokenEndpoint) -> Secret:
    for name in ("access_token", "id_token"):
        token = answer.get(name)
        if isinstance(token, str) and token:
            return Secret(token)
    raise AuthenticationError(
        f"the token endpoint {endpoint.place} answered without an access_token"
    )


def _lifetime_s(token: Secret, answer: dict[str, Json], now_s: float) -> float:
    """Return how long a token is good for: by its own claim `exp`, else as the answer
    says; 0 where neither says.
    """
    parts = token.reveal().split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
        return max(0.0, float(claims["exp"]) - now_s)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError):
        pass
    lasts = answer.get("expires_in")
    return (
        float(lasts)
        if isinstance(lasts, int) and not isinstance(lasts, bool) and 0 < lasts < 2**31
        else 0.0
    )
