"""Produce, Fetch and ListOffsets over real sockets: sizes, waiting, formats,
errors of single partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.records import decode_columns, offsets_of, records, split
from parley.schema import ApiKey

TOPIC = "events"
Produce: Any = request_class(ApiKey.PRODUCE)
Fetch: Any = request_class(ApiKey.FETCH)
EpochEnd: Any = request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH)
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Batch = Callable[..., bytes]
pytestmark = pytest.mark.usefixtures("events")


def values(data: Any) -> list[bytes | None]:
    return [
        row.value
        for chunk in decode_columns(data, first_offset=0)
        for row in records(chunk.columns)
    ]


# -- fetch sizes -----------------------------------------------------------------------------------


def test_what_is_produced_is_fetched(leader: Talk, batch: Batch) -> None:
    for number in range(3):
        answer = leader.produce(batch(4, size=number + 1))
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (
            0,
            4 * number,
            0,
        )
    found = leader.fetch(0)
    assert (
        found.error_code,
        found.high_watermark,
        found.last_stable_offset,
        found.log_start_offset,
    ) == (0, 12, 12, 0)
    assert offsets_of(found.records) == list(range(12))
    assert values(found.records)[4:8] == [b"aa", b"bb", b"cc", b"dd"]
    assert [one.leader_epoch for one in split(found.records)] == [
        leader.cluster.leaders(TOPIC)[0][1]
    ] * 3


def test_partition_and_total_limits(leader: Talk, batch: Batch) -> None:
    size = 0
    for _ in range(10):
        leader.produce(batch(4))
        size = size or len(leader.fetch(0).records)
    assert len(leader.fetch(0, partition_max_bytes=3 * size + 5).records) == 3 * size
    assert len(leader.fetch(0, max_bytes=2 * size).records) == 2 * size
    assert len(leader.fetch(0, partition_max_bytes=1).records) == size, (
        "the first batch comes whatever its size"
    )
    assert len(leader.fetch(0, max_bytes=1).records) == size


def test_before_kip_74_a_batch_above_the_limit_is_cut(leader: Talk, batch: Batch) -> None:
    leader.produce(batch(1, size=500))
    found = leader.fetch(0, version=2, partition_max_bytes=100)
    assert len(found.records) == 100
    assert split(found.records) == [], "no whole message: the client must ask for more bytes"


def test_only_the_first_partition_may_pass_the_limit(
    leader: Talk, cluster: LocalCluster, batch: Batch
) -> None:
    cluster.create_topic("two", 2, 3)
    for index in (0, 1):
        if cluster.leaders("two")[index][0] != 1:
            cluster.move_leader("two", index, 1)
        partition = Produce.PartitionProduceData(index=index, records=batch(1, size=1_000))
        topic = Produce.TopicProduceData(name="two", partition_data=[partition])
        leader.wire.ask(Produce(acks=1, timeout_ms=100, topic_data=[topic]), 8)
    asked = [
        Fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=10)
        for index in (0, 1)
    ]
    request = Fetch(
        max_wait_ms=0, min_bytes=0, topics=[Fetch.FetchTopic(topic="two", partitions=asked)]
    )
    sizes = [len(p.records) for p in leader.wire.ask(request, 11).responses[0].partitions]
    assert sizes[0] > 1_000
    assert sizes[1] == 0
    cluster.delete_topic("two")


# -- waiting ---------------------------------------------------------------------------------------


def test_a_waiting_fetch_is_woken_by_an_append(
    leader: Talk, cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    request = leader.fetch_request(0, version=11, max_wait_ms=60_000)
    leader.wire.send(request, 11)
    talk_to(cluster, 1).produce(batch(2))
    found = leader.wire.receive(request, 11).responses[0].partitions[0]
    assert offsets_of(found.records) == [0, 1]


def test_min_bytes_are_waited_for(
    leader: Talk, cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    size = len(batch(1))
    request = leader.fetch_request(0, version=11, max_wait_ms=60_000, min_bytes=3 * size)
    leader.wire.send(request, 11)
    producer = talk_to(cluster, 1)
    for _ in range(3):
        producer.produce(batch(1))
    found = leader.wire.receive(request, 11).responses[0].partitions[0]
    assert offsets_of(found.records) == [0, 1, 2]


def test_an_empty_fetch_is_answered_at_its_deadline(leader: Talk) -> None:
    found = leader.fetch(0, max_wait_ms=30)
    assert (found.error_code, len(found.records)) == (0, 0)


@pytest.mark.parametrize("what", ["move", "delete"])
def test_a_waiting_fetch_hears_of_a_change_at_once(
    leader: Talk, cluster: LocalCluster, talk_to: Callable[..., Talk], what: str
) -> None:
    request = leader.fetch_request(0, version=10, max_wait_ms=60_000)
    leader.wire.send(request, 10)
    # a round trip on another connection: the first fetch has begun to wait
    talk_to(cluster, 1).fetch(0)
    if what == "move":
        cluster.move_leader(TOPIC, 0, 2)
    else:
        cluster.delete_topic(TOPIC)
        cluster.create_topic(TOPIC)
    code = leader.wire.receive(request, 10).responses[0].partitions[0].error_code
    assert code == 6


def test_acks_all_waits_for_the_followers(
    leader: Talk, cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    replication = cluster._cluster.state.replication
    replication.lagging |= {2, 3}
    request = leader.produce_request(batch(1), version=8, timeout_ms=60_000)
    leader.wire.send(request, 8)
    other = talk_to(cluster, 1)
    assert other.fetch(0).high_watermark == 0, "appended by the leader, not acknowledged"
    assert len(other.fetch(0).records) == 0
    assert other.produce(batch(1), timeout_ms=20).error_code == 7, "REQUEST_TIMED_OUT"
    assert other.produce(batch(1), acks=1).error_code == 0
    replication.lagging.clear()
    other.produce(batch(1), acks=1)  # takes the followers along
    answer = leader.wire.receive(request, 8).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)


# -- errors of produce -----------------------------------------------------------------------------


def test_an_idempotent_batch_sent_again_has_its_first_offset(leader: Talk, batch: Batch) -> None:
    once = batch(3, producer_id=500, producer_epoch=0, base_sequence=0)
    assert [leader.produce(once).base_offset for _ in range(3)] == [0, 0, 0]
    gap = leader.produce(batch(1, producer_id=500, producer_epoch=0, base_sequence=9))
    assert (gap.error_code, gap.base_offset) == (45, -1)
    assert leader.fetch(0).high_watermark == 3


def test_acks_0_is_not_answered_and_a_failure_closes(
    leader: Talk, cluster: LocalCluster, batch: Batch
) -> None:
    leader.wire.send(leader.produce_request(batch(1), version=8, acks=0), 8)
    assert leader.fetch(0).high_watermark == 1, "the next answer is the fetch's"
    leader.wire.send(leader.produce_request(b"garbage" * 20, version=8, acks=0), 8)
    assert leader.wire.receive_frame() == b""


@pytest.mark.parametrize("acks", [2, -2, 17])
def test_acks_that_do_not_exist(leader: Talk, acks: int, batch: Batch) -> None:
    assert leader.produce(batch(1), acks=acks).error_code == 21


def test_damaged_and_too_large_batches(leader: Talk, batch: Batch) -> None:
    damaged = bytearray(batch(2))
    damaged[-1] ^= 1
    answer = leader.produce(bytes(damaged))
    assert (answer.error_code, answer.base_offset) == (2, -1)
    assert leader.produce(batch(1, size=1_100_000, max_batch_bytes=2_000_000)).error_code == 10
    assert leader.produce(b"").error_code == 87
    assert leader.produce(batch(1, magic=1)).error_code == 87
    assert leader.fetch(0).high_watermark == 0


def test_min_insync_replicas(
    cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    cluster.create_topic("safe", 1, 3, {"min.insync.replicas": "3"})
    if cluster.leaders("safe")[0][0] != 1:
        cluster.move_leader("safe", 0, 1)
    talk = talk_to(cluster, 1, "safe")
    assert talk.produce(batch(1)).error_code == 0
    cluster.stop_broker(3)
    assert talk.produce(batch(1)).error_code == 19
    assert talk.produce(batch(1), acks=1).error_code == 0, "acks=1 asks for nobody else"
    cluster.start_broker(3)
    assert talk.produce(batch(1)).base_offset == 2
    cluster.delete_topic("safe")


@pytest.mark.parametrize(("release", "code"), [("2.4", 19), ("3.6", 19), ("3.7", 0), ("4.3", 0)])
def test_fewer_replicas_than_min_insync_replicas(
    release: str, code: int, talk_to: Callable[..., Talk], batch: Batch
) -> None:
    """Since 3.7 all there are are enough; before, acks=all is refused forever."""
    with LocalCluster(brokers=2, release=release) as cluster:
        cluster.create_topic("lone", 1, 1, {"min.insync.replicas": "2"})
        talk = talk_to(cluster, cluster.leaders("lone")[0][0], "lone")
        assert talk.produce(batch(1), version=7, acks=1).error_code == 0
        assert talk.produce(batch(1), version=7).error_code == code
        assert talk.fetch(0).high_watermark == (2 if code == 0 else 1), "all of it can be read"
        cluster.replicas_agree()


def test_log_append_time(cluster: LocalCluster, talk_to: Callable[..., Talk], batch: Batch) -> None:
    cluster.create_topic("stamped", 1, 1, {"message.timestamp.type": "LogAppendTime"})
    talk = talk_to(cluster, cluster.leaders("stamped")[0][0], "stamped")
    answer = talk.produce(batch(2))
    assert answer.log_append_time_ms > 1_600_000_000_000
    (chunk,) = decode_columns(talk.fetch(0).records, first_offset=0)
    assert {(r.timestamp_ms, r.timestamp_type) for r in records(chunk.columns)} == {
        (answer.log_append_time_ms, 1)
    }
    cluster.delete_topic("stamped")


# -- partitions and offsets that are not there -----------------------------------------------------


def test_unknown_partitions_topics_and_ids(leader: Talk, batch: Batch) -> None:
    assert leader.fetch(0, partition=7).error_code == 3
    assert leader.fetch(0, version=13, topic_id=b"x" * 16).error_code == 100
    leader.topic = "absent"
    assert leader.fetch(0).error_code == 3
    assert leader.produce(batch(1)).error_code == 3


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (0, 0), (3, 0), (4, 1), (2**62, 1)])
def test_offsets_out_of_range(leader: Talk, offset: int, code: int, batch: Batch) -> None:
    leader.produce(batch(3))
    assert leader.fetch(offset).error_code == code


def test_fetch_sessions_that_do_not_exist_are_refused(leader: Talk) -> None:
    full = leader.wire.ask(leader.fetch_request(0, version=11, session_id=0, session_epoch=-1), 11)
    assert (full.error_code, full.session_id, len(full.responses)) == (0, 0, 1)
    for session, epoch, code in ((5, 1, 70), (0, 1, 70), (5, -1, 0)):
        request = leader.fetch_request(0, version=11, session_id=session, session_epoch=epoch)
        assert leader.wire.ask(request, 11).error_code == code


def test_a_client_cannot_pose_as_a_follower(leader: Talk) -> None:
    """CVE-2018-17196's lesson: replica ids of brokers are not for clients."""
    assert leader.fetch(0, replica_id=2).error_code == 31


