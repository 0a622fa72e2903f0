"""Logins over a network: options, mechanisms, repeated logins, ended
sessions, what is never shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from parley.devcluster.security.security import ListenerSecurity, Security
from parley.errors import (
    AuthenticationError,
    ConfigError,
    KafkaError,
    NetworkError,
    RequestTimedOut,
)
from parley.messages import FetchRequest, MetadataRequest
from parley.net import (
    ConnectOptions,
    Faults,
    ManualClock,
    MemoryBackend,
    Pool,
    Server,
    ServerConnection,
    ServerSettings,
    Way,
    open_connection,
    serve,
)
from parley.net.clock import settle
from parley.protocol import BrokerSasl, ServeAll
from parley.protocol.sasl import (
    MECHANISMS,
    OAuthBearerServer,
    PlainClient,
    PlainServer,
    ScramCredential,
    ScramServer,
)
from parley.types import Secret
from parley.versions.releases import release

from ...support import GENEROUS_S
from .conftest import BROKER, Broker

USERS = {"alice": Secret("canary-password")}


def scram_server() -> ScramServer:
    known = {
        user: ScramCredential.from_password("SCRAM-SHA-512", password, b"salt")
        for user, password in USERS.items()
    }
    return ScramServer("SCRAM-SHA-512", known.get, "server")


def mechanisms() -> dict[str, Callable[[], Any]]:
    return {
        "PLAIN": lambda: PlainServer(USERS.get),
        "SCRAM-SHA-512": scram_server,
        "OAUTHBEARER": lambda: OAuthBearerServer(
            lambda token: "alice" if token.startswith("good") else None
        ),
    }


async def listening(
    network: MemoryBackend,
    clock: ManualClock,
    broker: Broker,
    handler: Callable[[ServerConnection], Awaitable[None]] | None = None,
    session_lifetime_ms: int = 0,
) -> Server:
    broker.ranges |= {17: (0, 1), 36: (0, 2)}
    sasl = BrokerSasl(mechanisms(), session_lifetime_ms)
    return await serve(
        BROKER.host,
        BROKER.port,
        handler or broker.serve,
        policy=ServeAll(),
        backend=network,
        settings=ServerSettings(sasl=sasl, clock=clock),
    )


PLAIN = ConnectOptions(
    bootstrap_servers=str(BROKER),
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_username="alice",
    sasl_password="canary-password",
    allow_plaintext_password=True,
    socket_connection_setup_timeout_ms=2_000,
    request_timeout_ms=500,
)
SCRAM = replace(PLAIN, sasl_mechanism="SCRAM-SHA-512", allow_plaintext_password=False)
OAUTH = replace(
    PLAIN,
    sasl_mechanism="OAUTHBEARER",
    sasl_username=None,
    sasl_password=None,
    sasl_token_provider=lambda: "good1",
)


@pytest.mark.parametrize(
    "options", [PLAIN, SCRAM, OAUTH], ids=lambda options: str(options.sasl_mechanism)
)
async def test_each_mechanism(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    broker, principals = Broker(), []

    async def handler(connection: ServerConnection) -> None:
        await broker.serve(connection)
        principals.append(connection.principal)

    server = await listening(network, clock, broker, handler)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    assert broker.keys() == [18, 18]  # before and after the login, and no canary
    await connection.request(MetadataRequest(topics=[]))
    await connection.close()
    await settle()
    assert principals == ["alice"]
    await server.close()


async def test_a_mechanism_is_a_row_and_its_machines(
    network: MemoryBackend, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options, logins and listeners ask the table: nothing else names a mechanism."""

    class Renamed(PlainClient):
        name = "X-PLAIN"

    row = replace(
        MECHANISMS["PLAIN"],
        name="X-PLAIN",
        shows_password=False,
        client=lambda given: Renamed(given.username, given.password),
    )
    monkeypatch.setitem(MECHANISMS, "X-PLAIN", row)
    security = ListenerSecurity(
        Security("SASL_PLAINTEXT", users=USERS, mechanisms=["X-PLAIN"]), BROKER.host
    )
    tls, settings = security.made_for(release("0.10"), clock, clock.now_ms, 0)
    broker = Broker()
    broker.ranges |= {17: (0, 1), 36: (0, 2)}
    server = await serve(
        BROKER.host,
        BROKER.port,
        broker.serve,
        policy=ServeAll(),
        backend=network,
        ssl_context=tls,
        settings=settings,
    )
    options = replace(PLAIN, sasl_mechanism="X-PLAIN", allow_plaintext_password=False)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    await connection.request(MetadataRequest(topics=[]))
    await connection.close()
    await server.close()


