"""What `commitToGroup` commits: the epoch of the record before the offset, and
nothing of another topic.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from parley.client import Client, Consumer, EpochEndOffset, OffsetAndMetadata, TopicPartition
from parley.devcluster import LocalCluster
from parley.spark.options.source import read_source_options
from parley.spark.options.texts import Use
from parley.spark.stream.group_progress import MOST_EPOCHS, epochs_before
from parley.spark.stream.reader import StreamReader

from ...support import eventually
from .planning import ALL

TP = TopicPartition("t", 0)
GROUP = "watchers"


class Log:
    """A log as a leader reports it: the first offset of each of its epochs, and its end."""

    def __init__(self, starts: dict[int, int], end: int) -> None:
        self.starts, self.end = starts, end
        self.asked = 0

    def ask(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEndOffset]:
        self.asked += 1
        return {tp: self.end_of(epoch) for tp, epoch in epochs.items()}

    def end_of(self, epoch: int) -> EpochEndOffset:
        below = [known for known in self.starts if known <= epoch]
        above = [start for known, start in self.starts.items() if known > epoch]
        return EpochEndOffset(max(below, default=epoch), min(above, default=self.end))


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [(1, 2), (10, 2), (11, 5), (20, 5), (21, 9), (30, 9)],
)
def test_the_epoch_is_that_of_the_record_before_the_offset(offset: int, epoch: int) -> None:
    log = Log({2: 0, 5: 10, 9: 20}, 30)
    assert epochs_before(log.ask, {TP: (offset, 9)}) == {TP: epoch}


def test_a_leader_that_has_written_nothing_is_passed_over() -> None:
    assert epochs_before(Log({2: 0, 9: 10}, 10).ask, {TP: (10, 9)}) == {TP: 2}


def test_where_nobody_reports_there_is_no_epoch() -> None:
    def unable(epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEndOffset]:
        return {tp: EpochEndOffset(available=False) for tp in epochs}

    assert epochs_before(unable, {TP: (5, 3)}) == {}
    log = Log({90: 50}, 60)  # everything before offset 50 has aged out
    assert epochs_before(log.ask, {TP: (50, 90)}) == {}
    assert log.asked == MOST_EPOCHS
    assert epochs_before(log.ask, {TP: (0, 90), TopicPartition("t", 1): (5, -1)}) == {}
    assert log.asked == MOST_EPOCHS


def stream_of(cluster: LocalCluster, **options: str) -> StreamReader:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "commitToGroup": GROUP,
        **options,
    }
    return StreamReader(read_source_options(given, Use.STREAM_READ), None)


def write(client: Client, count: int) -> None:
    client.produce("t", pa.table({"value": [str(n) for n in range(count)]}), partition=0)


def committed(client: Client) -> OffsetAndMetadata | None:
    return client.committed_offsets(GROUP, [TP])[TP]


def values_from_the_group(cluster: LocalCluster, count: int) -> list[bytes | None]:
    """Return what a consumer reads that starts where the group is, with no
    reset policy to fall back on.
    """
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, auto_offset_reset="none"
    ) as consumer:
        consumer.assign([TP])
        return [consumer.getone().value for _ in range(count)]


def epoch_of(client: Client) -> int:
    return client.metadata(["t"]).topics["t"].partitions[0].leader_epoch


def move(cluster: LocalCluster, client: Client) -> None:
    """Give the partition another leader, which writes nothing."""
    before = client.metadata(["t"]).topics["t"].partitions[0]
    cluster.replicas_agree()
    cluster.move_leader("t", 0, before.leader % 3 + 1)
    eventually(lambda: epoch_of(client) > before.leader_epoch)


def test_a_consumer_started_where_the_query_is_finds_no_truncation_after_leaders_moved() -> None:
    with LocalCluster(brokers=3, release="4.3") as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            write(client, 10)
            written_in = epoch_of(client)
            move(cluster, client)
            stream = stream_of(cluster, maxOffsetsPerTrigger="5")
            first = stream.latestOffset(stream.initialOffset(), ReadMaxRows(5))
            # what the query itself holds its position against
            assert first["@epochs"]["t"]["0"] > written_in
            second = stream.latestOffset(first, ReadMaxRows(5))
            assert committed(client) == OffsetAndMetadata(5, "", written_in)
            move(cluster, client)
            assert values_from_the_group(cluster, 5) == [b"5", b"6", b"7", b"8", b"9"]
            stream.latestOffset(second, ReadMaxRows(5))
            assert committed(client) == OffsetAndMetadata(10, "", written_in)
            move(cluster, client)
            write(client, 2)
            assert values_from_the_group(cluster, 2) == [b"0", b"1"]


@pytest.mark.parametrize("release", ["4.3", "2.7"])  # with topic ids, and without
def test_nothing_of_a_topic_that_was_created_again_is_committed(release: str) -> None:
    with LocalCluster(brokers=3, release=release) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            for _ in range(4):
                move(cluster, client)
            write(client, 10)
            before = stream_of(cluster, failOnDataLoss="false")
            done = before.latestOffset(before.initialOffset(), ALL)
            cluster.scenes.recreate_topic("t")
            write(client, 12)
            # of the old topic nothing was committed yet
            resumed = stream_of(cluster, failOnDataLoss="false")
            resumed.commit(done)
            again = resumed.latestOffset(done, ALL)
            assert committed(client) in (None, OffsetAndMetadata(0, "", -1))
            resumed.latestOffset(again, ALL)
            assert committed(client) == OffsetAndMetadata(12, "", 0)
            write(client, 1)
            assert values_from_the_group(cluster, 1) == [b"0"]
