"""Tokens from an endpoint and from a file: the request on the wire, what is kept,
and what each failure says.
"""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
import threading
import traceback
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import trustme

from parley.errors import (
    AuthenticationError,
    ConfigError,
    KafkaError,
    NetworkError,
    RequestTimedOut,
)
from parley.net import ConnectOptions, open_connection
from parley.net.oauth import (
    MAX_ANSWER_BYTES,
    EndpointTokens,
    FileToken,
    FunctionTokens,
    TokenEndpoint,
)
from parley.types import Secret

from ...token_server import CLIENT_ID, CLIENT_SECRET, TokenServer, jwt


def endpoint(url: str, **changes: Any) -> TokenEndpoint:
    return TokenEndpoint(
        url,
        CLIENT_ID,
        Secret(CLIENT_SECRET),
        **{"retry_backoff_ms": 0, "retry_backoff_max_ms": 0} | changes,
    )


def tokens(url: str, **changes: Any) -> EndpointTokens:
    return EndpointTokens(endpoint(url, **changes), pause=lambda seconds: None)


async def test_the_request_is_the_client_credentials_grant() -> None:
    """RFC 6749, 4.4.2, with the credentials as KIP-768 sends them."""
    with TokenServer() as server:
        token = await tokens(server.url, scope="read write")()
        assert token.reveal().count(".") == 2
        (request,) = server.requests
    assert request == {
        "path": "/oauth/token?tenant=7",
        "form": {"grant_type": "client_credentials", "scope": "read write"},
        "kind": "Basic",
        "credentials": f"{CLIENT_ID}:{CLIENT_SECRET}",
    }


async def test_credentials_are_encoded_where_the_server_wants_it() -> None:
    with TokenServer(answers=[(200, b'{"access_token":"t"}')]) as server:
        await tokens(server.url, urlencode_credentials=True)()
        assert server.requests[0]["credentials"] == "reader:canary+secret%2B%2F%3D%3A%C3%A9"
        assert "scope" not in server.requests[0]["form"]


async def test_a_token_is_used_again_until_four_fifths_of_its_life_are_over() -> None:
    import time

    shift = 0.0
    with TokenServer(lasts_s=1000) as server:
        source = EndpointTokens(endpoint(server.url), now_s=lambda: time.time() + shift)
        first = await source()
        assert (await source()).reveal() == first.reveal()
        shift = 700.0
        await source()
        assert len(server.requests) == 1
        shift = 810.0
        await source()
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ({"access_token": "opaque", "expires_in": 3600}, 1),
        ({"id_token": "opaque", "expires_in": 3600}, 1),
        ({"access_token": "opaque"}, 2),
        ({"access_token": "a.b.c", "expires_in": "3600"}, 2),
        ({"access_token": jwt(lasts_s=-5)}, 2),
    ],
)
async def test_a_token_whose_end_is_not_known_or_past_is_not_kept(
    answer: dict[str, Any], asked: int
) -> None:
    body = json.dumps(answer).encode()
    with TokenServer(answers=[(200, body), (200, body)]) as server:
        source = tokens(server.url)
        await source()
        await source()
        assert len(server.requests) == asked


async def test_logins_at_the_same_time_share_one_request() -> None:
    arrived, go = threading.Event(), threading.Event()

    def slowly(handler: BaseHTTPRequestHandler) -> None:
        arrived.set()
        assert go.wait(60)
        body = b'{"access_token":"shared","expires_in":60}'
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with TokenServer(answers=[slowly]) as server:
        source = tokens(server.url)
        logins = [asyncio.ensure_future(source()) for _ in range(50)]
        await asyncio.to_thread(arrived.wait, 60)
        logins[0].cancel()  # one that is given up takes nothing from the others
        go.set()
        found = await asyncio.gather(*logins, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert {token.reveal() for token in found[1:] if isinstance(token, Secret)} == {"shared"}
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
async def test_a_server_in_trouble_is_asked_again(status: int) -> None:
    pauses: list[float] = []
    with TokenServer(answers=[(status, b"busy"), (status, b"busy")]) as server:
        source = EndpointTokens(
            endpoint(server.url, retry_backoff_ms=100, retry_backoff_max_ms=60_000),
            pause=pauses.append,
        )
        await source()
        assert len(server.requests) == 3
    assert pauses == [0.1, 0.2]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405])
