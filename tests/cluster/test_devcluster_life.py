"""A cluster's life: start, stop, kill, upgrade, topics, groups, faults, the journal, the clock."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from parley.devcluster import AsyncLocalCluster, ClusterSettings, LocalCluster
from parley.errors import ConfigError, NetworkError
from parley.messages import request_class
from parley.net import ConnectOptions, ManualClock, open_connection
from parley.records import offsets_of
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

from .conftest import metadata

TOPIC = "events"
Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Batch = Callable[..., bytes]
ApiVersions: Any = request_class(ApiKey.API_VERSIONS)
Fetch: Any = request_class(ApiKey.FETCH)
Metadata: Any = request_class(ApiKey.METADATA)


# -- start and stop --------------------------------------------------------------------------------


@pytest.mark.long  # a matter of speed: it says something on a quiet machine only
def test_three_brokers_are_ready_in_half_a_second() -> None:
    begun = time.perf_counter()
    with LocalCluster() as cluster:
        took = time.perf_counter() - begun
        for broker in cluster.brokers:
            with Wire(broker.address) as wire:
                assert wire.ask(ApiVersions(), 0).error_code == 0
    assert took < 0.5


def test_a_cluster_shows_its_brokers() -> None:
    made = LocalCluster(brokers=[1, 2, 7], release="4.3", releases={2: "2.4"})
    assert repr(made) == "LocalCluster(not started, 1: 4.3; 2: 2.4; 7: 4.3)"
    with made as cluster:
        first, second, third = (broker.address for broker in cluster.brokers)
        cluster.stop_broker(2)
        cluster.scenes.isolate(7)
        shown = (
            f"1: 4.3.0 at {first}; 2: 2.4.1 at {second}, stopped; 7: 4.3.0 at {third}, isolated)"
        )
        assert repr(cluster) == f"LocalCluster(running, {shown}"
        assert repr(cluster._cluster) == f"AsyncLocalCluster(running, {shown}"
        cluster.scenes.heal()
    shown = f"1: 4.3.0 at {first}; 2: 2.4.1 at {second}; 7: 4.3.0 at {third}"
    assert repr(made) == f"LocalCluster(closed, {shown})"
    many = repr(AsyncLocalCluster(brokers=12, release="3.9"))
    assert many.endswith("; 10: 3.9; and 2 more)")


def test_sixteen_clusters_in_one_process_do_not_meet() -> None:
    clusters = [LocalCluster(brokers=2).start() for _ in range(16)]
    try:
        addresses = [broker.address for cluster in clusters for broker in cluster.brokers]
        assert len(set(addresses)) == 32
        assert len({cluster.cluster_id for cluster in clusters}) == 16
        clusters[0].create_topic(TOPIC)
        assert metadata(clusters[1].bootstrap_servers.split(",")[0]).topics == []
    finally:
        for cluster in clusters:
            cluster.close()
    for address in addresses:
        host, port = address.split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=1)


def test_only_loopback_is_bound() -> None:
    with LocalCluster(brokers=1) as cluster:
        assert cluster.bootstrap_servers.startswith("127.0.0.1:")


def test_closing_leaves_no_thread() -> None:
    before = threading.active_count()
    cluster = LocalCluster(brokers=1).start()
    assert threading.active_count() > before
    cluster.close()
    cluster.close()
    assert threading.active_count() == before
    with pytest.raises(ConfigError, match="start"):
        cluster.create_topic(TOPIC)


def test_a_cluster_can_be_started_again_at_the_same_ports() -> None:
    cluster = LocalCluster(brokers=2).start()
    first = cluster.bootstrap_servers
    cluster.close()
    with cluster:
        assert cluster.bootstrap_servers == first


def test_ports_are_those_asked_for_and_a_taken_one_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NetworkError, match=str(port)):
            LocalCluster(brokers=1, port=port).start()
    with LocalCluster(brokers=1, port=port) as cluster:
        assert cluster.bootstrap_servers == f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    "end", [LocalCluster.kill_broker, LocalCluster.stop_broker], ids=["killed", "stopped"]
)
def test_nobody_else_gets_the_port_of_a_broker_that_is_away(
    end: Callable[[LocalCluster, int], None],
) -> None:
    """Another program there, another cluster say, would be taken for this one
    by the broker's clients.
    """
    with LocalCluster(brokers=2) as cluster:
        port = int(cluster.bootstrap_servers.split(",")[0].rpartition(":")[2])
        end(cluster, 1)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        cluster.start_broker(1)
        socket.create_connection(("127.0.0.1", port)).close()
        end(cluster, 1)
    with socket.create_server(("127.0.0.1", port)):
        pass  # the cluster is closed: anybody may have it


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"release": "9.9"}, "9.9"),
        ({"releases": {4: "3.9"}}, "no broker 4"),
        ({"brokers": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        LocalCluster(**arguments).start()


def test_misuse_is_reported() -> None:
    with LocalCluster(brokers=1) as cluster:
        for call, text in (
            (lambda: cluster.broker(9), "no broker 9"),
            (lambda: cluster.start_broker(1), "runs already"),
            (lambda: cluster.leaders("absent"), "absent"),
            (lambda: cluster.create_topic("a b"), "ASCII"),
            (lambda: cluster.create_topic("t", 1, 5), "larger than available brokers: 1"),
            (lambda: cluster.faults.fail("Produse", 6), 'Did you mean "produce"'),
            (lambda: cluster.faults.fail("Produce", "NOT_LEADER"), "NOT_LEADER"),
        ):
            with pytest.raises(ConfigError, match=text):
                call()
        cluster.stop_broker(1)
        with pytest.raises(ConfigError, match="does not run"):
            cluster.kill_broker(1)


# -- brokers come and go ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_leader_that_goes_is_followed_and_comes_back(
    talk_to: Callable[..., Talk], batch: Batch, how: str
) -> None:
    with LocalCluster(release="3.9") as cluster:
        cluster.create_topic(TOPIC)
        leader, epoch = cluster.leaders(TOPIC)[0]
        old = talk_to(cluster, leader)
        old.produce(batch(3))
        getattr(cluster.broker(leader), how)()
        assert old.wire.receive_frame() == b"", "its connections are over"
        assert not cluster.broker(leader).running
        new_leader, new_epoch = cluster.leaders(TOPIC)[0]
        assert new_leader != leader
        assert new_epoch == epoch + 1
        new = talk_to(cluster, new_leader)
        assert offsets_of(new.fetch(0).records) == [0, 1, 2]
        assert new.produce(batch(2)).base_offset == 3
        reported = metadata(cluster.broker(new_leader).address, 9, TOPIC)
        assert leader not in [broker.node_id for broker in reported.brokers]
        assert reported.topics[0].partitions[0].offline_replicas == [leader]
        address = cluster.broker(leader).address
        cluster.broker(leader).start()
        assert cluster.broker(leader).address == address
        reported = metadata(address, 9, TOPIC).topics[0].partitions[0]
        assert (reported.leader_id, sorted(reported.isr_nodes)) == (new_leader, [1, 2, 3])
        assert offsets_of(talk_to(cluster, leader).fetch(0).records) == [0, 1, 2, 3, 4], (
            "it has caught up"
        )


def test_a_killed_connection_is_reset_not_closed(talk_to: Callable[..., Talk]) -> None:
    with LocalCluster(brokers=2) as cluster:
        cluster.create_topic(TOPIC)
        talk = talk_to(cluster, 1)
        talk.fetch(0, version=11)
        cluster.kill_broker(1)
        with pytest.raises(ConnectionResetError):
            talk.wire.socket.recv(1)


def test_upgrade_and_downgrade_under_live_data(talk_to: Callable[..., Talk], batch: Batch) -> None:
    with LocalCluster(brokers=2, release="2.4") as cluster:
        cluster.create_topic(TOPIC, 1, 2)
        expected = 0
        for release, newest in (("2.4", 3), ("3.9", 4), ("4.3", 4), ("2.4", 3)):
            for broker in cluster.brokers:
                broker.stop()
                broker.start(release)
                with Wire(broker.address) as wire:
                    ranges = {
                        api.api_key: api.max_version for api in wire.ask(ApiVersions(), 0).api_keys
                    }
                assert ranges[18] == newest
            talk = talk_to(cluster, cluster.leaders(TOPIC)[0][0])
            assert talk.produce(batch(5)).base_offset == expected
            expected += 5
            assert offsets_of(talk.fetch(0).records) == list(range(expected))
        assert [broker.release for broker in cluster.brokers] == ["2.4.1", "2.4.1"]


def test_each_broker_speaks_as_its_own_release() -> None:
    with LocalCluster(release="3.9", releases={1: "0.10", 3: "4.3"}) as cluster:
        reported = []
        for broker in cluster.brokers:
            with Wire(broker.address) as wire:
                answer = wire.ask(ApiVersions(), 0)
            reported.append(
                {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}[1]
            )
        assert reported == [(0, 3), (0, 17), (4, 18)]


def test_move_leader_to_any_broker(talk_to: Callable[..., Talk], batch: Batch) -> None:
    with LocalCluster() as cluster:
        cluster.create_topic(TOPIC, 1, 1)
        for turn in range(1, 7):
            to = cluster.leaders(TOPIC)[0][0] % 3 + 1
            cluster.move_leader(TOPIC, 0, to)
            assert cluster.leaders(TOPIC)[0][0] == to
            assert talk_to(cluster, to).produce(batch(1)).base_offset == turn - 1


# -- faults, journal, clock ------------------------------------------------------------------------


def test_injected_errors_cuts_and_lost_answers(talk_to: Callable[..., Talk], batch: Batch) -> None:
    with LocalCluster(brokers=1, release="3.9") as cluster:
        cluster.create_topic(TOPIC)
        talk = talk_to(cluster)
        cluster.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)
        assert [talk.produce(batch(1)).error_code for _ in range(3)] == [19, 19, 0]
        cluster.faults.cut("Produce", executed=True)
        talk.wire.send(talk.produce_request(batch(1), version=8), 8)
        assert talk.wire.receive_frame() == b""
        talk = talk_to(cluster)
        assert talk.fetch(0).high_watermark == 2, "appended; only the answer is lost"
        cluster.faults.cut()
        talk.wire.send(talk.produce_request(batch(1), version=8), 8)
        assert talk.wire.receive_frame() == b""
        assert talk_to(cluster).fetch(0).high_watermark == 2, "not even appended"


def test_the_journal_reports_what_was_asked(talk_to: Callable[..., Talk], batch: Batch) -> None:
    with LocalCluster(brokers=2, release="3.9", releases={2: "2.4"}) as cluster:
        cluster.create_topic(TOPIC, 1, 2)
        leader = cluster.leaders(TOPIC)[0][0]
        talk = talk_to(cluster, leader)
        talk.produce(batch(1), version=8)
        talk.fetch(0, version=11)
        talk.fetch(0, version=10)
        (produced,) = cluster.requests("Produce")
        assert (produced.broker, produced.api, produced.version, produced.client_id) == (
            leader,
            "Produce",
            8,
            "wire",
        )
        assert produced.message.topic_data[0].name == TOPIC
        assert produced.message.topic_data[0].partition_data[0].records is None, (
            "record bytes are not kept"
        )
        assert [entry.version for entry in cluster.requests("fetch", broker=leader)] == [11, 10]
        assert cluster.versions_used() == {leader: {"wire": {"Fetch": (10, 11), "Produce": (8,)}}}
        talk.wire.send(talk.fetch_request(0, version=18, topic_id=bytes(16)), 18)
        assert talk.wire.receive_frame() == b""
        assert "does not serve API 1 v18" in (cluster.requests("Fetch")[-1].refused or "")
        cluster.clear_requests()
        assert cluster.requests() == []


async def test_waiting_goes_by_the_clock_that_is_given(batch: Batch) -> None:
    clock = ManualClock()
    settings = ClusterSettings(start_time_ms=1_700_000_000_000)
    async with AsyncLocalCluster(
        brokers=1, release="3.9", clock=clock, settings=settings, seed=7
    ) as cluster:
        cluster.create_topic(TOPIC, configs={"message.timestamp.type": "LogAppendTime"})
        options = ConnectOptions(bootstrap_servers=cluster.bootstrap_servers)
        connection = await open_connection(cluster.broker(1).address, options)
        topic_id = cluster.state.image.topics[TOPIC].topic_id
        partition = Fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = Fetch.FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[partition])
        waiting = connection.submit(Fetch(max_wait_ms=3_600_000, min_bytes=1, topics=[topic]))
        other = await open_connection(cluster.broker(1).address, options)
        while not clock.waiting:  # one more round trip of the sockets, which no clock drives
            await other.request(Metadata(topics=[]))
        await other.close()
        await clock.advance(3_599_999)
        assert not waiting.done(), "an hour is not over"
        await clock.advance(1)
        assert (await waiting).message.responses[0].partitions[0].error_code == 0
        assert cluster.requests("Fetch")[0].at_ms == 1_700_000_000_000
        assert cluster.now_ms == 1_700_003_600_000
        await connection.close()


async def test_a_client_that_leaves_is_not_waited_for() -> None:
    clock = ManualClock()
    async with AsyncLocalCluster(brokers=1, release="3.9", clock=clock) as cluster:
        cluster.create_topic(TOPIC)
        broker = cluster.broker(1)
        connection = await open_connection(
            broker.address, ConnectOptions(bootstrap_servers=cluster.bootstrap_servers)
        )
        topic = Fetch.FetchTopic(
            topic_id=cluster.state.image.topics[TOPIC].topic_id,
            partitions=[Fetch.FetchPartition(partition=0)],
        )
        planned = clock.waiting  # what the cluster does from time to time
        waiting = connection.submit(Fetch(max_wait_ms=2**31 - 1, min_bytes=1, topics=[topic]))
        other = await open_connection(
            broker.address, ConnectOptions(bootstrap_servers=cluster.bootstrap_servers)
        )
        replica = cluster.state.replication.brokers[1].find(TOPIC, 0)
        while not replica.on_change:
            await other.request(Metadata(topics=[]))
        await connection.close()
        while replica.on_change or clock.waiting > planned:
            await other.request(Metadata(topics=[]))
        with pytest.raises(NetworkError):
            await waiting
        await other.close()


def test_a_seed_makes_ids_repeatable() -> None:
    def ids() -> tuple[str, bytes]:
        with LocalCluster(brokers=1, seed=42) as cluster:
            cluster.create_topic(TOPIC)
            return cluster.cluster_id, cluster._cluster.state.image.topics[TOPIC].topic_id

    assert ids() == ids()


def test_a_delayed_answer_does_not_hold_others_up(
    talk_to: Callable[..., Talk], batch: Batch
) -> None:
    with LocalCluster(brokers=1, release="3.9") as cluster:
        cluster.create_topic(TOPIC)
        slow, quick = talk_to(cluster), talk_to(cluster)
        cluster.faults.delay("Produce", 100, times=1)
        slow.wire.send(slow.produce_request(batch(1), version=8), 8)
        assert quick.fetch(0).high_watermark == 0
        assert slow.wire.receive_frame() != b""
        assert quick.fetch(0).high_watermark == 1
