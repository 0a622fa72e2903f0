"""KIP-951 at the client: what producer and consumer make of the leader in an error, honest or not."""

from __future__ import annotations

import asyncio
import importlib.util
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parley.client import AsyncClient, FetchOptions, PossibleDataLoss, ProduceOptions, TopicPartition
from parley.errors import BrokerError, KafkaError, RequestTimedOut
from parley.messages import FetchResponse, MetadataResponse, ProduceResponse
from parley.schema import ApiKey

_SPEC = importlib.util.spec_from_file_location("parley_tests_scripted_hints", Path(__file__).with_name("scripted.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
scripted = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(scripted)
then = scripted.then

TP = TopicPartition("t", 0)
NEVER_MS = 60_000
"""A backoff that no test would survive: what does not wait for it went at once."""
QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "default_api_timeout_ms": 800, "request_timeout_ms": 600}
PATIENT = {"retry_backoff_ms": NEVER_MS, "retry_backoff_max_ms": NEVER_MS}
FAST = FetchOptions(fetch_max_wait_ms=1)
PLAIN = ProduceOptions(enable_idempotence=False, acks="1", delivery_timeout_ms=800)
ROWS = pa.table({"value": ["x"]})


async def read(client: AsyncClient, start: int = 0, end: int = 10) -> list[int]:
    found: list[int] = []
    async with aclosing(client.fetch(TP, start, end, FAST)) as batches:
        async for part in batches:
            found += [int(value) for value in part.column("value").to_pylist()]
    return found


async def write(client: AsyncClient, options: ProduceOptions = PLAIN) -> int:
    return (await client.produce("t", ROWS, 0, options)).records


def script(brokers: int = 2, **kwargs: Any) -> Any:
    return scripted.Scripted(brokers, **kwargs)


def client_of(cluster: Any, **options: Any) -> AsyncClient:
    return AsyncClient(bootstrap_servers=cluster.bootstrap_servers, **{**QUICK, **options})


def refusal(cluster: Any, api: ApiKey, leader: int, epoch: int, nodes: list[tuple[int, int]], code: int = 6) -> Any:
    """Return an answer: not the leader, `leader` at `epoch` is. `nodes` are (id, broker whose address it gets)."""
    kind = ProduceResponse if api is ApiKey.PRODUCE else FetchResponse
    known = {i: (host, port) for i, host, port in cluster.nodes()}
    hint = kind.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    endpoints = [kind.NodeEndpoint(node_id=i, host=known[at][0], port=known[at][1]) for i, at in nodes]
    if api is ApiKey.FETCH:
        return cluster.fetched(None, error_code=code, current_leader=hint, node_endpoints=endpoints)
    answer = cluster.produced(error_code=code, current_leader=hint)
    answer.node_endpoints = endpoints
    return answer


def good(cluster: Any, api: ApiKey) -> Any:
    return cluster.produced() if api is ApiKey.PRODUCE else cluster.fetched(cluster.log)


async def work(client: AsyncClient, api: ApiKey) -> None:
    """Write one record, or read ten."""
    if api is ApiKey.PRODUCE:
        assert await write(client) == 1
    else:
        assert await read(client) == list(range(10))


def only_leader(cluster: Any, api: ApiKey, leader: int) -> None:
    """Let this broker serve, and every other one say that it does not lead, naming nobody."""
    for broker in range(1, cluster.brokers + 1):
        serves = (lambda _: good(cluster, api)) if broker == leader else (lambda _: refusal(cluster, api, -1, -1, []))
        cluster.answers[broker, api] = serves


both = pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.FETCH], ids=["produce", "fetch"])


# ---- with and without leader information -----------------------------------------------------------


@both
async def test_k01_an_error_without_leader_asks_metadata_and_changes_nothing_itself(api: ApiKey) -> None:
    async with script() as cluster, client_of(cluster, **PATIENT) as client:
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
async def test_k02_a_hint_with_a_brand_new_node_is_followed_and_metadata_asked_too(api: ApiKey, code: int) -> None:
    async with script() as cluster, client_of(cluster) as client:
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
        await _until(lambda: cluster.count(ApiKey.METADATA) > before)
        assert cluster.count(ApiKey.METADATA) - before == 1


async def _until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 the condition is what a server of this loop has counted
            await asyncio.sleep(0.001)


