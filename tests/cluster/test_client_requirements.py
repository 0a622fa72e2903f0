"""What a client requires is checked at its start; what a cluster supports follows
its brokers (KIP-35, KIP-97).
"""

from __future__ import annotations

import pickle

import pytest

from parley.client import AsyncClient, Client
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, UnsupportedVersionError
from parley.messages import MetadataRequest
from parley.schema import ApiKey
from parley.versions import Feature, VersionRange


def test_the_broker_and_the_release_that_lack_a_required_feature_are_named() -> None:
    with LocalCluster(2, releases={1: "3.9", 2: "2.4"}) as cluster:
        servers = cluster.bootstrap_servers
        with Client(bootstrap_servers=servers, require=["zstd", Feature.CLUSTER_ID]) as client:
            assert client.supports("zstd")
        with pytest.raises(UnsupportedVersionError) as refused:
            Client(bootstrap_servers=servers, require=["zstd", "topic-ids"]).start()
        error = refused.value
        assert (error.local, error.feature, error.first_release, error.api) == (
            True,
            "topic-ids",
            "2.8",
            "Metadata",
        )
        assert (error.client_range, error.broker_range) == ((10, 13), (0, 9))
        assert error.broker == f"2 ({cluster.broker(2).address})"
        assert "looks like Kafka 2.4.1" in str(error)


def test_an_unknown_requirement_is_reported_before_anything_is_connected() -> None:
    with pytest.raises(ConfigError, match='Did you mean "topic-ids"'):
        AsyncClient(bootstrap_servers="127.0.0.1:1", require=["topic-idz"])


def test_requirements_travel_with_a_pickled_client() -> None:
    with LocalCluster(1, release="2.4") as cluster:
        client = Client(bootstrap_servers=cluster.bootstrap_servers, require=["topic-ids"])
        with pytest.raises(UnsupportedVersionError):
            pickle.loads(pickle.dumps(client)).start()


async def test_support_is_that_of_every_broker_or_of_one() -> None:
    with LocalCluster(2, releases={1: "4.3", 2: "2.4"}) as cluster:
        async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            assert not await client.supports(Feature.TOPIC_IDS)
            assert await client.supports(Feature.TOPIC_IDS, 1)
            assert not await client.supports(Feature.TOPIC_IDS, 2)
            assert await client.supports("zstd")


async def test_a_request_can_say_what_it_is_for_and_which_versions_it_may_take() -> None:
    with LocalCluster(1, release="2.4") as cluster:
        async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            with pytest.raises(UnsupportedVersionError) as refused:
                await client.request(1, MetadataRequest(topics=[]), feature=Feature.TOPIC_IDS)
            assert refused.value.feature == "topic-ids"
            await client.request(1, MetadataRequest(topics=[]), allowed=VersionRange(2, 4))
            assert client.versions_in_use()[1][ApiKey.METADATA] == 4
