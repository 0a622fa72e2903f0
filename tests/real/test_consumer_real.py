"""The consumer against real brokers: sessions, positions and commits with epochs,
lost and re-created topics.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from parley.client import (
    Client,
    Consumer,
    EpochEndOffset,
    NewTopic,
    OffsetAndMetadata,
    ProduceOptions,
    TopicPartition,
)
from parley.client.fetch.positions import Cause
from parley.errors import BrokerError, KafkaError, LogTruncationError, TopicRecreatedError
from parley.messages import DeleteRecordsRequest, ElectLeadersRequest
from parley.testing.realbroker import RealCluster

from ..support import GENEROUS_MS, GENEROUS_S

RELEASES = ("2.4.1", "3.9.1", "4.3.0")
PARTITIONS = 3
CALM = {"retry_backoff_ms": 50, "fetch_max_wait_ms": 100}


@pytest.fixture(params=RELEASES)
def broker(
    request: pytest.FixtureRequest, real_cluster: Callable[[str], RealCluster]
) -> RealCluster:
    return real_cluster(request.param)


def write(client: Client, topic: str, count: int, partition: int | None = None) -> None:
    rows = pa.table({"value": [str(i) for i in range(count)]})
    client.produce(topic, rows, partition, options=ProduceOptions(batch_size=500))


def consumer_of(broker: RealCluster, **options: Any) -> Consumer:
    return Consumer(bootstrap_servers=broker.bootstrap_servers, **{**CALM, **options})


def take(consumer: Consumer, count: int) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {}
    while sum(map(len, found.values())) < count:
        got = consumer.getmany(
            timeout_ms=GENEROUS_MS, max_records=count - sum(map(len, found.values()))
        )
        for tp, records in got.items():
            found.setdefault(tp, []).extend(record.offset for record in records)
    return found


def test_p17_a_real_session_follows_seeks_pauses_and_assignments(
    broker: RealCluster, client: Client, topic: str
) -> None:
    tps = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    with consumer_of(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign(tps)
        for turn in range(5):
            for tp in tps:
                write(client, topic, 40, tp.partition)
            assert take(consumer, 120) == {tp: [*range(turn * 40, turn * 40 + 40)] for tp in tps}
        standing = consumer._core.fetch._fetcher._lanes._standing.values()
        assert any(found.session.session_id and found.session.epoch > 3 for found in standing), (
            "the broker keeps a session"
        )
        consumer.pause(tps[0])
        write(client, topic, 10, 0)
        write(client, topic, 10, 1)
        assert take(consumer, 10) == {tps[1]: [*range(200, 210)]}
        consumer.seek(tps[2], 195)
        assert take(consumer, 5) == {tps[2]: [*range(195, 200)]}
        consumer.resume(tps[0])
        assert take(consumer, 10) == {tps[0]: [*range(200, 210)]}
        consumer.assign(tps[:1])
        write(client, topic, 5, 0)
        write(client, topic, 5, 1)
        assert take(consumer, 5) == {tps[0]: [*range(210, 215)]}
        assert consumer.highwater(tps[0]) == consumer.last_stable_offset(tps[0]) == 215


@pytest.mark.foreign
def test_commits_are_read_by_confluent_and_theirs_by_us_epochs_included(
    broker: RealCluster, client: Client, topic: str
) -> None:
    from confluent_kafka import Consumer, TopicPartition as Theirs

    tp, group = TopicPartition(topic, 0), f"g-{os.urandom(4).hex()}"
    write(client, topic, 30, 0)
    with consumer_of(broker, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        take(consumer, 12)
        ours = consumer.position_with_epoch(tp)
        assert (ours.offset, ours.leader_epoch >= 0) == (12, True)
        consumer.commit()
        foreign = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
            }
        )
        try:
            (theirs,) = foreign.committed([Theirs(topic, 0)], timeout=GENEROUS_S)
            assert (theirs.offset, theirs.leader_epoch) == (12, ours.leader_epoch)
            foreign.assign([Theirs(topic, 0, 12)])
            messages = []
            while len(messages) < 8:
                messages += foreign.consume(8 - len(messages), timeout=GENEROUS_S)
            last = messages[-1]
            given = Theirs(topic, 0, last.offset() + 1)
            foreign.commit(message=last, asynchronous=False)
            assert given.offset == 20
        finally:
            foreign.close()
        found = consumer.committed(tp)
        assert found is not None
        assert (found.offset, found.leader_epoch) == (20, last.leader_epoch())
        assert found.leader_epoch == ours.leader_epoch, "the epoch of the record before"
    with consumer_of(broker, group_id=group) as consumer:
        consumer.assign([tp])
        assert take(consumer, 10) == {tp: [*range(20, 30)]}


def test_p08_a_position_of_an_epoch_that_never_was_is_found_out(
    broker: RealCluster, client: Client, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    write(client, topic, 10, 0)
    assert client.offsets_for_leader_epochs({tp: 0}) == {tp: EpochEndOffset(0, 10)}
    assert client.offsets_for_leader_epochs({tp: 99}) == {tp: EpochEndOffset(-1, -1)}
    with consumer_of(broker, auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, OffsetAndMetadata(5, "", 0))
        assert take(consumer, 2) == {tp: [5, 6]}
        consumer.seek(tp, OffsetAndMetadata(5, "", 99))
        with pytest.raises(LogTruncationError, match="knows nothing of that epoch"):
            consumer.getmany(timeout_ms=GENEROUS_MS)
        consumer.seek(tp, OffsetAndMetadata(12, "", 0))
        with pytest.raises(LogTruncationError) as raised:
            consumer.getmany(timeout_ms=GENEROUS_MS)
        assert (raised.value.position, raised.value.divergent_offset) == (12, 10)


def test_p15_deleted_records_are_reported_and_reading_goes_on(
    broker: RealCluster, client: Client, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    write(client, topic, 20, 0)
    make = DeleteRecordsRequest
    parts = [make.DeleteRecordsPartition(partition_index=0, offset=15)]
    request = make(
        topics=[make.DeleteRecordsTopic(name=topic, partitions=parts)], timeout_ms=10_000
    )
    leader = client.metadata([topic]).leader(tp)
    assert leader is not None
    answer = client.request(leader.id, request)
    assert answer.topics[0].partitions[0].error_code == 0
    with consumer_of(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 3)
        assert take(consumer, 5) == {tp: [*range(15, 20)]}
        (loss,) = consumer.data_losses
        assert (loss.cause, loss.position.offset, loss.resumed_at) == (Cause.OUT_OF_RANGE, 3, 15)


@pytest.mark.parametrize("broker", ["0.10.2.2", "2.4.1"], indirect=True)
def test_p15_a_real_topic_created_again_with_older_records_is_read_whole(
    broker: RealCluster, client: Client, topic: str
) -> None:
    """Below 2.8 another topic looks like a log that became shorter: `earliest`
    reads all that is there.
    """
    tp = TopicPartition(topic, 0)
    write_at(client, tp, 100, 1_700_000_000_000)
    with consumer_of(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        take(consumer, 100)
        client.delete_topics([topic])
        until_created(client, topic)
        write_at(client, tp, 60, 1_500_000_000_000)
        found = consumer.getmany(timeout_ms=60_000, max_records=60)
        assert found, "what is there is read, and not skipped"
        got = [record.offset for record in found[tp]]
        assert got + (take(consumer, 60 - len(got))[tp] if len(got) < 60 else []) == [*range(60)]
        assert [loss.resumed_at for loss in consumer.data_losses] == [0]


def write_at(client: Client, tp: TopicPartition, count: int, timestamp_ms: int) -> None:
    """Write records that all have one timestamp, in one batch: a reader sees none
    of them, or the whole log.
    """
    times = pa.array([timestamp_ms] * count, pa.timestamp("ms", "UTC"))
    rows = pa.table({"value": [str(i) for i in range(count)], "timestamp": times})
    deadline = time.monotonic() + GENEROUS_S
    while True:
        try:
            client.produce(
                tp.topic, rows, tp.partition, options=ProduceOptions(enable_idempotence=False)
            )
            return
        except BrokerError:  # a topic that was just created again
            assert time.monotonic() < deadline


def until_created(client: Client, topic: str) -> None:
    """Create a topic whose predecessor may still be being deleted."""
    deadline = time.monotonic() + GENEROUS_S
    while True:
        try:
            client.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
            return
        except BrokerError:
            assert time.monotonic() < deadline


@pytest.mark.parametrize(
    "broker", [pytest.param("3.9.1", marks=pytest.mark.matrix), "4.3.0"], indirect=True
)
@pytest.mark.parametrize("policy", ["latest", "none"])
def test_l12_a_real_topic_created_again_is_another_topic(
    broker: RealCluster, client: Client, topic: str, policy: str
) -> None:
    tp = TopicPartition(topic, 0)
    write(client, topic, 10, 0)
    with consumer_of(broker, auto_offset_reset=policy) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        take(consumer, 10)
        client.delete_topics([topic])
        until_created(client, topic)
        write(client, topic, 15, 0)
        if policy == "none":
            with pytest.raises(TopicRecreatedError):
                until_reported(consumer)
            return
        assert take(consumer, 15) == {tp: [*range(15)]}
        assert [loss.cause for loss in consumer.data_losses] == [Cause.RECREATED]


def until_reported(consumer: Consumer) -> None:
    """Read until an error comes. During a deletion brokers answer this and that;
    none of it is an error here.
    """
    deadline = time.monotonic() + GENEROUS_S
    while time.monotonic() < deadline:
        consumer.getmany(timeout_ms=500)
    raise KafkaError("no error came")


def elect_unclean(client: Client, tp: TopicPartition, wanted: int) -> None:
    """Let a broker lead that is not in sync, as soon as the controller knows that it is back."""
    deadline = time.monotonic() + GENEROUS_S
    topics = [ElectLeadersRequest.TopicPartitions(topic=tp.topic, partitions=[tp.partition])]
    while True:
        found = client.metadata([tp.topic])
        leader = found.leader(tp)
        if leader is not None and leader.id == wanted:
            return
        assert time.monotonic() < deadline, found
        request = ElectLeadersRequest(election_type=1, topic_partitions=topics, timeout_ms=5_000)
        with contextlib.suppress(KafkaError):
            client.request(found.controller_id, request, timeout_ms=5_000)


@pytest.mark.kills
@pytest.mark.parametrize("release", ["3.9.1", pytest.param("2.4.1", marks=pytest.mark.long)])
def test_p07_a_real_unclean_election_is_found_out(release: str, topic_name: str) -> None:
    """The follower is down while records are written, then the leader is: what
    only that one had is gone.
    """
    settings = {
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.replication.factor": "1",
        "zookeeper.session.timeout.ms": "2000",
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "300",
        "controlled.shutdown.enable": "false",
    }
    tp = TopicPartition(topic_name, 0)
    quick = {"retry_backoff_ms": 50, "request_timeout_ms": 5_000}
    with (
        RealCluster(
            release, brokers=3, properties=settings, separate_controller=release >= "3.3"
        ) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers, **quick) as client,
        consumer_of(cluster, auto_offset_reset="earliest") as consumer,
    ):
        client.create_topics([NewTopic(topic_name, -1, -1, replica_assignments={0: [2, 3]})])
        write(client, topic_name, 10, 0)
        consumer.assign([tp])
        cluster.kill(3)
        write(client, topic_name, 10, 0)
        assert take(consumer, 20) == {tp: [*range(20)]}
        cluster.kill(2)
        cluster.start_broker(3)
        elect_unclean(client, tp, 3)
        write(client, topic_name, 25, 0)
        assert take(consumer, 25) == {tp: [*range(10, 35)]}
        (loss,) = consumer.data_losses
        assert (loss.cause, loss.position.offset, loss.resumed_at) == (Cause.TRUNCATED, 20, 10)