def test_offsets_by_time(leader: Talk, batch: Batch) -> None:
    for number in range(3):
        leader.produce(batch(4, timestamp_ms=1_000 + 100 * number, codec=number % 2))
    for timestamp, offset, found_ms in (
        (0, 0, 1_000), (1_000, 0, 1_000), (1_002, 2, 1_002), (1_004, 4, 1_100), (1_203, 11, 1_203),
        (1_204, -1, -1),
    ):  # fmt: skip
        found = leader.offset(timestamp)
        assert (found.error_code, found.offset, found.timestamp) == (0, offset, found_ms)
    assert (leader.offset(LATEST).offset, leader.offset(EARLIEST).offset) == (12, 0)
    largest = leader.offset(MAX_TIMESTAMP, version=7)
    assert (largest.offset, largest.timestamp) == (11, 1_203)
    assert leader.offset(MAX_TIMESTAMP, version=6).error_code == 35
    assert list(leader.offset(LATEST, version=0, max_num_offsets=10).old_style_offsets) == [12, 0]
    assert list(leader.offset(LATEST, version=0).old_style_offsets) == [12]
    assert list(leader.offset(EARLIEST, version=0).old_style_offsets) == [0]


# -- old readers and old writers -------------------------------------------------------------------


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)])
def test_old_readers_get_their_own_format(
    leader: Talk, version: int, magic: int, codec: int, batch: Batch
) -> None:
    for _ in range(3):
        leader.produce(batch(4, codec=codec))
    read: list[bytes | None] = []
    while len(read) < 12:  # what grows by conversion comes in more answers than one
        found = leader.fetch(len(read), version=version)
        assert {one.magic for one in split(found.records)} == {magic}
        fresh = [n for n, offset in enumerate(offsets_of(found.records)) if offset >= len(read)]
        assert fresh
        read += values(found.records)[fresh[0] :]
    assert read == [bytes([97 + i]) * 10 for i in range(4)] * 3