async def test_a_refusal_is_final_and_names_its_code(status: int) -> None:
    body = b'{"error":"invalid_scope","error_description":"canary"}'
    with TokenServer(answers=[(status, body)]) as server:
        with pytest.raises(
            AuthenticationError, match=rf"HTTP status {status}, error invalid_scope\. Check"
        ) as caught:
            await tokens(server.url, retry_backoff_max_ms=60_000)()
        assert len(server.requests) == 1
        assert_clean(caught.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, b"<html>log in</html>"), "not with a JSON object"),
        ((200, b"[" * 100_000), "not with a JSON object"),
        ((200, b'["access_token"]'), "not with a JSON object"),
        ((200, b'{"token":"canary"}'), "without an access_token"),
        ((200, b'{"access_token":7}'), "without an access_token"),
        ((302, b""), "it redirects"),
        ((401, b'{"error":"canary \\n in an error code"}'), r"HTTP status 401\. Check"),
    ],
)
async def test_an_answer_that_is_no_token_is_named_and_not_shown(
    answer: tuple[int, bytes], words: str
) -> None:
    with TokenServer(answers=[answer]) as server:
        with pytest.raises(AuthenticationError, match=words) as caught:
            await tokens(server.url)()
        assert_clean(caught.value)


async def test_an_endless_answer_is_cut_off() -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(64 * MAX_ANSWER_BYTES // 65_536):
                handler.wfile.write(b" " * 65_536)
        except OSError:
            pass  # the client has had enough

    with (
        TokenServer(answers=[endless]) as server,
        pytest.raises(NetworkError, match="did not answer"),
    ):
        await tokens(server.url)()


async def test_a_silent_server_costs_its_time_and_is_named() -> None:
    gone = threading.Event()
    with TokenServer(answers=[lambda handler: gone.wait(60) and None]) as server:
        with pytest.raises(
            NetworkError, match=r"token endpoint http://localhost:\d+/oauth/token did not answer"
        ) as e:
            await tokens(server.url, read_timeout_ms=200)()
        assert e.value.stage == "token endpoint"
        gone.set()


async def test_nobody_there_is_a_network_error() -> None:
    with TokenServer() as server:
        url = server.url
    with pytest.raises(NetworkError, match="refused"):
        await tokens(url)()


async def test_an_endpoint_over_tls_is_verified() -> None:
    pauses: list[float] = []
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with TokenServer(context) as server:
        assert await tokens(server.url, ssl_context=trusting)()
        source = EndpointTokens(
            endpoint(server.url, retry_backoff_max_ms=60_000), pause=pauses.append
        )
        with pytest.raises(NetworkError, match=r"not trusted: .*ssl\.truststore\.location"):
            await source()  # the system does not know this authority
    assert pauses == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "ftp://host/token",
        "https://",
        "https://host:port/",
        "https://user:pw@host/",
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="sasl_oauthbearer_token_endpoint_url") as caught:
        endpoint(url)
    assert "pw" not in str(caught.value)