async def test_a_refused_login_is_no_timeout_and_is_not_tried_elsewhere(
    network: MemoryBackend, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = await listening(network, clock, Broker())
    options = replace(
        SCRAM, sasl_password=Secret("wrong-canary"), bootstrap_servers=f"{BROKER},other:1"
    )
    pool = Pool(options, backend=network, clock=clock, rng=lambda: 0.0)
    with pytest.raises(
        AuthenticationError, match=r"broker:9092: the broker refused the SCRAM-SHA-512 login"
    ) as caught:
        await pool.any_connection()
    assert clock.now_ms() == 1_000
    for text in (caplog.text, str(caught.value), repr(options)):
        assert "canary" not in text
    await pool.close()
    await server.close()


async def test_a_silent_broker_is_a_timeout_of_the_stage(
    network: MemoryBackend, clock: ManualClock
) -> None:
    server = await listening(network, clock, Broker())
    # ApiVersions v0 with seven APIs comes back, 56 bytes, and a little of the handshake's answer.
    network.faults[BROKER] = Faults(to_client=Way(silent_after_bytes=60))
    task = asyncio.create_task(open_connection(BROKER, PLAIN, backend=network, clock=clock))
    await clock.advance(2_000)
    with pytest.raises(RequestTimedOut) as caught:
        await task
    assert caught.value.stage == "authentication"
    assert "stage of authentication" in str(caught.value)
    await server.abort()


async def test_a_login_is_repeated_before_the_session_ends(
    network: MemoryBackend, clock: ManualClock
) -> None:
    broker, tokens = Broker(), []

    async def provider() -> str:
        tokens.append(f"good{len(tokens)}")
        return tokens[-1]

    server = await listening(network, clock, broker, session_lifetime_ms=10_000)
    options = replace(OAUTH, sasl_token_provider=provider)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    for _ in range(12):
        await connection.request(MetadataRequest(topics=[]))
        await clock.advance(3_000)
    assert not connection.is_closed
    assert tokens == ["good0", "good1", "good2", "good3", "good4"]  # every 8.5 of 36 seconds
    await connection.close()
    assert clock.waiting == 0
    await server.close()


async def test_a_session_that_is_not_renewed_ends(
    network: MemoryBackend, clock: ManualClock
) -> None:
    server = await listening(network, clock, Broker(), session_lifetime_ms=10_000)
    connection = await open_connection(BROKER, PLAIN, backend=network, clock=clock)
    assert connection._login_timer is not None
    connection._login_timer.cancel()  # a client that does not know KIP-368
    await clock.advance(10_000)
    await connection.request(MetadataRequest(topics=[]))
    await clock.advance(1)
    with pytest.raises(NetworkError):
        await connection.request(MetadataRequest(topics=[]))
    await server.close()


async def test_a_repeated_login_that_fails_ends_the_connection(
    network: MemoryBackend, clock: ManualClock
) -> None:
    tokens = ["good", "bad"]
    server = await listening(network, clock, Broker(), session_lifetime_ms=10_000)
    options = replace(OAUTH, sasl_token_provider=lambda: tokens.pop(0))
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    await clock.advance(9_000)
    assert connection.is_closed
    assert isinstance(connection.error, AuthenticationError)
    await server.close()


async def test_a_token_provider_that_fails_for_a_moment_ends_no_session(
    network: MemoryBackend, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker has refused nothing."""
    tokens = ["good", NetworkError("in trouble"), AuthenticationError("empty"), "good", "good"]

    def provider() -> str:
        token = tokens.pop(0)
        if isinstance(token, KafkaError):
            raise token
        return str(token)

    server = await listening(network, clock, Broker(), session_lifetime_ms=40_000)
    options = replace(OAUTH, sasl_token_provider=provider)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    for left in (4, 4, 4, 1, 1, 1, 0):  # logins after 34 s, and 34 s after the last trouble
        await clock.advance(11_000)
        await connection.request(MetadataRequest(topics=[]))
        assert len(tokens) == left
    (warned,) = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert "in trouble; the session goes on for 6000 ms" in warned
    await connection.close()
    assert clock.waiting == 0
    await server.close()


async def test_a_token_provider_that_fails_later_ends_the_connection_with_its_session(
    network: MemoryBackend, clock: ManualClock
) -> None:
    tokens = ["good"]
    server = await listening(network, clock, Broker(), session_lifetime_ms=10_000)
    options = replace(OAUTH, sasl_token_provider=lambda: tokens.pop(0))
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    await clock.advance(9_999)
    assert not connection.is_closed
    await clock.advance(1)
    assert connection.is_closed
    assert "sasl_token_provider failed: IndexError" in str(connection.error)
    await server.close()


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: 5, "returned int"),
        (lambda: "not a token!", "RFC 6750"),
    ],
)
async def test_a_token_that_cannot_be_had(
    network: MemoryBackend, clock: ManualClock, provider: Any, words: str
) -> None:
    server = await listening(network, clock, Broker())
    with pytest.raises(AuthenticationError, match=words):
        await open_connection(
            BROKER, replace(OAUTH, sasl_token_provider=provider), backend=network, clock=clock
        )
    assert network.streams == []
    await server.close()


async def test_a_request_in_flight_is_answered_before_the_login_is_repeated(
    network: MemoryBackend, clock: ManualClock
) -> None:
    broker, gate = Broker(), asyncio.Event()

    async def handler(connection: ServerConnection) -> None:
        async for request in connection:
            if request.api_key == 1:
                await gate.wait()
            await connection.respond(request, broker.answer(request))

    server = await listening(network, clock, broker, handler, session_lifetime_ms=10_000)
    connection = await open_connection(BROKER, PLAIN, backend=network, clock=clock)
    slow = connection.submit(FetchRequest(), timeout_ms=60_000)
    await clock.advance(8_600)  # the login is repeated behind the slow request
    held = connection.submit(MetadataRequest(topics=[]), timeout_ms=60_000)
    await settle()
    assert not slow.done()
    gate.set()
    await asyncio.wait_for(asyncio.gather(slow, held), GENEROUS_S)
    assert not connection.is_closed
    await connection.close()
    await server.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sasl_mechanism": None}, "sasl_mechanism=None is none of"),
        ({"sasl_mechanism": "SCRAM-SHA-265"}, 'Did you mean "SCRAM-SHA-256"'),
        ({"sasl_password": None}, "needs sasl_password"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "needs sasl_token_provider"),
        ({"allow_plaintext_password": False}, "allow_plaintext_password=True"),
        ({"security_protocol": "PLAINTEXT"}, "uses no SASL"),
    ],
)
def test_options_that_cannot_be_used(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        replace(PLAIN, **wrong)
    assert "canary" not in str(caught.value)


def test_plain_over_tls_needs_no_yes() -> None:
    assert replace(PLAIN, security_protocol="SASL_SSL", allow_plaintext_password=False).uses_tls


def test_secrets_do_not_show() -> None:
    assert "canary" not in repr(PLAIN)
    assert PLAIN.sasl_password == Secret("canary-password")


async def test_the_rounds_of_a_scram_login_run_beside_the_event_loop(
    network: MemoryBackend, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer chooses how many they are, up to 16,384: milliseconds for each
    connection of a client.
    """
    stored = scram_server()  # made before, or its own rounds would count
    monkeypatch.setitem(globals(), "scram_server", lambda: stored)
    server = await listening(network, clock, Broker())
    threads: list[int] = []
    rounds = hashlib.pbkdf2_hmac

    def recorded(*arguments: Any) -> bytes:
        threads.append(threading.get_ident())
        return rounds(*arguments)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", recorded)
    connection = await open_connection(BROKER, SCRAM, backend=network, clock=clock)
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    await connection.close()
    await server.close()


async def test_the_text_of_a_failed_token_provider_is_not_shown(
    network: MemoryBackend, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It may hold what the provider asked with."""
    caplog.set_level(logging.DEBUG)
    server = await listening(network, clock, Broker())

    def provider() -> str:
        raise ValueError("the token server refused canary-client-secret")

    with pytest.raises(AuthenticationError, match=r"ValueError in provider, line \d+") as caught:
        await open_connection(
            BROKER, replace(OAUTH, sasl_token_provider=provider), backend=network, clock=clock
        )
    assert "canary" not in "".join(traceback.format_exception(caught.value)) + caplog.text
    await server.close()


async def test_an_error_of_parley_in_a_token_provider_is_raised_as_it_is(
    network: MemoryBackend, clock: ManualClock
) -> None:
    server = await listening(network, clock, Broker())

    def provider() -> str:
        raise NetworkError("the token server cannot be reached")

    with pytest.raises(NetworkError, match="the token server cannot be reached"):
        await open_connection(
            BROKER, replace(OAUTH, sasl_token_provider=provider), backend=network, clock=clock
        )
    await server.close()
