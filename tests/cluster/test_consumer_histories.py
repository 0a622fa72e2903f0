"""Histories that part: unclean elections, deleted records, topics created again,
brokers that are behind (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley.client import (
    LATEST,
    Client,
    Consumer,
    ConsumerRecord,
    FetchOptions,
    OffsetAndMetadata,
    PartitionRange,
    ProduceOptions,
    TopicPartition,
)
from parley.client.fetch.positions import Cause
from parley.devcluster import LocalCluster
from parley.errors import DataLossError, LogTruncationError, RequestTimedOut, TopicRecreatedError

from ..support import GENEROUS_MS

TP = TopicPartition("t", 0)
RELEASES = ["2.4", "2.8", "4.3"]
QUICK = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50, "fetch_max_wait_ms": 50}
PAIRS = ProduceOptions(batch_size=1, enable_idempotence=False)


@pytest.fixture(params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release=request.param) as running:
        running.create_topic("t", partitions=1, replication_factor=3)
        yield running


def produce(cluster: LocalCluster, word: str, count: int) -> None:
    """Write records in batches of one: so an election can lose an exact number."""
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(
            "t", pa.table({"value": [f"{word} {i}" for i in range(count)]}), options=PAIRS
        )


def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Return exactly so many records."""
    found: list[ConsumerRecord] = []
    while len(found) < count:
        got = consumer.getmany(timeout_ms=GENEROUS_MS, max_records=count - len(found))
        assert got, f"{len(found)} of {count} records came"
        for records in got.values():
            found += records
    return found


def words(records: list[ConsumerRecord]) -> list[tuple[int, str]]:
    return [(record.offset, (record.value or b"").decode()) for record in records]


def consumer_of(cluster: LocalCluster, **options: object) -> Consumer:
    return Consumer(bootstrap_servers=cluster.bootstrap_servers, **{**QUICK, **options})


# -- truncation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_p07_c09_after_an_unclean_election_reading_goes_on_where_the_histories_part(
    cluster: LocalCluster, policy: str
) -> None:
    produce(cluster, "old", 10)
    reported: list[object] = []
    with consumer_of(cluster, auto_offset_reset=policy) as consumer:
        consumer._consumer._core._on_data_loss = reported.append
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert len(take(consumer, 10)) == 10
        cluster.scenes.elect_unclean("t", 0, lose=4)
        produce(cluster, "new", 3)
        assert words(take(consumer, 3)) == [(6, "new 0"), (7, "new 1"), (8, "new 2")], (
            "neither skipped nor repeated"
        )
        (loss,) = consumer.data_losses
        assert (loss.partition, loss.cause, loss.position.offset, loss.resumed_at) == (
            TP,
            Cause.TRUNCATED,
            10,
            6,
        )
        assert reported == [loss]
        assert consumer.position(TP) == 9
    cluster.replicas_agree()


def test_p07_without_a_policy_the_truncation_stands_until_a_seek(cluster: LocalCluster) -> None:
    produce(cluster, "old", 10)
    with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        take(consumer, 10)
        cluster.scenes.elect_unclean("t", 0, lose=4)
        produce(cluster, "new", 8)
        for _ in range(2):
            with pytest.raises(
                LogTruncationError,
                match=r"t-0: the log was truncated below offset 10 .* up to offset 6",
            ):
                consumer.getmany(timeout_ms=GENEROUS_MS)
        assert consumer.position(TP) == 10
        consumer.seek(TP, 6)
        assert words(take(consumer, 2)) == [(6, "new 0"), (7, "new 1")]


