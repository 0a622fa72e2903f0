"""Hints that are wrong (KIP-951): stale, contradictory, or leading nowhere;
Metadata has the last word.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley.client import AsyncClient, PossibleDataLoss
from parley.errors import BrokerError, KafkaError, RequestTimedOut
from parley.schema import ApiKey

from ..support import eventually_async
from .scripted import Scripted, then
from .scripted_clients import (
    PATIENT,
    PLAIN_AND_SHORT,
    QUICK,
    SHORT,
    TP,
    both,
    client_of,
    good,
    refusal,
    work,
)


@both
async def test_k13_brokers_naming_each_other_with_equal_epochs_are_left_to_metadata(
    api: ApiKey,
) -> None:
    async with Scripted() as cluster, client_of(cluster, **SHORT) as client:
        for me, other in ((1, 2), (2, 1)):
            cluster.answers[me, api] = lambda _, other=other: refusal(
                cluster, api, other, 6, [(1, 1), (2, 2)]
            )
        with pytest.raises(KafkaError) as caught:
            await work(client, api, PLAIN_AND_SHORT)
        assert isinstance(caught.value, BrokerError | RequestTimedOut)
        assert "NOT_LEADER_OR_FOLLOWER" in str(caught.value)
        assert cluster.count(api) < 200  # 800 ms of backoffs between 4 and 24 ms
        assert cluster.count(ApiKey.METADATA) < 200


@both
async def test_k13_brokers_naming_each_other_with_ever_higher_epochs_are_slowed_down(
    api: ApiKey,
) -> None:
    async with Scripted() as cluster, client_of(cluster, **SHORT) as client:
        epoch = iter(range(6, 2**31 - 1))
        for me, other in ((1, 2), (2, 1)):
            cluster.answers[me, api] = lambda _, o=other: refusal(
                cluster, api, o, next(epoch), [(1, 1), (2, 2)]
            )
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            await work(client, api, PLAIN_AND_SHORT)
        assert cluster.count(api) < 200
        assert cluster.count(ApiKey.METADATA) < 200


@both
@pytest.mark.parametrize(
    ("leader", "epoch", "nodes"),
    [
        (9, 6, []),  # a node that nobody knows
        (9, 6, [(2, 2)]),  # endpoints, but not the leader's
        # the same, though the leader is known: id and endpoint are only good together
        (2, 6, [(1, 1)]),
        (2, -1, [(2, 2)]),  # a leader without an epoch
        (2, 5, [(2, 2)]),  # the epoch that is known
        (2, -(2**31), [(2, 2)]),
        (-1, -1, [(1, 1), (2, 2)]),  # endpoints without a leader
        (-1, 2**31 - 1, []),
    ],
)
async def test_k07_hints_that_say_nothing_or_contradict_themselves_are_ignored(
    api: ApiKey, leader: int, epoch: int, nodes: list[tuple[int, int]]
) -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        cluster.answers[1, api] = then(
            [lambda _: refusal(cluster, api, leader, epoch, nodes)], lambda _: good(cluster, api)
        )
        await work(client, api)
        assert (cluster.count(api, 1), cluster.count(api, 2)) == (2, 0)


@both
@pytest.mark.parametrize("metadata", ["after", "before"])
async def test_k07_a_hint_with_the_highest_epoch_of_all_is_forgotten_when_it_fails(
    api: ApiKey, metadata: str
) -> None:
    """Epoch 2^31-1 would be above every true one for good; nothing is lost, so nothing is reported.

    Metadata is asked for with the hint; its answer comes after the hint has failed, or before, and
    is outdated then.
    """
    heard: list[Any] = []
    refused = asyncio.Event()
    async with Scripted() as cluster:
        client = AsyncClient(
            bootstrap_servers=cluster.bootstrap_servers,
            on_event=heard.append,
            **{**QUICK, **PATIENT},
        )
        async with client:
            await client.metadata(["t"])
            refreshes = client._cluster.schedule.refreshes

            async def judge_metadata_first(_: Any) -> Any:
                if metadata == "before":
                    await eventually_async(lambda: client._cluster.schedule.refreshes > refreshes)
                refused.set()
                return refusal(cluster, api, -1, -1, [])

            async def answer_when_refused(_: Any) -> Any:
                if metadata == "after":
                    await refused.wait()
                return cluster.metadata()

            liar = [lambda _: refusal(cluster, api, 2, 2**31 - 1, [(2, 2)])]
            cluster.answers[1, api] = then(liar, lambda _: good(cluster, api))
            cluster.answers[2, api] = judge_metadata_first
            for broker in (1, 2):
                cluster.answers[broker, ApiKey.METADATA] = answer_when_refused
            await work(client, api)
            assert (cluster.count(api, 1), cluster.count(api, 2)) == (2, 1)
            assert client._cluster.leader(TP).epoch == 5
            assert heard == []


@both
async def test_k09_the_endpoint_of_a_hint_overrides_the_cached_one(api: ApiKey) -> None:
    """Broker 2 came back at another address: the address in the hint is used, the
    one from Metadata never.
    """
    async with Scripted(3) as cluster, client_of(cluster, **PATIENT) as client:
        nodes = cluster.nodes()
        dead = (2, nodes[1][1], 1)
        cluster.nodes = lambda: [nodes[0], dead]
        await client.metadata(["t"])
        cluster.nodes = lambda: nodes
        cluster.answers[1, api] = lambda _: refusal(cluster, api, 2, 6, [(2, 3)])
        cluster.answers[3, api] = lambda _: good(cluster, api)
        await work(client, api)
        assert (cluster.count(api, 1), cluster.count(api, 3)) == (1, 1)


@both
async def test_k02_behind_a_proxy_a_hint_with_the_wrong_address_ends_at_metadata(
    api: ApiKey,
) -> None:
    """The id is right and the address leads back to the broker that refused: one
    refusal more, then Metadata.
    """
    async with Scripted() as cluster, client_of(cluster) as client:
        await client.metadata(["t"])
        cluster.leader, cluster.epoch = 2, 6
        cluster.answers[1, api] = lambda _: refusal(cluster, api, 2, 6, [(2, 1)])
        cluster.answers[2, api] = lambda _: good(cluster, api)
        await work(client, api)
        assert cluster.count(api, 1) <= 3
        assert client._cluster.leader(TP).node.port == cluster.nodes()[1][2]


@both
async def test_k02_behind_a_proxy_a_hint_with_the_wrong_leader_ends_at_metadata(
    api: ApiKey,
) -> None:
    """The hint names a broker that never leads, in an epoch that is never reached:
    Metadata has the last word.
    """
    heard: list[Any] = []
    async with Scripted(3) as cluster:
        client = AsyncClient(
            bootstrap_servers=cluster.bootstrap_servers, on_event=heard.append, **QUICK
        )
        async with client:
            await client.metadata(["t"])
            cluster.leader, cluster.epoch = 3, 6
            cluster.answers[1, api] = lambda _: refusal(cluster, api, 2, 7, [(2, 2)])
            cluster.answers[2, api] = lambda _: refusal(cluster, api, 2, 7, [(2, 2)])
            cluster.answers[3, api] = lambda _: good(cluster, api)
            await work(client, api)
            assert (cluster.count(api, 1), cluster.count(api, 3)) == (1, 1)
            assert not [event for event in heard if isinstance(event, PossibleDataLoss)]


@both
async def test_k02_a_hinted_leader_that_cannot_be_reached_ends_at_metadata(api: ApiKey) -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        nodes = cluster.nodes()
        cluster.nodes = lambda: [nodes[0], (9, nodes[1][1], 1)]
        first = [lambda _: refusal(cluster, api, 9, 6, [(9, 9)])]
        cluster.nodes = lambda: [*nodes, (9, nodes[1][1], 1)]
        cluster.answers[1, api] = then(first, lambda _: good(cluster, api))
        await work(client, api)
        assert cluster.count(api, 1) == 2
        assert client._cluster.leader(TP).node.id == 1
