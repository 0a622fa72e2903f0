"""Negotiation rules that need a whole client or a whole cluster: V9, V11, V15,
V16, each by its number.
"""

from __future__ import annotations

from typing import Any

import pytest

from parley.client import AsyncClient
from parley.devcluster import LocalCluster, Security
from parley.errors import KafkaError, UnsupportedVersionError
from parley.messages import ApiVersionsRequest, MetadataRequest, decode_response, encode_request
from parley.net import (
    Address,
    ConnectOptions,
    ManualClock,
    MemoryBackend,
    ServerConnection,
    open_connection,
    serve,
)
from parley.protocol import ServeAll
from parley.schema import ApiKey
from parley.versions import BrokerVersions, Feature, release
from parley.versions.view import finalized

from ..support import GENEROUS_S

OWN = "own-topic"


@pytest.mark.parametrize("name", ["0.9", "0.10.0", "0.10.2"])
async def test_v09_a_topic_must_not_be_created_by_asking_where_that_cannot_be_said(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.client.cluster.wanted_topics.UNKNOWN_TOPIC_GRACE_MS", 200)
    with LocalCluster(1, release=name) as cluster:
        # the start does not need it
        async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            wanted = [MetadataRequest.MetadataRequestTopic(name=OWN)]
            message = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            with pytest.raises(UnsupportedVersionError) as refused:
                await client.request(None, message, feature=Feature.NO_AUTO_TOPIC_CREATION)
            assert (refused.value.local, refused.value.first_release) == (True, "0.11.0")
            with pytest.raises(KafkaError, match="allow_auto_topic_creation"):
                # without a word about the feature: never dropped in silence
                await client.request(None, message)
            with pytest.raises(KafkaError, match="no broker knows this topic"):
                await client.metadata([OWN])
            assert OWN not in (await client.metadata()).topics


def versions(epoch: int, level: int) -> BrokerVersions:
    ranges = release("4.0").ranges
    levels = {"transaction.version": level}
    return BrokerVersions(ranges, finalized_features=levels, finalized_features_epoch=epoch)


def test_v11_only_a_newer_epoch_changes_what_is_finalized() -> None:
    behind, ahead, silent = versions(7, 0), versions(9, 2), versions(-1, 2)
    assert finalized([behind, ahead]) == finalized([ahead, behind]) == {"transaction.version": 2}
    # newer, not higher
    assert finalized([versions(7, 2), versions(9, 0)]) == {"transaction.version": 0}
    assert finalized([silent, behind]) == {"transaction.version": 0}
    assert finalized([silent]) == finalized([]) == {}


def test_v11_finalized_level_and_versions_decide_together() -> None:
    behind, old = versions(7, 0), BrokerVersions.from_release("3.9")
    assert behind.missing(Feature.TRANSACTIONS_V2) == "transaction.version"
    assert behind.missing(Feature.TRANSACTIONS_V2, {"transaction.version": 2}) is None
    assert old.missing(Feature.TRANSACTIONS_V2, {"transaction.version": 2}) is ApiKey.PRODUCE


def api_versions_before_the_login(name: str) -> Any:
    """Return what a broker with logins answers to the first request of a connection."""
    import socket

    security = Security("SASL_PLAINTEXT", users={"alice": "wonder"})
    with LocalCluster(1, release=name, security=security) as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        frame = b"".join(
            bytes(part) for part in encode_request(ApiVersionsRequest(), 0, 5, "early")
        )
        with socket.create_connection((host, int(port)), timeout=GENEROUS_S) as connected:
            connected.sendall(len(frame).to_bytes(4, "big") + frame)
            with connected.makefile("rb") as stream:
                answer = stream.read(int.from_bytes(stream.read(4), "big"))
    correlation_id, message = decode_response(ApiKey.API_VERSIONS, 0, memoryview(answer))
    assert (correlation_id, message.error_code) == (5, 0)
    return {entry.api_key for entry in message.api_keys}


@pytest.mark.parametrize(
    ("name", "has", "has_not"),
    [
        ("2.4", {ApiKey.LEADER_AND_ISR, ApiKey.CONTROLLED_SHUTDOWN}, {ApiKey.DESCRIBE_QUORUM}),
        ("3.9", {ApiKey.DESCRIBE_QUORUM}, {ApiKey.LEADER_AND_ISR, ApiKey.CONTROLLED_SHUTDOWN}),
    ],
)
def test_v15_the_whole_list_is_reported_before_the_login_and_depends_on_the_kind_of_cluster(
    name: str, has: set[ApiKey], has_not: set[ApiKey]
) -> None:
    keys = api_versions_before_the_login(name)
    assert keys == set(release(name).ranges)
    assert has <= keys
    assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= keys
    controllers_only = {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
    }
    # no receiver is configured
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert not keys & (has_not | controllers_only | telemetry)


async def test_v16_a_pinned_0_9_has_no_login_that_parley_knows_and_no_password_is_sent() -> None:
    clock = ManualClock(0)
    network = MemoryBackend(clock)
    received: list[object] = []

    async def take(connection: ServerConnection) -> None:
        async for request in connection:
            received.append(request)

    server = await serve("broker", 9092, take, policy=ServeAll(), backend=network)
    options = ConnectOptions(
        bootstrap_servers="broker:9092", release="0.9.0.1", security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN", sasl_username="alice", sasl_password="wonder",
        allow_plaintext_password=True,
    )  # fmt: skip
    with pytest.raises(UnsupportedVersionError) as refused:
        await open_connection(Address("broker", 9092), options, backend=network, clock=clock)
    assert refused.value.api == "SaslHandshake"
    assert (refused.value.local, refused.value.broker_range) == (True, None)
    await clock.advance(10)  # the end of a stream takes its way
    assert network.streams
    assert all(stream.is_over for stream in network.streams)
    assert received == []
    await server.abort()