def test_p07_a_committed_position_of_a_lost_history_is_found_out_before_anything_is_read(
    cluster: LocalCluster,
) -> None:
    produce(cluster, "old", 10)
    options = {"group_id": "g", "auto_offset_reset": "none"}
    with consumer_of(cluster, **options) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        take(consumer, 10)
        consumer.commit()
        committed = consumer.committed(TP)
    assert committed is not None
    assert (committed.offset, committed.leader_epoch >= 0) == (10, True)
    cluster.scenes.elect_unclean("t", 0, lose=4)
    produce(cluster, "new", 20)
    with consumer_of(cluster, **options) as consumer:
        consumer.assign([TP])
        with pytest.raises(LogTruncationError) as raised:
            consumer.getmany(timeout_ms=GENEROUS_MS)
        assert (raised.value.position, raised.value.divergent_offset) == (10, 6)
        assert raised.value.position_epoch == committed.leader_epoch


def test_p07_a_bounded_reading_does_not_cross_into_another_history(cluster: LocalCluster) -> None:
    produce(cluster, "old", 10)
    with Client(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10) as client:
        options = FetchOptions(fetch_max_wait_ms=50)
        reading = client.fetch_many({TP: PartitionRange(0, 30)}, options)
        seen = 0
        while seen < 10:
            seen += next(reading).batch.num_rows
        cluster.scenes.elect_unclean("t", 0, lose=4)
        produce(cluster, "new", 30)
        with pytest.raises(LogTruncationError) as raised:
            next(reading)
        assert (raised.value.topic, raised.value.partition, raised.value.position) == (*TP, 10)
        assert raised.value.divergent_offset == 6


def test_p07_a_range_planned_in_an_epoch_without_records_is_read(cluster: LocalCluster) -> None:
    produce(cluster, "old", 10)
    for turn in range(4):
        cluster.move_leader("t", 0, turn % 3 + 1)
    with Client(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10) as client:
        planned = client.list_offsets({TP: LATEST})[TP]
        epoch = cluster.leaders("t")[0][1]
        for leader in (3, 2):
            cluster.move_leader("t", 0, leader)
        for start in (0, 5):
            found = client.fetch_many({TP: PartitionRange(start, planned.offset, epoch)})
            assert sum(one.batch.num_rows for one in found) == 10 - start


def test_p13_a_clean_move_neither_loses_nor_repeats(cluster: LocalCluster) -> None:
    with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        for turn in range(6):
            produce(cluster, f"turn {turn}", 5)
            cluster.move_leader("t", 0, turn % 3 + 1)
            assert [offset for offset, _ in words(take(consumer, 5))] == list(
                range(turn * 5, turn * 5 + 5)
            )
        assert consumer.data_losses == ()


def test_p12_a_position_inside_an_answer_has_the_epoch_of_its_own_record(
    cluster: LocalCluster,
) -> None:
    epochs = []
    for turn in range(3):
        cluster.move_leader("t", 0, turn % 3 + 1)
        epochs += [cluster.leaders("t")[0][1]] * 3
        produce(cluster, f"turn {turn}", 3)
    with consumer_of(cluster, auto_offset_reset="earliest", group_id="g") as consumer:
        consumer.assign([TP])
        for offset, epoch in enumerate(epochs):
            record = consumer.getone()
            assert (record.offset, record.leader_epoch) == (offset, epoch)
            assert consumer.position_with_epoch(TP) == OffsetAndMetadata(offset + 1, "", epoch)
        consumer.commit()
        found = consumer.committed(TP)
        assert found is not None
        assert (found.offset, found.leader_epoch) == (9, epochs[-1])
        asked = [entry.message for entry in cluster.requests("OffsetCommit")]
        assert asked[-1].topics[0].partitions[0].committed_leader_epoch == epochs[-1]
        assert asked[-1].generation_id_or_member_epoch == -1


