"""KIP-951 at the client: what producer and consumer make of the leader in an error."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from parley.client import FetchOptions, TopicPartition
from parley.messages import FetchResponse
from parley.schema import ApiKey

from .scripted import Scripted, batch, then
from .scripted_clients import (
    PATIENT,
    PLAIN,
    TP,
    both,
    client_of,
    good,
    only_leader,
    read,
    refusal,
    work,
    write,
)

# ---- with and without leader information ---------------------------------------------------------


@both
async def test_k01_an_error_without_leader_asks_metadata_and_changes_nothing_itself(
    api: ApiKey,
) -> None:
    async with Scripted() as cluster, client_of(cluster, **PATIENT) as client:
        await client.metadata(["t"])
        before = cluster.count(ApiKey.METADATA)
        only_leader(cluster, api, 2)

        def refuse(_: Any) -> Any:
            assert client._cluster.leader(TP).node.id == 1
            cluster.leader, cluster.epoch = 2, 6
            return refusal(cluster, api, -1, -1, [])

        cluster.answers[1, api] = refuse
        await work(client, api)
        assert (cluster.count(api, 1), cluster.count(api, 2)) == (1, 1)
        assert cluster.count(ApiKey.METADATA) - before == 1


@both
@pytest.mark.parametrize("code", [6, 74])
async def test_k02_a_hint_with_a_brand_new_node_is_followed_and_metadata_asked_too(
    api: ApiKey, code: int
) -> None:
    async with Scripted() as cluster, client_of(cluster) as client:
        await client.metadata(["t"])
        before = cluster.count(ApiKey.METADATA)
        hinting = refusal(cluster, api, 999, 6, [(999, 2)], code)
        cluster.answers[1, api] = lambda _: hinting
        cluster.answers[2, api] = lambda _: good(cluster, api)
        nodes = cluster.nodes()
        cluster.nodes = lambda: [nodes[0], (999, *nodes[1][1:])]
        cluster.leader, cluster.epoch = 999, 6
        await work(client, api)
        assert (cluster.count(api, 1), cluster.count(api, 2)) == (1, 1)
        assert client._cluster.leader(TP).epoch == 6
        await cluster.until(lambda: cluster.count(ApiKey.METADATA) > before)
        assert cluster.count(ApiKey.METADATA) - before == 1


@both
async def test_k04_with_a_hint_the_retry_waits_for_no_backoff(api: ApiKey) -> None:
    async with Scripted() as cluster, client_of(cluster, **PATIENT) as client:
        cluster.answers[1, api] = lambda _: refusal(cluster, api, 2, 6, [(2, 2)])
        cluster.answers[2, api] = lambda _: good(cluster, api)
        await work(client, api)  # before the delivery timeout of 800 ms, with backoffs of a minute


@both
async def test_k04_without_a_hint_the_retry_waits(api: ApiKey) -> None:
    async with (
        Scripted() as cluster,
        client_of(cluster, **PATIENT, default_api_timeout_ms=300) as client,
    ):
        # Metadata says: still the leader
        cluster.answers[1, api] = lambda _: refusal(cluster, api, -1, -1, [])
        waiting = asyncio.ensure_future(work(client, api))
        await cluster.until(
            lambda: cluster.count(api, 1) == 1 and cluster.count(ApiKey.METADATA) >= 2
        )
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        assert cluster.count(api, 1) == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_k03_the_preferred_replica_is_dropped_for_the_partition_in_error_only() -> None:
    """Both partitions are read from follower 2 when it refuses one of them: only that
    one returns to the leader.
    """
    async with Scripted(3) as cluster, client_of(cluster) as client:
        asked: list[tuple[int, int]] = []

        def part(index: int, **fields: Any) -> Any:
            return FetchResponse.PartitionData(
                **{"partition_index": index, "high_watermark": 10, "log_start_offset": 0, **fields}
            )

        def answer(broker: int) -> Any:
            def make(request: Any) -> Any:
                parts = []
                for wanted in request.topics[0].partitions:
                    index, offset = wanted.partition, wanted.fetch_offset
                    asked.append((broker, index))
                    if broker == 1 and (1, index) not in asked[:-1]:
                        parts.append(part(index, preferred_read_replica=2, records=b""))
                    elif broker == 2 and index == 0 and asked.count((2, 0)) == 1:
                        parts.append(part(index, error_code=6, records=b""))
                    else:
                        parts.append(part(index, records=batch(offset, 5) if offset < 10 else b""))
                topic = FetchResponse.FetchableTopicResponse(
                    topic="t", topic_id=cluster.topic_id, partitions=parts
                )
                return FetchResponse(responses=[topic])

            return make

        for broker in (1, 2):
            cluster.answers[broker, ApiKey.FETCH] = answer(broker)
            cluster.answers[broker, ApiKey.METADATA] = lambda _: cluster.metadata(partitions=2)
        cluster.answers[3, ApiKey.METADATA] = lambda _: cluster.metadata(partitions=2)
        options = FetchOptions(fetch_max_wait_ms=1, client_rack="near")
        ranges = {TopicPartition("t", index): (0, 10) for index in range(2)}
        rows = 0
        async with aclosing(client.fetch_many(ranges, options)) as found:
            async for one in found:
                rows += one.batch.num_rows
        assert rows == 20
        assert [one for one in asked if one[1] == 1] == [(1, 1), (2, 1), (2, 1)]
        assert [one for one in asked if one[1] == 0] == [(1, 0), (2, 0), (1, 0), (1, 0)]


# ---- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [12, 13, 15])
async def test_k10_hints_of_fetch_12_to_15_are_read_as_the_page_has_them(version: int) -> None:
    async with (
        Scripted(ranges={ApiKey.FETCH: (4, version)}) as cluster,
        client_of(cluster, **PATIENT) as client,
    ):

        def refuse(_: Any) -> Any:
            answer = refusal(cluster, ApiKey.FETCH, 2, 6, [])
            answer.unknown_tagged_fields[0] = _endpoints([(999, *cluster.nodes()[1][1:])])
            answer.responses[0].partitions[0].current_leader.leader_id = 999
            return answer

        cluster.answers[1, ApiKey.FETCH] = refuse
        await work(client, ApiKey.FETCH)
        assert (cluster.count(ApiKey.FETCH, 1), cluster.count(ApiKey.FETCH, 2)) == (1, 1)


async def test_k10_hints_of_produce_9_are_read_as_the_page_has_them() -> None:
    async with (
        Scripted(ranges={ApiKey.PRODUCE: (3, 9)}) as cluster,
        client_of(cluster, **PATIENT) as client,
    ):

        def refuse(_: Any) -> Any:
            answer = cluster.produced(error_code=6)
            answer.unknown_tagged_fields[0] = _endpoints([(999, *cluster.nodes()[1][1:])])
            part = answer.responses[0].partition_responses[0]
            part.unknown_tagged_fields[0] = (
                (999).to_bytes(4, "big") + (6).to_bytes(4, "big") + b"\0"
            )
            return answer

        cluster.answers[1, ApiKey.PRODUCE] = refuse
        await work(client, ApiKey.PRODUCE)
        assert (cluster.count(ApiKey.PRODUCE, 1), cluster.count(ApiKey.PRODUCE, 2)) == (1, 1)


def _endpoints(nodes: list[tuple[int, str, int]]) -> bytes:
    """Return a NodeEndpoints field, bytes that no message of these versions would write."""
    out = bytes([len(nodes) + 1])
    for node_id, host, port in nodes:
        out += (
            node_id.to_bytes(4, "big")
            + bytes([len(host) + 1])
            + host.encode()
            + port.to_bytes(4, "big")
            + b"\0\0"
        )
    return out


@pytest.mark.parametrize("version", [12, 15])
async def test_k10_a_fetch_hint_without_endpoints_serves_for_a_known_node(version: int) -> None:
    async with (
        Scripted(ranges={ApiKey.FETCH: (4, version)}) as cluster,
        client_of(cluster, **PATIENT) as client,
    ):
        cluster.answers[1, ApiKey.FETCH] = lambda _: refusal(cluster, ApiKey.FETCH, 2, 6, [])
        await work(client, ApiKey.FETCH)
        assert (cluster.count(ApiKey.FETCH, 1), cluster.count(ApiKey.FETCH, 2)) == (1, 1)


# ---- several moves -------------------------------------------------------------------------------


@both
async def test_k12_a_hint_then_a_broker_that_is_behind_then_nobody_and_still_it_recovers(
    api: ApiKey,
) -> None:
    async with Scripted() as cluster, client_of(cluster, default_api_timeout_ms=5_000) as client:
        await client.metadata(["t"])
        cluster.answers[1, api] = lambda _: refusal(cluster, api, 2, 6, [(2, 2)])
        behind = [lambda _: refusal(cluster, api, -1, -1, [], code=75)] * 3
        cluster.answers[2, api] = then(behind, lambda _: good(cluster, api))
        troubled = then(
            [lambda _: None] * 2 + [lambda _: cluster.metadata(-1, 7)] * 3,
            lambda _: cluster.metadata(2, 8),
        )
        cluster.answers[1, ApiKey.METADATA] = cluster.answers[2, ApiKey.METADATA] = troubled
        options = PLAIN.replace(delivery_timeout_ms=5_000)
        if api is ApiKey.PRODUCE:
            assert await write(client, options) == 1
        else:
            assert await read(client) == list(range(10))
        assert cluster.count(api, 1) == 1
