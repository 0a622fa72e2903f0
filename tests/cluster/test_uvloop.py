"""Applications that run on uvloop, as web servers do: the client and the
cluster in a box work there too.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest
import uvloop

from parley import LATEST, AsyncClient, NewTopic, TopicPartition
from parley.client.options.client_options import ClientOptions, FetchOptions
from parley.devcluster import AsyncLocalCluster, Security

from ..support import GENEROUS_S

TP = TopicPartition("events", 0)
LARGE = [bytes([at]) * 900_000 for at in range(8)]
"""More than a socket takes at once, so that requests and answers go and come in pieces."""


def in_uvloop(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        async with asyncio.timeout(GENEROUS_S):
            await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(limited())


def rows(*values: bytes) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.binary())})


async def read(client: AsyncClient, end: int, options: FetchOptions) -> list[bytes]:
    found: list[bytes] = []
    async for batch in client.fetch(TP, 0, end, options):
        found += batch.column("value").to_pylist()
    return found


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_an_application_on_uvloop_writes_reads_and_follows_the_leader(protocol: str) -> None:
    async def application() -> None:
        security = Security(protocol) if protocol != "PLAINTEXT" else None
        async with (
            AsyncLocalCluster(3, "3.9", releases={1: "2.4"}, security=security) as cluster,
            AsyncClient(ClientOptions.from_properties(cluster.client_properties())) as client,
        ):
            await client.create_topics([NewTopic(TP.topic, num_partitions=1, replication_factor=3)])
            await client.produce(TP.topic, rows(*LARGE))
            leader, _ = cluster.leaders(TP.topic)[0]
            follower = next(broker.id for broker in cluster.brokers if broker.id != leader)
            cluster.move_leader(TP.topic, TP.partition, follower)
            await client.produce(TP.topic, rows(b"moved"))
            await cluster.kill_broker(follower)
            await client.produce(TP.topic, rows(b"killed"))
            found = await read(
                client, len(LARGE) + 2, FetchOptions(max_partition_fetch_bytes=2**23)
            )
            assert found == [*LARGE, b"moved", b"killed"]

    in_uvloop(application)


def test_a_transaction_on_uvloop_is_seen_when_it_is_committed() -> None:
    async def application() -> None:
        async with (
            AsyncLocalCluster(1, "4.3") as cluster,
            AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client,
            client.transactions.producer("on-uvloop") as producer,
        ):
            await client.create_topics([NewTopic(TP.topic, num_partitions=1)])
            await producer.begin_transaction()
            await producer.produce(TP.topic, rows(b"taken back"))
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.produce(TP.topic, rows(b"kept"))
            end = (await client.list_offsets({TP: LATEST}))[TP].offset
            assert await read(client, end, FetchOptions(isolation_level="read_committed")) == [
                b"kept"
            ]

    in_uvloop(application)


BLOCKING = """
import asyncio, uvloop
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
import pyarrow, parley
from parley.client.loop_thread import shared_loop
from parley.devcluster import LocalCluster, Security

with LocalCluster(2, "3.9", security=Security("SSL")) as cluster:
    cluster.create_topic("events")
    with parley.Client(parley.ClientOptions.from_properties(cluster.client_properties())) as client:
        client.produce("events", pyarrow.table({"value": ["one", "two"]}))
        partition = parley.TopicPartition("events", 0)
        tables = list(client.fetch(partition, parley.EARLIEST, parley.LATEST))
    assert isinstance(shared_loop().loop, uvloop.Loop)
    print(pyarrow.Table.from_batches(tables)["value"].cast("string").to_pylist())
"""


def test_the_blocking_faces_where_uvloop_makes_every_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKING],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("['one', 'two']\n", 0), done.stderr