def test_p18_control_batches_and_aborted_records_move_the_position() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=1)
        with (
            Client(bootstrap_servers=cluster.bootstrap_servers) as client,
            client.transactions.producer("p18") as producer,
        ):
            for word, keep in (("a", True), ("b", False), ("c", True), ("d", False)):
                producer.begin_transaction()
                producer.produce("t", pa.table({"value": [f"{word} {i}" for i in range(3)]}))
                (producer.commit_transaction if keep else producer.abort_transaction)()
        with consumer_of(
            cluster, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign([TP])
            assert [word for _, word in words(take(consumer, 6))] == [
                f"{word} {i}" for word in "ac" for i in range(3)
            ]
            (end,) = consumer.end_offsets([TP]).values()
            while consumer.position(TP) < end:
                assert consumer.getmany(timeout_ms=1_000) == {}
            assert (
                (consumer.position(TP), consumer.last_stable_offset(TP)) == (end, end) == (16, 16)
            )


# -- records that are gone -------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "resumed_at"), [("earliest", 8), ("latest", 10)])
def test_p15_c11_deleted_records_are_reported_and_reading_goes_on_by_the_policy(
    cluster: LocalCluster, policy: str, resumed_at: int
) -> None:
    produce(cluster, "old", 10)
    with consumer_of(
        cluster, auto_offset_reset=policy, max_partition_fetch_bytes=1, prefetch_max_bytes=0
    ) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert words(take(consumer, 2))[-1][0] == 1
        consumer.pause(TP)
        cluster.delete_records("t", 0, 8)
        consumer.seek(TP, 2)
        consumer.resume(TP)
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        while not consumer.data_losses:
            found = consumer.getmany(timeout_ms=50, max_records=1)
        produce(cluster, "new", 1)
        first = next(iter(found.values())) if found else take(consumer, 1)
        assert [record.offset for record in first] == [resumed_at], "what Java's consumer does"
        (loss,) = consumer.data_losses
        assert (loss.cause, loss.position.offset, loss.resumed_at) == (
            Cause.OUT_OF_RANGE,
            2,
            resumed_at,
        )


def test_p15_without_a_policy_out_of_range_names_partition_and_offset(
    cluster: LocalCluster,
) -> None:
    produce(cluster, "old", 10)
    with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 99)
        for _ in range(2):
            with pytest.raises(DataLossError, match="offset 99 of t-0 is not in the log") as raised:
                consumer.getmany(timeout_ms=GENEROUS_MS)
        assert (raised.value.expected_offset, raised.value.available_offset) == (99, 10)
        consumer.seek(TP, 9)
        assert len(take(consumer, 1)) == 1


# -- topics created again --------------------------------------------------------------------------


def age(cluster: LocalCluster) -> None:
    """Let leader epochs grow: without topic ids only a rewind shows another topic."""
    for turn in range(5):
        cluster.move_leader("t", 0, turn % 3 + 1)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_l12_c10_a_topic_created_again_is_read_from_its_beginning(
    cluster: LocalCluster, policy: str
) -> None:
    age(cluster)
    produce(cluster, "old", 10)
    with consumer_of(cluster, auto_offset_reset=policy) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        take(consumer, 10)
        cluster.scenes.recreate_topic("t")
        produce(cluster, "new", 12)
        assert words(take(consumer, 12)) == [(i, f"new {i}") for i in range(12)]
        (loss,) = consumer.data_losses
        assert (loss.cause, loss.position.offset, loss.resumed_at) == (Cause.RECREATED, 10, 0)


def test_l12_without_a_policy_another_topic_stops_the_reading(cluster: LocalCluster) -> None:
    age(cluster)
    produce(cluster, "old", 10)
    with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        take(consumer, 10)
        cluster.scenes.recreate_topic("t")
        produce(cluster, "new", 12)
        for _ in range(2):
            with pytest.raises(TopicRecreatedError, match="deleted and created again") as raised:
                consumer.getmany(timeout_ms=GENEROUS_MS)
        assert raised.value.expected_offset == 10
        consumer.seek(TP, 0)
        assert words(take(consumer, 1)) == [(0, "new 0")]


def test_l12_during_the_deletion_nothing_is_raised(cluster: LocalCluster) -> None:
    age(cluster)
    produce(cluster, "old", 3)
    with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        take(consumer, 3)
        cluster.delete_topic("t")
        for _ in range(3):
            assert consumer.getmany(timeout_ms=100) == {}
        cluster.create_topic("t", partitions=1, replication_factor=3)
        produce(cluster, "new", 4)
        assert words(take(consumer, 4)) == [(i, f"new {i}") for i in range(4)]


