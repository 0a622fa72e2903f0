"""Many transactional ids at once: fenced and ended side by side."""

from __future__ import annotations

import asyncio

import pytest

from parley.client import AsyncClient, PreparedTransaction
from parley.devcluster import AsyncLocalCluster, LocalCluster
from parley.errors import (
    BrokerError,
    ConfigError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionForgottenError,
    UnsupportedVersionError,
)

from ..support import eventually_async
from .transaction_account import PARTITIONS, PATIENT, TOPIC, account, connect, write

HOUR_MS = 3_600_000
NAMES = [f"id-{number}" for number in range(40)]


def of_nobody(name: str) -> PreparedTransaction:
    return PreparedTransaction(name, 12_345, 0)


@pytest.mark.parametrize("api", ["InitProducerId", "EndTxn"])
async def test_a_coordinator_is_asked_about_all_before_it_answers_one(api: str) -> None:
    async with (
        AsyncLocalCluster(brokers=1, release="3.9") as cluster,
        AsyncClient(bootstrap_servers=cluster.bootstrap_servers, **PATIENT) as client,
    ):
        pool = (await client._started()).pool
        cluster.faults.delay(api, HOUR_MS, times=1)
        if api == "InitProducerId":
            task = asyncio.create_task(client.transactions.fence(NAMES))
        else:
            nobodys = map(of_nobody, NAMES)
            task = asyncio.create_task(client.transactions.end_many(nobodys, committed=True))
        await eventually_async(
            lambda: len(NAMES) in [connection.in_flight for connection in pool.connections],
            "all requests wait on one connection",
        )
        assert len(cluster.requests("FindCoordinator")) == 1
        await cluster.advance(HOUR_MS)
        assert len(await task) == len(NAMES)


@pytest.mark.parametrize("release", ["0.11", "2.4", "4.3"])
def test_each_of_many_has_its_own_outcome(release: str) -> None:
    with LocalCluster(brokers=3, release=release) as cluster, connect(cluster) as client:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        prepared = []
        for number in range(4):
            producer = client.transactions.producer(f"tx-{number}", max_generation=1).start()
            producer.begin_transaction()
            write(producer, number)
            prepared.append(producer.prepare_transaction())
        client.transactions.fence(["tx-1"])
        client.transactions.end(prepared[2], committed=False)
        empty = PreparedTransaction("empty", -1, -1, is_empty=True)
        outcomes = client.transactions.end_many(
            [*prepared, of_nobody("never"), empty, prepared[0]], committed=True
        )
        assert [type(outcome) for outcome in outcomes] == [
            type(None),
            ProducerFencedError,
            TransactionAbortedError,
            type(None),
            TransactionForgottenError,
            type(None),
            type(None),
        ]
        assert outcomes[1] is not None
        assert outcomes[1].transactional_id == "tx-1"
        assert sorted(account(cluster)) == [0, 3]
        assert client.transactions.end_many([], committed=True) == []


def test_one_that_cannot_be_asked_keeps_no_other_from_its_end() -> None:
    with LocalCluster(brokers=1, release="3.9") as cluster, connect(cluster) as client:
        cluster.faults.fail("EndTxn", 53, times=1)
        with pytest.raises(BrokerError) as refused:
            client.transactions.end_many(map(of_nobody, NAMES), committed=True)
        assert refused.value.code == 53
        assert len(cluster.requests("EndTxn")) == len(NAMES)
        cluster.faults.fail("InitProducerId", 53, times=1)
        with pytest.raises(BrokerError) as refused:
            client.transactions.fence(NAMES)
        assert refused.value.code == 53
        assert set(NAMES[1:]) <= set(cluster.transactions())


def test_what_is_no_prepared_transaction_is_refused() -> None:
    with LocalCluster(brokers=1, release="3.9") as cluster, connect(cluster) as client:
        good = of_nobody("id")
        for wrong in (good, "id", [good, "id"], [("id", 1, 0)]):
            with pytest.raises(ConfigError, match="prepared"):
                # no types that it takes, which is the point
                client.transactions.end_many(wrong, committed=True)  # type: ignore[arg-type]
        assert not cluster.requests("EndTxn")


@pytest.mark.parametrize("count", [1, 2])
def test_brokers_before_0_11_are_refused_before_a_byte(count: int) -> None:
    with (
        LocalCluster(brokers=1, release="0.10.2") as cluster,
        connect(cluster) as client,
        pytest.raises(UnsupportedVersionError, match=r"Kafka 0\.11\.0 is the first release"),
    ):
        client.transactions.end_many(map(of_nobody, NAMES[:count]), committed=True)