@both
async def test_k04_with_a_hint_the_retry_waits_for_no_backoff(api: ApiKey) -> None:
    async with script() as cluster, client_of(cluster, **PATIENT) as client:
        cluster.answers[1, api] = lambda _: refusal(cluster, api, 2, 6, [(2, 2)])
        cluster.answers[2, api] = lambda _: good(cluster, api)
        await work(client, api)  # before the delivery timeout of 800 ms, with backoffs of a minute


@both
async def test_k04_without_a_hint_the_retry_waits(api: ApiKey) -> None:
    async with script() as cluster, client_of(cluster, **PATIENT, default_api_timeout_ms=300) as client:
        cluster.answers[1, api] = lambda _: refusal(cluster, api, -1, -1, [])  # Metadata says: still the leader
        waiting = asyncio.ensure_future(work(client, api))
        await _until(lambda: cluster.count(api, 1) == 1 and cluster.count(ApiKey.METADATA) >= 2)
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        assert cluster.count(api, 1) == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_k03_the_preferred_replica_is_dropped_for_the_partition_in_error_only() -> None:
    """Both partitions are read from follower 2 when it refuses one of them: only that one returns to the leader."""
    async with script(3) as cluster, client_of(cluster) as client:
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
                        parts.append(part(index, records=scripted.batch(offset, 5) if offset < 10 else b""))
                topic = FetchResponse.FetchableTopicResponse(topic="t", topic_id=cluster.topic_id, partitions=parts)
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


# ---- versions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [12, 13, 15])
async def test_k10_hints_of_fetch_12_to_15_are_read_as_the_page_has_them(version: int) -> None:
    async with script(ranges={ApiKey.FETCH: (4, version)}) as cluster, client_of(cluster, **PATIENT) as client:

        def refuse(_: Any) -> Any:
            answer = refusal(cluster, ApiKey.FETCH, 2, 6, [])
            answer.unknown_tagged_fields[0] = _endpoints([(999, *cluster.nodes()[1][1:])])
            answer.responses[0].partitions[0].current_leader.leader_id = 999
            return answer

        cluster.answers[1, ApiKey.FETCH] = refuse
        await work(client, ApiKey.FETCH)
        assert (cluster.count(ApiKey.FETCH, 1), cluster.count(ApiKey.FETCH, 2)) == (1, 1)


async def test_k10_hints_of_produce_9_are_read_as_the_page_has_them() -> None:
    async with script(ranges={ApiKey.PRODUCE: (3, 9)}) as cluster, client_of(cluster, **PATIENT) as client:

        def refuse(_: Any) -> Any:
            answer = cluster.produced(error_code=6)
            answer.unknown_tagged_fields[0] = _endpoints([(999, *cluster.nodes()[1][1:])])
            part = answer.responses[0].partition_responses[0]
            part.unknown_tagged_fields[0] = (999).to_bytes(4, "big") + (6).to_bytes(4, "big") + b"\0"
            return answer

        cluster.answers[1, ApiKey.PRODUCE] = refuse
        await work(client, ApiKey.PRODUCE)
        assert (cluster.count(ApiKey.PRODUCE, 1), cluster.count(ApiKey.PRODUCE, 2)) == (1, 1)


def _endpoints(nodes: list[tuple[int, str, int]]) -> bytes:
    """Return a NodeEndpoints field, bytes that no message of these versions would write."""
    out = bytes([len(nodes) + 1])
    for node_id, host, port in nodes:
        out += node_id.to_bytes(4, "big") + bytes([len(host) + 1]) + host.encode() + port.to_bytes(4, "big") + b"\0\0"
    return out


@pytest.mark.parametrize("version", [12, 15])
async def test_k10_a_fetch_hint_without_endpoints_serves_for_a_known_node(version: int) -> None:
    async with script(ranges={ApiKey.FETCH: (4, version)}) as cluster, client_of(cluster, **PATIENT) as client:
        cluster.answers[1, ApiKey.FETCH] = lambda _: refusal(cluster, ApiKey.FETCH, 2, 6, [])
        await work(client, ApiKey.FETCH)
        assert (cluster.count(ApiKey.FETCH, 1), cluster.count(ApiKey.FETCH, 2)) == (1, 1)


# ---- several moves ---------------------------------------------------------------------------------


