"""Scenes with brokers that are behind, contradict each other or answer nonsense:
typed, bounded reactions.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley.client import FetchOptions
from parley.errors import (
    BrokerError,
    DataLossError,
    KafkaError,
    NetworkError,
    RemoteProtocolError,
    RequestTimedOut,
)
from parley.net import serve
from parley.protocol import ServeAll
from parley.schema import ApiKey

from .scripted import Scripted, batch, then
from .scripted_clients import (
    PLAIN,
    PLAIN_AND_SHORT,
    ROWS,
    SHORT,
    TP,
    client_of,
    read,
)


async def test_a_follower_is_read_from_where_the_leader_says_so() -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        cluster.answers[1, ApiKey.FETCH] = lambda _: cluster.fetched(None, preferred_read_replica=2)
        options = FetchOptions(fetch_max_wait_ms=1, client_rack="near")
        assert await read(client, options=options) == list(range(10))
        assert (cluster.count(ApiKey.FETCH, 1), cluster.count(ApiKey.FETCH, 2)) == (1, 1)
        assert all(
            message.rack_id == "near" for _, key, message in cluster.asked if key is ApiKey.FETCH
        )


async def test_p15_out_of_range_at_a_follower_asks_the_leader() -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        follower = then(
            [lambda _: cluster.fetched(None, preferred_read_replica=2)],
            lambda r: cluster.fetched(cluster.log),
        )
        cluster.answers[1, ApiKey.FETCH] = follower
        cluster.answers[2, ApiKey.FETCH] = lambda _: cluster.fetched(None, error_code=1)
        assert await read(
            client, options=FetchOptions(fetch_max_wait_ms=1, client_rack="near")
        ) == list(range(10))
        assert cluster.count(ApiKey.LIST_OFFSETS) == 0


async def test_p14_unknown_leader_epoch_is_retried_without_a_refresh() -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        await client.metadata(["t"])
        before = cluster.count(ApiKey.METADATA)
        behind = [lambda _: cluster.fetched(None, error_code=75)] * 3
        cluster.answers[1, ApiKey.FETCH] = then(behind, lambda _: cluster.fetched(cluster.log))
        assert await read(client) == list(range(10))
        assert cluster.count(ApiKey.METADATA) == before


@pytest.mark.parametrize("code", [6, 74])
async def test_k01_without_leader_information_metadata_is_asked(code: int) -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        await client.metadata(["t"])

        def moved(_: Any) -> Any:
            cluster.leader, cluster.epoch = 2, 6
            return cluster.fetched(None, error_code=code)

        cluster.answers[1, ApiKey.FETCH] = moved
        assert await read(client) == list(range(10))
        assert cluster.count(ApiKey.FETCH, 2) == 1


@pytest.mark.parametrize("code", [6, 74])
async def test_k02_a_hint_moves_the_reader_though_metadata_is_behind(code: int) -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        cluster.answers[1, ApiKey.FETCH] = lambda _: cluster.fetched(
            None,
            error_code=code,
            current_leader=cluster.hint(2, 6),
            node_endpoints=cluster.endpoints(2),
        )
        assert await read(client) == list(range(10))  # metadata still says leader 1, epoch 5
        assert (cluster.count(ApiKey.FETCH, 1), cluster.count(ApiKey.FETCH, 2)) == (1, 1)
        sent = [message for _, key, message in cluster.asked if key is ApiKey.FETCH]
        assert sent[-1].topics[0].partitions[0].current_leader_epoch == 6


async def test_k13_brokers_that_name_each_other_cannot_make_a_storm() -> None:
    async with Scripted() as cluster, client_of(cluster, **SHORT) as client:
        for me, other in ((1, 2), (2, 1)):
            cluster.answers[me, ApiKey.FETCH] = lambda _, other=other: cluster.fetched(
                None,
                error_code=6,
                current_leader=cluster.hint(other, 6),
                node_endpoints=cluster.endpoints(1, 2),
            )
        with pytest.raises(BrokerError) as caught:
            await read(client)
        assert caught.value.code == 6
        assert cluster.count(ApiKey.FETCH) < 200  # 800 ms of backoffs between 4 and 24 ms
        assert cluster.count(ApiKey.METADATA) < 200


@pytest.mark.parametrize("hint", [(9, 6), (2, 5), (2, -1), (-1, -1), (2, 4)])
async def test_k07_hints_that_say_nothing_are_not_followed(hint: tuple[int, int]) -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        stale = lambda _: cluster.fetched(None, error_code=6, current_leader=cluster.hint(*hint))  # noqa: E731
        cluster.answers[1, ApiKey.FETCH] = then([stale], lambda _: cluster.fetched(cluster.log))
        assert await read(client) == list(range(10))


async def test_a_broker_that_is_behind_is_asked_until_another_one_answers() -> None:
    """KIP-232: the outdated answer changes nothing, and the next one comes
    from whoever knows more.
    """
    async with Scripted(3) as cluster, client_of(cluster) as client:
        await client.metadata(["t"])
        old = (cluster.leader, cluster.epoch)
        cluster.leader, cluster.epoch = 3, 9
        await client.metadata(["t"])
        assert client._cluster.leader(TP).epoch == 9
        cluster.answers[1, ApiKey.METADATA] = cluster.answers[2, ApiKey.METADATA] = lambda _: (
            cluster.metadata(*old)
        )
        refuse = then(
            [lambda _: cluster.fetched(None, error_code=6)] * 2,
            lambda _: cluster.fetched(cluster.log),
        )
        cluster.answers[3, ApiKey.FETCH] = refuse
        assert await read(client) == list(range(10))
        assert cluster.count(ApiKey.FETCH, old[0]) == 0  # never at the leader of before
        assert client._cluster.leader(TP).epoch == 9


async def test_half_a_metadata_answer_removes_nothing() -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        cluster.answers[1, ApiKey.METADATA] = lambda _: cluster.metadata(partitions=2)
        await client.metadata(["t"])
        cluster.answers[1, ApiKey.METADATA] = then(
            [lambda _: cluster.metadata(partitions=1)], lambda _: cluster.metadata(partitions=2)
        )
        await client.metadata(["t"])
        assert set(client._cluster.view.topics["t"].partitions) == {0, 1}


@pytest.mark.parametrize(
    "answer",
    [
        lambda c: c.fetched(batch(0, 3)),  # records before the position
        # UNKNOWN_SUBSCRIPTION_ID: not an answer to a fetch
        lambda c: c.fetched(None, error_code=99),
        lambda c: c.fetched(None, error_code=29),
    ],
)
async def test_answers_that_cannot_be_used_end_the_reading(answer: Any) -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        cluster.answers[1, ApiKey.FETCH] = lambda _: answer(cluster)
        with pytest.raises(KafkaError) as caught:
            await read(client, start=5)
        assert isinstance(caught.value, RemoteProtocolError | BrokerError)
        assert cluster.count(ApiKey.FETCH) == 1


async def test_an_answer_without_the_partition_is_asked_for_again_and_given_up_in_time() -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        empty = type(cluster.fetched(None))(responses=[])
        cluster.answers[1, ApiKey.FETCH] = then(
            [lambda _: empty], lambda _: cluster.fetched(cluster.log)
        )
        assert await read(client) == list(range(10))
        cluster.answers[1, ApiKey.FETCH] = lambda _: empty
        async with client_of(cluster, **SHORT) as short:
            with pytest.raises(RemoteProtocolError, match="leaves out t-0"):
                await read(short)


async def test_connections_that_break_are_opened_again() -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        cluster.answers[1, ApiKey.FETCH] = then(
            [lambda _: None] * 3, lambda _: cluster.fetched(cluster.log)
        )
        assert await read(client) == list(range(10))
        cluster.answers[1, ApiKey.FETCH] = lambda _: None
        async with client_of(cluster, **SHORT) as short:
            with pytest.raises(NetworkError):
                await read(short)


async def test_out_of_range_is_believed_only_when_the_leader_says_so_itself() -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        behind = [lambda _: cluster.fetched(None, error_code=1)]
        cluster.answers[1, ApiKey.FETCH] = then(behind, lambda _: cluster.fetched(cluster.log))
        assert await read(client, start=3) == list(range(3, 10))
        cluster.answers[1, ApiKey.FETCH] = lambda _: cluster.fetched(None, error_code=1)
        # in range says one answer, out of range another: three times
        with pytest.raises(DataLossError) as caught:
            await read(client, start=3)
        assert caught.value.expected_offset == 3
        with pytest.raises(DataLossError) as caught:
            await read(client, start=50, end=60)
        assert (caught.value.expected_offset, caught.value.available_offset) == (50, 10)


async def test_a_session_error_of_the_whole_answer_is_retried() -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        broken = type(cluster.fetched(None))(error_code=71, responses=[])
        cluster.answers[1, ApiKey.FETCH] = then(
            [lambda _: broken], lambda _: cluster.fetched(cluster.log)
        )
        assert await read(client) == list(range(10))


async def test_a_produce_answer_without_the_partition_is_not_an_acknowledgement() -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        empty = type(cluster.produced())(responses=[])
        cluster.answers[1, ApiKey.PRODUCE] = then(
            [lambda _: empty], lambda _: cluster.produced(base_offset=7)
        )
        result = await client.produce("t", ROWS, options=PLAIN)
        assert result.partitions[TP].base_offset == 7
        assert cluster.count(ApiKey.PRODUCE) == 2
        cluster.answers[1, ApiKey.PRODUCE] = lambda _: empty
        with pytest.raises(RequestTimedOut, match="leaves out t-0"):
            await client.produce("t", ROWS, options=PLAIN_AND_SHORT)


async def test_c07_an_answer_that_comes_after_the_delivery_timeout_changes_nothing() -> None:
    async with Scripted(1) as cluster, client_of(cluster, request_timeout_ms=5_000) as client:
        gate = asyncio.Event()
        await client.produce("t", ROWS, options=PLAIN)

        async def slow(connection: Any) -> None:
            async for request in connection:
                if request.api_key == ApiKey.PRODUCE:
                    await gate.wait()
                await connection.respond(
                    request, cluster._default(ApiKey(request.api_key), 1)(request.message)
                )

        server = await serve("127.0.0.1", 0, slow, policy=ServeAll())
        cluster._servers[0], before = server, cluster._servers[0]
        await before.close()
        async with client_of(cluster, request_timeout_ms=5_000) as late:
            cluster.asked.clear()
            with pytest.raises(RequestTimedOut):
                await late.produce("t", ROWS, options=PLAIN.replace(delivery_timeout_ms=200))
            sender = late._producer.sender
            assert sender.memory.used_bytes > 0  # the bytes are still the socket's
            gate.set()
            while sender.memory.used_bytes:
                await sender.memory.change()
            assert (await late.produce("t", ROWS, options=PLAIN)).records == 1


async def test_cancelling_a_call_leaves_the_client_usable() -> None:
    async with Scripted(1) as cluster, client_of(cluster) as client:
        cluster.answers[1, ApiKey.PRODUCE] = then(
            [lambda _: cluster.produced(error_code=19)] * 5, lambda _: cluster.produced()
        )
        task = asyncio.create_task(client.produce("t", ROWS, options=PLAIN))
        await cluster.until_asked(ApiKey.PRODUCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reading = asyncio.create_task(read(client, end=20))
        await cluster.until_asked(ApiKey.FETCH)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert (await client.produce("t", ROWS, options=PLAIN)).records == 1
        assert await read(client) == list(range(10))
        assert client._producer.sender.memory.used_bytes == 0
