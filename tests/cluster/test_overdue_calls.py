"""Calls whose time ends while a broker stays silent, or while a topic is missing:
the error says where and why.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pyarrow as pa
import pytest

from parley.client import AsyncClient, Client, ProduceOptions
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import BrokerError, BrokersUnreachable, KafkaError, NetworkError, RequestTimedOut
from parley.net import ServerConnection, serve
from parley.protocol import ServeAll
from parley.schema import ApiKey

from .scripted import Scripted

ROWS = pa.table({"value": ["v"]})
LOGIN = {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)}
SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "ann",
    "sasl_plain_password": "hunter2",
}


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """The address of a peer that accepts connections and never says a word."""
    over = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield f"{host}:{port}"
    over.set()
    server.close()
    await server.wait_closed()


async def failure(**options: Any) -> KafkaError:
    client = AsyncClient(**options)
    try:
        await client.metadata()
    except KafkaError as error:
        return error
    finally:
        await client.close()
    raise AssertionError("the call succeeded")


@pytest.mark.parametrize(
    ("options", "stage", "words"),
    [
        ({}, "versions", "ApiVersions was not answered: the broker is overloaded"),
        ({"security_protocol": "SSL"}, "tls", "the TLS handshake was not answered"),
    ],
)
async def test_a_silent_peer_is_named_with_its_stage(
    silent: str, options: Any, stage: str, words: str
) -> None:
    error = await failure(bootstrap_servers=silent, default_api_timeout_ms=1_500, **options)
    assert isinstance(error, RequestTimedOut)
    assert (error.address, error.stage) == (silent, stage)
    assert f"{silent}: connected, and {words}" in str(error)


async def test_the_option_that_ends_a_connection_is_named_as_users_know_it(silent: str) -> None:
    error = await failure(bootstrap_servers=silent, socket_connection_setup_timeout_ms=200)
    assert isinstance(error, BrokersUnreachable)
    assert "socket_connection_setup_timeout_ms=200" in str(error)
    assert " connect_timeout_ms" not in str(error)


async def test_a_silent_login_is_named() -> None:
    async def report_versions_only(connection: ServerConnection) -> None:
        async for request in connection:
            if request.api_key == ApiKey.API_VERSIONS:
                await connection.respond(request, Scripted(ranges=LOGIN).versions())

    server = await serve("127.0.0.1", 0, report_versions_only, policy=ServeAll())
    error = await failure(
        bootstrap_servers=str(server.address), default_api_timeout_ms=1_500, **SASL
    )
    await server.close()
    assert isinstance(error, RequestTimedOut)
    assert (error.address, error.stage) == (str(server.address), "authentication")
    assert "the login was not answered" in str(error)
    assert "hunter2" not in str(error)


async def test_a_broker_that_reports_no_metadata_is_named() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.faults.drop("Metadata", times=-1)
        error = await failure(
            bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=300
        )
        assert isinstance(error, NetworkError)
        assert (error.address, error.stage) == (cluster.bootstrap_servers, "request")
        assert f"{cluster.bootstrap_servers} has not answered" in str(error)


@pytest.fixture(scope="module", params=["0.9.0.1", "0.11.0.3", "4.3"])
def strict(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A cluster that creates no topic by itself."""
    settings = ClusterSettings(auto_create_topics=False)
    with LocalCluster(brokers=2, release=request.param, settings=settings) as running:
        yield running


@pytest.mark.parametrize("max_block_ms", [60_000, 2_000])
def test_rows_for_a_missing_topic_say_that_it_is_missing(
    strict: LocalCluster, max_block_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 2 s the call's time is over before the time that a topic has to appear in,
    which is shorter here else.
    """
    if max_block_ms > 2_000:
        monkeypatch.setattr(
            "parley.client.cluster.wanted_topics.UNKNOWN_TOPIC_GRACE_MS", 80
        )  # ten times this where it may be created
    options = ProduceOptions(max_block_ms=max_block_ms)
    with Client(bootstrap_servers=strict.bootstrap_servers) as client:
        with pytest.raises(BrokerError) as refused:
            client.produce("missing", ROWS, options=options)
        assert (refused.value.name, refused.value.topic) == (
            "UNKNOWN_TOPIC_OR_PARTITION",
            "missing",
        )
        assert "no broker knows this topic (asked: 127.0.0.1:" in str(refused.value)
        assert "auto.create.topics.enable is false" in str(refused.value)
        assert not refused.value.retriable
        with pytest.raises(
            BrokerError, match=r"no broker knows this topic \(asked: [^;]*\); create it"
        ):
            client.produce("missing", ROWS, options=ProduceOptions(allow_auto_create_topics=False))
        strict.create_topic("missing")
        assert client.produce("missing", ROWS).records == 1
        strict.delete_topic("missing")