async def test_a_token_file_is_read_at_each_login(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("  first\n")
    source = FileToken(path)
    assert (await source()).reveal() == "first"
    path.write_text("second")
    assert (await source()).reveal() == "second"


@pytest.mark.parametrize("content", ["tökén".encode(), b"x" * (MAX_ANSWER_BYTES + 1)])
async def test_a_file_that_holds_something_else_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(AuthenticationError, match=str(path)):
        await FileToken(path)()


@pytest.mark.parametrize("content", [b"", b" \n", None])
@pytest.mark.parametrize("written", [True, False])
async def test_a_file_without_a_token_is_read_again_for_a_while(
    tmp_path: Path, content: bytes | None, *, written: bool
) -> None:
    path, pauses_s = tmp_path / "token", list[float]()
    if content is not None:
        path.write_bytes(content)

    async def pause(seconds: float) -> None:
        pauses_s.append(seconds)
        assert str(path) in source.waiting
        if written and len(pauses_s) == 3:
            path.write_text("token")

    source = FileToken(path, 100, 2_000, pause=pause)
    if written:
        assert (await source()).reveal() == "token"
        assert pauses_s == [0.1, 0.2, 0.4]
    else:
        with pytest.raises(NetworkError, match=str(path)) as caught:
            await source()
        assert caught.value.stage == "token"
        assert pauses_s == [0.1, 0.2, 0.4, 0.8]


def assert_clean(error: KafkaError) -> None:
    shown = f"{error} {error!r} {error.__cause__} {error.__context__}"
    assert "canary" not in shown
    assert CLIENT_SECRET not in shown


async def test_a_function_that_blocks_holds_nobody_up_and_is_called_once_at_a_time() -> None:
    called, go, threads = threading.Event(), threading.Event(), list[int]()

    def slowly() -> str:
        threads.append(threading.get_ident())
        called.set()
        assert go.wait(60)
        return f"token {len(threads)}"

    source = FunctionTokens(slowly)
    logins = [asyncio.ensure_future(source()) for _ in range(5)]
    await asyncio.to_thread(called.wait, 60)  # the loop goes on meanwhile
    logins[0].cancel()
    await asyncio.sleep(0)
    go.set()
    found = await asyncio.gather(*logins, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == ["token 1"] * 4
    assert await source() == "token 2"
    assert threading.get_ident() not in threads


async def test_a_function_may_return_what_is_to_be_awaited() -> None:
    async def token(text: str) -> str:
        return text

    assert await FunctionTokens(lambda: token("awaited"))() == "awaited"


async def test_a_failure_that_nobody_waits_for_any_more_is_not_reported() -> None:
    asked, go, reported = threading.Event(), threading.Event(), list[object]()

    def refusing(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        assert go.wait(60)
        handler.send_error(401)

    asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
    with TokenServer(answers=[refusing]) as server:
        source = tokens(server.url)
        login = asyncio.ensure_future(source())
        await asyncio.to_thread(asked.wait, 60)
        login.cancel()
        await asyncio.gather(login, return_exceptions=True)
        go.set()
        for thread in threading.enumerate():
            if thread.name == "parley-token":
                await asyncio.to_thread(thread.join, 60)
        await asyncio.sleep(0)  # what the thread has set arrives
        del login
        gc.collect()
    assert reported == []


async def test_where_no_thread_can_be_begun_the_next_login_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with TokenServer() as server:
        source = tokens(server.url)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", full)
            with pytest.raises(NetworkError, match=r"was not asked: can't start"):
                await source()
        assert await asyncio.wait_for(source(), 60)


async def test_each_login_learns_where_a_function_failed() -> None:
    def failing() -> str:
        raise ConnectionError

    source = FunctionTokens(failing)
    errors = await asyncio.gather(*(source() for _ in range(3)), return_exceptions=True)
    for error in errors:
        assert isinstance(error, ConnectionError)
        assert traceback.extract_tb(error.__traceback__)[-1].name == "failing"


async def test_a_login_that_waits_for_its_token_says_so() -> None:
    """It waits for nothing of the broker."""
    go = threading.Event()

    def hanging(handler: BaseHTTPRequestHandler) -> None:
        go.wait(60)
        handler.send_error(401)

    with TokenServer(answers=[(503, b"busy"), hanging]) as server:
        source = tokens(server.url, retry_backoff_max_ms=60_000)
        options = ConnectOptions(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_token_provider=source,
            socket_connection_setup_timeout_ms=500,
            allow_plaintext_password=True,
        )
        assert f"{source.endpoint.place} has not answered" in source.waiting
        with pytest.raises(RequestTimedOut, match=r"stage of token: .* HTTP status 503") as caught:
            await open_connection("127.0.0.1:9", options)
        assert caught.value.stage == "token"
        go.set()
