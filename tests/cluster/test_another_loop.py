"""What was started in one event loop, used and closed in a second one."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator

import pytest

from parley import AsyncClient, AsyncConsumer, AsyncProducer, AsyncShareConsumer, TopicPartition
from parley.client.produce.chunk import AsyncAcknowledgement
from parley.devcluster import LocalCluster
from parley.errors import LocalProtocolError

# sockets of a loop that was closed before them are closed when they are collected
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
TOPIC = "loops"
TP = TopicPartition(TOPIC, 0)


@pytest.fixture
def servers() -> Iterator[str]:
    with LocalCluster(1) as cluster:
        cluster.create_topic(TOPIC)
        yield cluster.bootstrap_servers
    gc.collect()


def refused(call: Callable[[], Awaitable[object]], what: str) -> None:
    """Check that a call is refused in a loop of its own, and soon."""

    async def work() -> None:
        await asyncio.wait_for(call(), 20)

    with pytest.raises(LocalProtocolError, match=f"this {what} belongs to another event loop"):
        asyncio.run(work())


def test_a_producer(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    producer = AsyncProducer(bootstrap_servers=servers, linger_ms=60_000)

    async def begin() -> AsyncAcknowledgement:
        await producer.start()
        return await producer.send(TOPIC, b"left behind")

    acknowledgement = asyncio.run(begin())

    async def awaited() -> None:
        await acknowledgement

    refused(awaited, "producer")
    refused(producer.flush, "producer")
    refused(lambda: producer.send(TOPIC, b"x" * 200_000), "producer")
    refused(lambda: producer.send_and_wait(TOPIC, b"other"), "producer")
    with caplog.at_level(logging.WARNING, "parley.client"):
        asyncio.run(producer.close())
    assert "were not acknowledged when their event loop was closed" in caplog.text
    asyncio.run(producer.close())


def test_consumers_and_a_client(servers: str) -> None:
    consumer = AsyncConsumer(bootstrap_servers=servers)
    share = AsyncShareConsumer(bootstrap_servers=servers, group_id="shared")
    client = AsyncClient(bootstrap_servers=servers)

    async def begin() -> None:
        await consumer.start()
        consumer.assign([TP])
        await consumer.getone(timeout_ms=1)
        await share.start()
        share.subscribe([TOPIC])
        await share.getmany()
        await client.metadata()

    asyncio.run(begin())
    refused(consumer.getone, "consumer")
    refused(lambda: consumer.end_offsets([TP]), "client")
    refused(share.getone, "consumer")
    refused(client.list_groups, "client")
    for each in (consumer, share, client):
        asyncio.run(each.close())
        asyncio.run(each.close())


def test_the_other_loop_is_open(servers: str) -> None:
    other = asyncio.new_event_loop()
    client = AsyncClient(bootstrap_servers=servers)
    producer = AsyncProducer(bootstrap_servers=servers)
    other.run_until_complete(client.start())
    other.run_until_complete(producer.start())
    refused(client.close, "client")
    refused(producer.close, "producer")
    other.run_until_complete(producer.send_and_wait(TOPIC, b"taken"))
    other.run_until_complete(producer.close())
    other.run_until_complete(client.close())
    other.close()