@both
async def test_k12_a_hint_then_a_broker_that_is_behind_then_nobody_and_still_it_recovers(api: ApiKey) -> None:
    async with script() as cluster, client_of(cluster, default_api_timeout_ms=5_000) as client:
        await client.metadata(["t"])
        cluster.answers[1, api] = lambda _: refusal(cluster, api, 2, 6, [(2, 2)])
        behind = [lambda _: refusal(cluster, api, -1, -1, [], code=75)] * 3
        cluster.answers[2, api] = then(behind, lambda _: good(cluster, api))
        troubled = then(
            [lambda _: None] * 2 + [lambda _: cluster.metadata(-1, 7)] * 3, lambda _: cluster.metadata(2, 8)
        )
        cluster.answers[1, ApiKey.METADATA] = cluster.answers[2, ApiKey.METADATA] = troubled
        options = PLAIN.replace(delivery_timeout_ms=5_000)
        if api is ApiKey.PRODUCE:
            assert await write(client, options) == 1
        else:
            assert await read(client) == list(range(10))
        assert cluster.count(api, 1) == 1


@both
async def test_k13_brokers_naming_each_other_with_equal_epochs_are_left_to_metadata(api: ApiKey) -> None:
    async with script() as cluster, client_of(cluster) as client:
        for me, other in ((1, 2), (2, 1)):
            cluster.answers[me, api] = lambda _, other=other: refusal(cluster, api, other, 6, [(1, 1), (2, 2)])
        with pytest.raises(KafkaError) as caught:
            await work(client, api)
        assert isinstance(caught.value, BrokerError | RequestTimedOut)
        assert "NOT_LEADER_OR_FOLLOWER" in str(caught.value)
        assert cluster.count(api) < 200  # 800 ms of backoffs between 4 and 24 ms
        assert cluster.count(ApiKey.METADATA) < 200


@both
async def test_k13_brokers_naming_each_other_with_ever_higher_epochs_are_slowed_down(api: ApiKey) -> None:
    async with script() as cluster, client_of(cluster) as client:
        epoch = iter(range(6, 2**31 - 1))
        for me, other in ((1, 2), (2, 1)):
            cluster.answers[me, api] = lambda _, o=other: refusal(cluster, api, o, next(epoch), [(1, 1), (2, 2)])
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            await work(client, api)
        assert cluster.count(api) < 200
        assert cluster.count(ApiKey.METADATA) < 200


