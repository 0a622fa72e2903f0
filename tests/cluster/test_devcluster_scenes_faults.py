"""Faults on request, each as a client sees it on the wire: errors, cuts, delays,
lost and disordered answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import AsyncLocalCluster, LocalCluster
from parley.errors import ConfigError, RemoteProtocolError
from parley.messages import decode_response, request_class
from parley.net import AdvancingClock, ManualClock, open_connection
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

ApiVersions: Any = request_class(ApiKey.API_VERSIONS)
Metadata: Any = request_class(ApiKey.METADATA)
Produce: Any = request_class(ApiKey.PRODUCE)
CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)
OffsetFetch: Any = request_class(ApiKey.OFFSET_FETCH)
LATEST = -1
Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Connect = Callable[..., Talk]
Batch = Callable[..., bytes]
NAMES = (f"faults{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release="4.3", seed=3) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: LocalCluster) -> Iterator[str]:
    name = next(NAMES)
    cluster.create_topic(name, 3)
    for index in range(3):
        cluster.move_leader(name, index, 1)
    yield name
    cluster.delete_topic(name)


def produce_to(topic: str, *indexes: int, data: bytes) -> Any:
    parts = [Produce.PartitionProduceData(index=index, records=data) for index in indexes]
    return Produce(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[Produce.TopicProduceData(name=topic, partition_data=parts)],
    )


def outcome(answer: Any) -> dict[int, tuple[int, int]]:
    parts = [part for topic in answer.responses for part in topic.partition_responses]
    return {part.index: (part.error_code, part.base_offset) for part in parts}


# -- errors ----------------------------------------------------------------------------------------


def test_c06_one_partition_of_a_request_fails(
    cluster: LocalCluster, topic: str, batch: Batch
) -> None:
    cluster.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", topic=topic, partition=1)
    with Wire(cluster.broker(1).address) as wire:
        first = wire.ask(produce_to(topic, 0, 1, 2, data=batch(1)), 9)
        second = wire.ask(produce_to(topic, 0, 1, 2, data=batch(1)), 9)
    assert outcome(first) == {0: (0, 0), 1: (19, -1), 2: (0, 0)}
    assert outcome(second) == {0: (0, 1), 1: (0, 0), 2: (0, 1)}, (
        "nothing of partition 1 was kept the first time"
    )


def test_c06_an_error_after_the_append(cluster: LocalCluster, topic: str, batch: Batch) -> None:
    cluster.faults.fail(
        "Produce", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", topic=topic, partition=1, executed=True
    )
    with Wire(cluster.broker(1).address) as wire:
        first = wire.ask(produce_to(topic, 0, 1, data=batch(1)), 9)
        second = wire.ask(produce_to(topic, 1, data=batch(1)), 9)
    assert outcome(first) == {0: (0, 0), 1: (20, -1)}
    assert outcome(second) == {1: (0, 1)}, "it was appended all the same"


def test_errors_find_topics_by_their_ids_too(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    talk = talk_to(cluster, 1, topic)
    talk.produce(batch(1))
    cluster.faults.fail("Fetch", "KAFKA_STORAGE_ERROR", topic=topic, partition=0)
    assert talk.fetch(0, version=13).error_code == 56
    assert talk.fetch(0, version=13).error_code == 0
    cluster.faults.fail("Metadata", 5, topic=topic)
    with Wire(cluster.broker(1).address) as wire:
        answer = wire.ask(Metadata(topics=[Metadata.MetadataRequestTopic(name=topic)]), 12)
    assert [(one.name, one.error_code) for one in answer.topics] == [(topic, 5)]


def test_errors_pick_brokers_and_clients(cluster: LocalCluster, topic: str) -> None:
    cluster.faults.fail("Metadata", 5, broker=2, times=-1)
    cluster.faults.fail("Metadata", 29, client_id="nobody", times=-1)
    asked = Metadata(topics=[Metadata.MetadataRequestTopic(name=topic)])
    codes = []
    for broker in cluster.brokers:
        with Wire(broker.address) as wire:
            codes += [one.error_code for one in wire.ask(asked, 9).topics]
    assert codes == [0, 5]
    with pytest.raises(ConfigError, match="of which topic"):
        cluster.faults.fail("Metadata", 5, partition=0)


def test_chance_repeats_with_the_seed(cluster: LocalCluster, topic: str) -> None:
    asked = Metadata(topics=[Metadata.MetadataRequestTopic(name=topic)])

    def codes(seed: int) -> list[int]:
        cluster.faults.seed(seed)
        with Wire(cluster.broker(1).address) as wire:
            return [wire.ask(asked, 9).topics[0].error_code for _ in range(50)]

    cluster.faults.fail("Metadata", 5, times=-1, probability=0.3)
    assert codes(5) == codes(5) != codes(6)
    assert 0 < sum(code == 5 for code in codes(5)) < 50


# -- connections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("executed", [True, False])
def test_c04_an_answer_cut_at_each_byte(
    cluster: LocalCluster, topic: str, batch: Batch, executed: bool
) -> None:
    """K from 0 to all: what comes is the answer's beginning, then the end; the
    records are kept or not.
    """
    request = produce_to(topic, 0, data=batch(1))
    with Wire(cluster.broker(1).address) as wire:
        wire.send(request, 9)
        whole = wire.socket.recv(4096)
    for cut_at in range(len(whole) + 1):
        cluster.faults.cut("Produce", after_bytes=cut_at, executed=executed)
        with Wire(cluster.broker(1).address) as wire:
            wire.send(request, 9)
            came = b"".join(iter(lambda: wire.socket.recv(4096), b""))
        assert len(came) == cut_at
        assert came[:4] == whole[:4][:cut_at]
    with Wire(cluster.broker(1).address) as wire:
        (code, base_offset) = outcome(wire.ask(request, 9))[0]
    assert (code, base_offset) == (0, 1 + (len(whole) + 1) * executed)


def test_a_dropped_request_is_never_answered(
    cluster: LocalCluster, topic: str, batch: Batch
) -> None:
    for executed in (False, True):
        cluster.faults.drop("Produce", executed=executed)
        with Wire(cluster.broker(1).address, timeout_s=0.1) as wire:
            wire.send(produce_to(topic, 0, data=batch(1)), 9)
            with pytest.raises(TimeoutError):
                wire.receive_frame()
            wire.send(ApiVersions(), 0)
            with pytest.raises(TimeoutError):
                wire.receive_frame()
    with Wire(cluster.broker(1).address) as wire:
        assert outcome(wire.ask(produce_to(topic, 0, data=batch(1)), 9)) == {0: (0, 1)}, (
            "one of the two was kept"
        )


def test_c08_answers_leave_in_another_order(cluster: LocalCluster, topic: str) -> None:
    cluster.faults.reorder("Metadata")
    with Wire(cluster.broker(1).address) as wire:
        wire.send(Metadata(topics=[]), 9)
        wire.send(ApiVersions(), 0)
        first, second = wire.receive_frame(), wire.receive_frame()
    assert (int.from_bytes(first[:4], "big"), int.from_bytes(second[:4], "big")) == (2, 1)
    assert (
        decode_response(ApiKey.METADATA, 9, memoryview(second))[1].cluster_id == cluster.cluster_id
    )


def test_c17_an_answer_with_a_byte_turned_over(cluster: LocalCluster, topic: str) -> None:
    with Wire(cluster.broker(1).address) as wire:
        wire.send(ApiVersions(), 0)
        right = wire.receive_frame()
    # 4 of the size, 4 of the correlation id: the error code
    cluster.faults.corrupt("ApiVersions", at_byte=8)
    cluster.faults.corrupt("ApiVersions")
    for turned in ([4], None):
        with Wire(cluster.broker(1).address) as wire:
            wire.send(ApiVersions(), 0)
            wrong = wire.receive_frame()
        found = [at for at, (a, b) in enumerate(zip(right, wrong, strict=True)) if a != b]
        assert found == turned or (turned is None and len(found) == 1)


async def test_c17_a_client_meets_a_corrupt_size(cluster: LocalCluster) -> None:
    cluster.faults.corrupt("ApiVersions", times=-1, at_byte=0)
    with pytest.raises(RemoteProtocolError):
        await open_connection(cluster.bootstrap_servers.split(",")[0])


async def test_delays_go_by_the_clusters_clock() -> None:
    """Before the request is acted on, or after."""
    clock = ManualClock()
    async with AsyncLocalCluster(1, "4.3", clock=clock, seed=1) as cluster:
        cluster.faults.delay("CreateTopics", 1_000, times=1)
        cluster.faults.delay("CreateTopics", 1_000, times=1, executed=True)
        for made_before in (False, True):
            name = f"t{made_before}"
            connection = await open_connection(cluster.bootstrap_servers)
            wanted = CreateTopics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            asked = connection.submit(CreateTopics(topics=[wanted], timeout_ms=5_000))
            while not cluster.requests("CreateTopics", topic=name):
                await clock.advance(0)
            await clock.advance(999)
            assert (name in cluster.state.image.topics) is made_before
            assert not asked.done()
            await clock.advance(1)
            assert (await asked).message.topics[0].error_code == 0
            await connection.close()


def test_the_clock_of_a_running_cluster_moves_on(cluster: LocalCluster) -> None:
    cluster.faults.delay("ApiVersions", 3_600_000, times=1)
    before = cluster._call(lambda: cluster._cluster.now_ms)
    with Wire(cluster.broker(1).address) as wire:
        wire.send(ApiVersions(), 0)
        while not cluster.requests("ApiVersions"):
            pass
        cluster.advance(3_600_000)
        assert wire.receive_frame(), "an hour has passed"
    assert cluster._call(lambda: cluster._cluster.now_ms) - before >= 3_600_000
    with pytest.raises(ConfigError, match="cannot move by -1 ms"):
        cluster.advance(-1)


async def test_an_advanced_clock_runs_what_falls_due_in_order() -> None:
    clock, seen = AdvancingClock(), []
    now = clock.now_ms()
    clock.call_at_ms(now + 2_000, lambda: seen.append("second"))
    clock.call_at_ms(now + 1_000, lambda: seen.append("first"))
    clock.call_at_ms(now + 1_500, lambda: seen.append("called off")).cancel()
    clock.call_at_ms(now + 900_000, lambda: seen.append("later"))
    await clock.advance(10_000)
    assert seen == ["first", "second"]
    await clock.sleep_ms(1)
    assert seen == ["first", "second"]


# -- what an isolated broker cannot do, and the journal --------------------------------------------


def test_a_broker_that_is_cut_off_cannot_ask_the_others(cluster: LocalCluster, topic: str) -> None:
    cluster.scenes.isolate(1)
    with Wire(cluster.broker(1).address) as wire:
        wanted = CreateTopics.CreatableTopic(name="never", num_partitions=1, replication_factor=1)
        assert wire.ask(CreateTopics(topics=[wanted], timeout_ms=100), 5).topics[0].error_code == 7
        asked = Metadata(
            topics=[Metadata.MetadataRequestTopic(name="never")], allow_auto_topic_creation=True
        )
        assert wire.ask(asked, 9).topics[0].error_code == 3
        assert wire.ask(OffsetFetch(group_id="g", topics=None), 5).error_code == 15
    cluster.scenes.heal()


def test_the_journal_reports_clients_topics_partitions_and_bytes(
    cluster: LocalCluster, topic: str, talk_to: Connect, batch: Batch
) -> None:
    cluster.clear_requests()
    with Wire(cluster.broker(1).address) as wire:
        request = produce_to(topic, 0, 2, data=batch(1))
        wire.ask(request, 9)
        wire.ask(ApiVersions(), 0)
    talk_to(cluster, 1, topic).fetch(0, version=13)
    (produced,) = cluster.requests("Produce")
    assert (produced.client_id, produced.version, produced.broker) == ("wire", 9, 1)
    assert produced.asked() == {topic: (0, 2)}
    assert produced.size_bytes > 2 * len(batch(1))
    names = cluster._cluster.state.image.names
    assert [(entry.api, entry.asked(names)) for entry in cluster.requests(topic=topic)] == [
        ("Produce", {topic: (0, 2)}),
        ("Fetch", {topic: (0,)}),
    ]
    assert len(cluster.requests(client_id="wire")) == 3
    assert cluster.requests(client_id="nobody") == []