def test_l13_several_incarnations_one_after_the_other_are_kept_apart() -> None:
    with (
        LocalCluster(brokers=3, release="4.3") as cluster,
        consumer_of(cluster, auto_offset_reset="earliest") as consumer,
    ):
        cluster.create_topic("t", partitions=1, replication_factor=3)
        consumer.assign([TP])
        for turn in range(4):
            produce(cluster, f"turn {turn}", 5 - turn)
            assert words(take(consumer, 5 - turn)) == [
                (i, f"turn {turn} {i}") for i in range(5 - turn)
            ]
            cluster.scenes.recreate_topic("t")
        assert [loss.cause for loss in consumer.data_losses][:3] == [Cause.RECREATED] * 3


def test_a_paused_partition_notices_too(cluster: LocalCluster) -> None:
    age(cluster)
    produce(cluster, "old", 5)
    with consumer_of(cluster, auto_offset_reset="earliest", metadata_max_age_ms=50) as consumer:
        consumer.assign([TP])
        take(consumer, 5)
        consumer.pause(TP)
        cluster.scenes.recreate_topic("t")
        produce(cluster, "new", 2)
        while not consumer.data_losses:
            assert consumer.getmany(timeout_ms=50) == {}
        consumer.resume(TP)
        assert words(take(consumer, 2)) == [(0, "new 0"), (1, "new 1")]


# -- brokers that are behind -----------------------------------------------------------------------


def test_l09_a_stale_leader_does_not_pull_a_partition_back() -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        first, second = cluster.isr("t")[0]
        cluster.move_leader("t", 0, first)
        produce(cluster, "a", 3)
        with consumer_of(cluster, auto_offset_reset="earliest", metadata_max_age_ms=20) as consumer:
            consumer.assign([TP])
            take(consumer, 3)
            cluster.move_leader("t", 0, second)
            produce(cluster, "b", 3)
            assert len(take(consumer, 3)) == 3
            cluster.scenes.hold_metadata(({1, 2, 3} - {first, second}).pop())
            cluster.move_leader("t", 0, first)
            produce(cluster, "c", 3)
            assert len(take(consumer, 3)) == 3
            cluster.clear_requests()
            for _ in range(5):
                produce(cluster, "d", 1)
                assert len(take(consumer, 1)) == 1
            fetched = {entry.broker for entry in cluster.requests("Fetch")}
            assert fetched == {first}, "one broker still names the leader before"
            cluster.scenes.release_metadata()


def test_a_commit_that_is_newer_than_the_metadata_makes_it_fresh(cluster: LocalCluster) -> None:
    produce(cluster, "a", 5)
    with consumer_of(cluster, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        take(consumer, 2)
        epoch = cluster.leaders("t")[0][1]
        cluster.move_leader("t", 0, 2)
        cluster.move_leader("t", 0, 1)
        with consumer_of(cluster, group_id="g", enable_auto_commit=False) as other:
            other.assign([TP])
            other.commit({TP: OffsetAndMetadata(3, "", epoch + 2)})
        found = consumer.committed(TP)
        assert found is not None
        assert found.leader_epoch == epoch + 2
        assert consumer._consumer._core.cluster.view.partition(TP).leader_epoch >= epoch + 2  # type: ignore[union-attr]


def test_a_commit_of_an_epoch_that_never_comes_ends_with_a_clear_error() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=1)
        with consumer_of(cluster, group_id="g", default_api_timeout_ms=400) as consumer:
            consumer.assign([TP])
            consumer.commit({TP: OffsetAndMetadata(0, "", 77)})
            with pytest.raises(
                RequestTimedOut, match=r"group g committed t-0 with leader epoch 77, .* has epoch 0"
            ):
                consumer.committed(TP)