def test_zstd_is_refused_to_old_readers(leader: Talk, batch: Batch) -> None:
    leader.produce(batch(4, codec=4))
    for version, code in ((9, 76), (3, 76), (0, 76), (10, 0)):
        assert leader.fetch(0, version=version).error_code == code
    assert leader.produce(batch(4, codec=4), version=6).error_code == 76


@pytest.mark.parametrize(("release", "magic"), [("0.9", 0), ("0.10", 1), ("0.11", 2), ("4.3", 2)])
def test_each_release_stores_its_own_format(
    talk_to: Callable[..., Talk], release: str, magic: int, batch: Batch
) -> None:
    with LocalCluster(brokers=1, release=release) as cluster:
        cluster.create_topic(TOPIC)
        talk = talk_to(cluster)
        newest = cluster._cluster.broker(1).profile.ranges[0].max
        produced = talk.produce(batch(3, magic=magic), version=newest)
        assert (produced.error_code, produced.base_offset) == (0, 0)
        talk.produce(batch(3, magic=0), version=0) if release != "4.3" else talk.produce(
            batch(3), version=newest
        )
        fetched = talk.fetch(0, version=cluster._cluster.broker(1).profile.ranges[1].max)
        assert {one.magic for one in split(fetched.records)} == {magic}
        assert offsets_of(fetched.records) == list(range(6))


def test_a_full_disk_answers_a_storage_error_and_loses_nothing(
    tmp_path: Any, talk_to: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch, batch: Batch
) -> None:
    import os

    def full(fd: int, data: bytes, at: int) -> int:
        raise OSError(28, "No space left on device")

    with LocalCluster(brokers=1, release="3.9", data_dir=tmp_path) as cluster:
        cluster.create_topic(TOPIC)
        talk = talk_to(cluster)
        talk.produce(batch(3))
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            assert talk.produce(batch(3)).error_code == 56
            assert talk.fetch(0).high_watermark == 3
        assert talk.produce(batch(2)).base_offset == 3
        assert offsets_of(talk.fetch(0).records) == list(range(5))
