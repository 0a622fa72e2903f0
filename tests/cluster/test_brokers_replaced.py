"""Brokers that come, go and share addresses (L15), and half answers about them, at the client."""

from __future__ import annotations

from parley.client import AsyncClient
from parley.messages import MetadataResponse
from parley.schema import ApiKey

from .scripted import Scripted, then
from .scripted_clients import (
    QUICK,
    TP,
    both,
    client_of,
    good,
    refusal,
    work,
    write,
)


@both
async def test_m02_half_a_metadata_answer_stops_nobody(api: ApiKey) -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        whole, half = (
            (lambda _: cluster.metadata(partitions=4)),
            (lambda _: cluster.metadata(partitions=2)),
        )
        for broker in (1, 2):
            cluster.answers[broker, ApiKey.METADATA] = then([whole, half, half], whole)
        await client.metadata(["t"])
        cluster.answers[1, api] = then(
            [lambda _: refusal(cluster, api, -1, -1, [])], lambda _: good(cluster, api)
        )
        await work(client, api)
        assert set(client._cluster.view.topics["t"].partitions) == set(range(4))


@both
async def test_l15_several_broker_ids_at_one_address(api: ApiKey) -> None:
    """Behind a port forward, or a broker that came back under a new id before
    the old one was forgotten.
    """
    async with Scripted(1) as cluster, client_of(cluster) as client:
        (one,) = cluster.nodes()
        cluster.nodes = lambda: [one, (2, *one[1:]), (3, *one[1:])]
        cluster.leader, cluster.epoch = 2, 5
        await work(client, api)
        cluster.leader, cluster.epoch = 3, 6
        cluster.answers[1, api] = then(
            [lambda _: refusal(cluster, api, 3, 6, [(3, 1)])], lambda _: good(cluster, api)
        )
        await work(client, api)
        assert client._cluster.leader(TP).node.id == 3
        assert len({conn.address for conn in client._cluster.pool.connections}) == 1


@both
async def test_l15_brokers_are_replaced_one_by_one_and_the_first_comes_back(api: ApiKey) -> None:
    async with Scripted(3) as cluster, client_of(cluster) as client:
        nodes = cluster.nodes()
        for epoch, alive in enumerate(([0], [1], [2], [0, 1], [2]), start=10):
            cluster.nodes = lambda alive=alive: [nodes[index] for index in alive]
            cluster.leader, cluster.epoch = alive[0] + 1, epoch
            for broker in (1, 2, 3):
                serve = broker == cluster.leader
                cluster.answers[broker, api] = (
                    (lambda _: good(cluster, api))
                    if serve
                    else (lambda _: refusal(cluster, api, -1, -1, []))
                )
            await work(client, api)
            assert client._cluster.leader(TP) == (client._cluster.view.brokers[alive[0] + 1], epoch)
            assert set(client._cluster.view.brokers) == {index + 1 for index in alive}


async def test_l15_when_every_known_broker_is_gone_the_bootstrap_servers_are_asked_again() -> None:
    """KIP-899: the whole cluster was replaced; the address that the client was
    given leads to the new one.
    """
    async with Scripted(1) as old, Scripted(2) as new:
        servers = f"{new.nodes()[1][1]}:{new.nodes()[1][2]}"
        new_nodes, gone = new.nodes(), (7, "127.0.0.1", 1)
        new.nodes = lambda: [gone]  # at first the bootstrap broker names another one only
        async with AsyncClient(bootstrap_servers=servers, **QUICK) as client:
            assert set(client._cluster.view.brokers) == {7}
            new.nodes, new.leader = (lambda: new_nodes), 2
            assert await write(client) == 1
            assert set(client._cluster.view.brokers) == {1, 2}
        assert old.asked == []


async def test_l15_a_broker_may_send_its_clients_back_to_the_bootstrap_servers() -> None:
    """KIP-1102: error 129 in Metadata v13."""
    async with (
        Scripted(2, ranges={ApiKey.METADATA: (0, 13)}) as cluster,
        client_of(cluster) as client,
    ):
        await client.metadata(["t"])
        again = lambda _: MetadataResponse(error_code=129)  # noqa: E731
        cluster.answers[1, ApiKey.METADATA] = then([again, again], lambda _: cluster.metadata())
        cluster.answers[2, ApiKey.METADATA] = again
        cluster.answers[1, ApiKey.PRODUCE] = then(
            [lambda _: refusal(cluster, ApiKey.PRODUCE, -1, -1, [])], lambda _: cluster.produced()
        )
        assert await write(client) == 1
        assert cluster.count(ApiKey.METADATA, 1) >= 3