# ---- hints that are wrong --------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("leader", "epoch", "nodes"),
    [
        (9, 6, []),  # a node that nobody knows
        (9, 6, [(2, 2)]),  # endpoints, but not the leader's
        (2, 6, [(1, 1)]),  # the same, though the leader is known: id and endpoint are only good together
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
    async with script() as cluster, client_of(cluster) as client:
        cluster.answers[1, api] = then(
            [lambda _: refusal(cluster, api, leader, epoch, nodes)], lambda _: good(cluster, api)
        )
        await work(client, api)
        assert (cluster.count(api, 1), cluster.count(api, 2)) == (2, 0)


@both
async def test_k07_a_hint_with_the_highest_epoch_of_all_is_forgotten_when_it_fails(api: ApiKey) -> None:
    """Epoch 2^31-1 would be above every true one for ever; nothing is lost, so nothing is reported."""
    heard: list[Any] = []
    async with script() as cluster:
        steady = {**QUICK, "retry_backoff_ms": 200, "retry_backoff_max_ms": 200}  # Metadata answers before the retry
        client = AsyncClient(bootstrap_servers=cluster.bootstrap_servers, on_event=heard.append, **steady)
        async with client:
            liar = [lambda _: refusal(cluster, api, 2, 2**31 - 1, [(2, 2)])]
            cluster.answers[1, api] = then(liar, lambda _: good(cluster, api))
            cluster.answers[2, api] = lambda _: refusal(cluster, api, -1, -1, [])
            await work(client, api)
            assert (cluster.count(api, 1), cluster.count(api, 2)) == (2, 1)
            assert client._cluster.leader(TP).epoch == 5
            assert heard == []


@both
async def test_k09_the_endpoint_of_a_hint_overrides_the_cached_one(api: ApiKey) -> None:
    """Broker 2 came back at another address: the address in the hint is used, the one from Metadata never."""
    async with script(3) as cluster, client_of(cluster, **PATIENT) as client:
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
async def test_k02_behind_a_proxy_a_hint_with_the_wrong_address_ends_at_metadata(api: ApiKey) -> None:
    """The id is right and the address leads back to the broker that refused: one refusal more, then Metadata."""
    async with script() as cluster, client_of(cluster) as client:
        await client.metadata(["t"])
        cluster.leader, cluster.epoch = 2, 6
        cluster.answers[1, api] = lambda _: refusal(cluster, api, 2, 6, [(2, 1)])
        cluster.answers[2, api] = lambda _: good(cluster, api)
        await work(client, api)
        assert cluster.count(api, 1) <= 3
        assert client._cluster.leader(TP).node.port == cluster.nodes()[1][2]


@both
async def test_k02_behind_a_proxy_a_hint_with_the_wrong_leader_ends_at_metadata(api: ApiKey) -> None:
    """The hint names a broker that never leads, in an epoch that is never reached: Metadata has the last word."""
    heard: list[Any] = []
    async with script(3) as cluster:
        client = AsyncClient(bootstrap_servers=cluster.bootstrap_servers, on_event=heard.append, **QUICK)
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
    async with script() as cluster, client_of(cluster) as client:
        nodes = cluster.nodes()
        cluster.nodes = lambda: [nodes[0], (9, nodes[1][1], 1)]
        first = [lambda _: refusal(cluster, api, 9, 6, [(9, 9)])]
        cluster.nodes = lambda: [*nodes, (9, nodes[1][1], 1)]
        cluster.answers[1, api] = then(first, lambda _: good(cluster, api))
        await work(client, api)
        assert cluster.count(api, 1) == 2
        assert client._cluster.leader(TP).node.id == 1


@both
async def test_m02_half_a_metadata_answer_stops_nobody(api: ApiKey) -> None:
    async with script() as cluster, client_of(cluster) as client:
        whole, half = (lambda _: cluster.metadata(partitions=4)), (lambda _: cluster.metadata(partitions=2))
        for broker in (1, 2):
            cluster.answers[broker, ApiKey.METADATA] = then([whole, half, half], whole)
        await client.metadata(["t"])
        cluster.answers[1, api] = then([lambda _: refusal(cluster, api, -1, -1, [])], lambda _: good(cluster, api))
        await work(client, api)
        assert set(client._cluster.view.topics["t"].partitions) == set(range(4))


# ---- brokers that come and go ----------------------------------------------------------------------


@both
async def test_l15_several_broker_ids_at_one_address(api: ApiKey) -> None:
    """Behind a port forward, or a broker that came back under a new id before the old one was forgotten."""
    async with script(1) as cluster, client_of(cluster) as client:
        (one,) = cluster.nodes()
        cluster.nodes = lambda: [one, (2, *one[1:]), (3, *one[1:])]
        cluster.leader, cluster.epoch = 2, 5
        await work(client, api)
        cluster.leader, cluster.epoch = 3, 6
        cluster.answers[1, api] = then([lambda _: refusal(cluster, api, 3, 6, [(3, 1)])], lambda _: good(cluster, api))
        await work(client, api)
        assert client._cluster.leader(TP).node.id == 3
        assert len({conn.address for conn in client._cluster.pool.connections}) == 1


@both
async def test_l15_brokers_are_replaced_one_by_one_and_the_first_comes_back(api: ApiKey) -> None:
    async with script(3) as cluster, client_of(cluster) as client:
        nodes = cluster.nodes()
        for epoch, alive in enumerate(([0], [1], [2], [0, 1], [2]), start=10):
            cluster.nodes = lambda alive=alive: [nodes[index] for index in alive]
            cluster.leader, cluster.epoch = alive[0] + 1, epoch
            for broker in (1, 2, 3):
                serve = broker == cluster.leader
                cluster.answers[broker, api] = (
                    (lambda _: good(cluster, api)) if serve else (lambda _: refusal(cluster, api, -1, -1, []))
                )
            await work(client, api)
            assert client._cluster.leader(TP) == (client._cluster.view.brokers[alive[0] + 1], epoch)
            assert set(client._cluster.view.brokers) == {index + 1 for index in alive}


async def test_l15_when_every_known_broker_is_gone_the_bootstrap_servers_are_asked_again() -> None:
    """KIP-899: the whole cluster was replaced; the address that the client was given leads to the new one."""
    async with script(1) as old, script(2) as new:
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
    async with script(2, ranges={ApiKey.METADATA: (0, 13)}) as cluster, client_of(cluster) as client:
        await client.metadata(["t"])
        again = lambda _: MetadataResponse(error_code=129)  # noqa: E731
        cluster.answers[1, ApiKey.METADATA] = then([again, again], lambda _: cluster.metadata())
        cluster.answers[2, ApiKey.METADATA] = again
        cluster.answers[1, ApiKey.PRODUCE] = then(
            [lambda _: refusal(cluster, ApiKey.PRODUCE, -1, -1, [])], lambda _: cluster.produced()
        )
        assert await write(client) == 1
        assert cluster.count(ApiKey.METADATA, 1) >= 3
