"""Brokers that lie about their versions, and addresses behind which a
different one answers each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from parley.client import AsyncClient, NewTopic
from parley.devcluster import AsyncLocalCluster
from parley.errors import ConfigError, NetworkError, UnsupportedVersionError
from parley.messages import MetadataRequest
from parley.net import ConnectOptions, ProbeOutcomes, Server, open_connection, parse_address, serve
from parley.protocol import Close, Decision, Serve, ServeAll
from parley.schema import ApiKey, VersionRange
from parley.versions import Feature, MustNotUse

from .scripted import Scripted


class Lying(ServeAll):
    """Closes on the newest version of Metadata that is advertised."""

    def __init__(self, closes: int) -> None:
        self.closes, self.refused = closes, 0

    def decide(self, api_key: int, api_version: int) -> Decision:
        if (api_key, api_version) != (ApiKey.METADATA, self.closes):
            return Serve()
        self.refused += 1
        return Close("advertised, and not served")


@asynccontextmanager
async def lying_broker(policy: Lying) -> AsyncIterator[Server]:
    script = Scripted(1)
    server = await serve("127.0.0.1", 0, script._handler(1), policy=policy)
    script._servers.append(server)
    try:
        yield server
    finally:
        await server.close()


async def test_a_broker_that_advertises_and_closes_is_named_with_the_api_and_the_remedy() -> None:
    policy = Lying(closes=12)
    async with lying_broker(policy) as server:
        client = AsyncClient(bootstrap_servers=str(server.address), default_api_timeout_ms=5_000)
        with pytest.raises(NetworkError) as caught:
            await client.start()
        await client.close()
    text = str(caught.value)
    assert str(server.address) in text
    assert "Metadata was not answered" in text
    assert "must_not_use_versions" in text
    assert 1 <= policy.refused <= 3, "a lie is not asked for again and again"


async def test_the_remedy_helps_the_version_is_left_out_and_the_next_one_used() -> None:
    policy = Lying(closes=12)
    async with lying_broker(policy) as server:
        named = {"bootstrap_servers": str(server.address), "must_not_use_versions": "Metadata:12"}
        async with AsyncClient(**named) as client:
            assert (await client.metadata(["t"])).topics["t"].partitions
            assert client.versions_in_use()[1][ApiKey.METADATA] == 11
    assert policy.refused == 0


async def test_versions_left_out_are_never_chosen_on_any_release() -> None:
    """KIP-35, point 6: what must not be used is known to the client, or asked
    to it by configuration.
    """
    async with AsyncLocalCluster(1, "4.3") as cluster:
        named = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "must_not_use_versions": "Metadata:11-13, 60:0-2",
        }
        async with AsyncClient(**named) as client:
            await client.create_topics([NewTopic("events")])
            assert "events" in (await client.metadata()).topics
            assert client.versions_in_use()[1][ApiKey.METADATA] == 10
            assert not await client.supports(Feature.DESCRIBE_CLUSTER)


async def test_a_version_in_the_middle_is_left_out_too() -> None:
    """KIP-35's example: versions 0 to 2 are there, 1 has a bug; who may go up to 1 only gets 0."""
    rule = MustNotUse(ApiKey.METADATA, VersionRange(1, 1), "has a bug")
    async with AsyncLocalCluster(1, "0.10.2") as cluster:
        options = ConnectOptions(must_not_use=(rule,))
        connection = await open_connection(cluster.bootstrap_servers, options)
        assert connection.versions.choose(ApiKey.METADATA) == 2
        assert connection.versions.choose(ApiKey.METADATA, VersionRange(0, 1)) == 0
        with pytest.raises(UnsupportedVersionError, match="nothing was sent"):
            connection.versions.choose(ApiKey.METADATA, VersionRange(1, 1))
        await connection.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Produce", "API:VERSIONS is expected"),
        ("Produce:x", "API:VERSIONS is expected"),
        ("Prodce:1", 'there is no API "Prodce". Did you mean "Produce"'),
        ("999:1", 'there is no API "999"'),
    ],
)
def test_rules_that_are_none_are_refused_at_the_start(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        AsyncClient(must_not_use_versions=text)


@pytest.mark.parametrize("hint", ["9.9", "latest"])
def test_a_release_that_is_none_is_refused_at_the_start(hint: str) -> None:
    with pytest.raises(ConfigError, match=r'Did you mean "4\.3\.0"|is not a release of Kafka'):
        AsyncClient(broker_version_hint=hint)


@asynccontextmanager
async def balancer(addresses: Sequence[str]) -> AsyncIterator[str]:
    """An address behind which each connection ends at the next of several brokers."""
    turn = 0

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal turn
        place = parse_address(addresses[turn % len(addresses)])
        turn += 1
        broker_reader, broker_writer = await asyncio.open_connection(place.host, place.port)
        await asyncio.gather(pump(reader, broker_writer), pump(broker_reader, writer))

    server = await asyncio.start_server(passed_on, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("releases", [("2.4", "4.3"), ("0.10.0", "4.3"), ("0.9", "0.10.2")])
async def test_behind_a_load_balancer_each_connection_speaks_as_its_own_broker(
    releases: tuple[str, str],
) -> None:
    async with (
        AsyncLocalCluster(2, releases={1: releases[0], 2: releases[1]}) as cluster,
        balancer([str(broker.address) for broker in cluster.brokers]) as address,
    ):
        probe_outcomes, seen = ProbeOutcomes(), []
        for _ in range(4):
            connection = await open_connection(
                address, ConnectOptions(probe_old_brokers=True), probe_outcomes=probe_outcomes
            )
            reply = await connection.request(MetadataRequest(topics=[]))
            assert len(reply.message.brokers) == 2
            seen.append(reply.version)
            await connection.close()
    # That 0.9 answers there is believed for a while; the newer broker understands its versions too.
    expected = {
        ("2.4", "4.3"): [9, 13, 9, 13],
        ("0.10.0", "4.3"): [1, 13, 1, 13],
        ("0.9", "0.10.2"): [0, 0, 0, 0],
    }
    assert seen == expected[releases]
