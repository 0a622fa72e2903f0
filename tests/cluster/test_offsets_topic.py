"""`__consumer_offsets` of the embedded cluster as clients see it."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pyarrow as pa
import pytest

from parley.client import Client, OffsetAndMetadata, TopicPartition
from parley.devcluster import ClusterSettings, LocalCluster
from parley.devcluster.state.groups.records import decode
from parley.errors import InvalidTopicError, KafkaError
from parley.messages import OffsetCommitKey, OffsetCommitValue

from ..support import eventually

OFFSETS, TOPIC, GROUP = "__consumer_offsets", "events", "readers"
AT = TopicPartition(TOPIC, 0)
ONE_PARTITION = ClusterSettings(offsets_topic_num_partitions=1)


def committed(client: Client) -> int | None:
    found = client.committed_offsets(GROUP, [AT])[AT]
    return None if found is None else found.offset


@pytest.mark.parametrize("release", ["0.10.2", "2.4", "4.3"])
def test_a_foreign_consumer_reads_the_records(release: str) -> None:
    with (
        LocalCluster(brokers=3, release=release) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC)
        client.commit_offsets(GROUP, {AT: OffsetAndMetadata(3, "note")})
        assert len(cluster.leaders(OFFSETS)) == 50
        assert {len(replicas) for replicas in cluster.isr(OFFSETS).values()} == {3}
        # Java: "readers".hashCode() == 1080410128
        place = confluent_kafka.TopicPartition(OFFSETS, 1_080_410_128 % 50, 0)
        reader = confluent_kafka.Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "-"}
        )
        try:
            reader.assign([place])
            record = eventually(lambda: reader.poll(0.2))
        finally:
            reader.close()
        read = decode(record.key(), record.value())
        assert read is not None
        assert read.key == OffsetCommitKey(group=GROUP, topic=TOPIC, partition=0)
        assert isinstance(read.value, OffsetCommitValue)
        assert (read.value.offset, read.value.metadata) == (3, "note")


def test_nobody_but_coordinators_writes_there() -> None:
    with (
        LocalCluster(brokers=1) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        with pytest.raises(InvalidTopicError):
            client.produce(OFFSETS, pa.table({"key": ["k"], "value": ["v"]}), 0)
        assert len(cluster.leaders(OFFSETS)) == 50  # asking for it made it, as a real one


def test_a_commit_waits_for_the_replicas_in_sync() -> None:
    with (
        LocalCluster(brokers=2, settings=ONE_PARTITION) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC)
        client.commit_offsets(GROUP, {AT: 1})
        leader, _ = cluster.leaders(OFFSETS)[0]
        follower = 3 - leader
        cluster.scenes.lag(follower)
        with (
            Client(
                bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=300
            ) as hasty,
            pytest.raises(KafkaError),
        ):
            hasty.commit_offsets(GROUP, {AT: 2})
        cluster.scenes.catch_up(follower)
        client.commit_offsets(GROUP, {AT: 3})
        cluster.kill(leader)
        assert eventually(lambda: committed(client)) == 3


def test_killed_coordinators_lose_nothing(tmp_path: Path) -> None:
    """Each broker is killed in turn; then the cluster starts again on what lies on disk."""
    with (
        LocalCluster(brokers=3, data_dir=tmp_path, settings=ONE_PARTITION) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC)
        for number, broker in enumerate((1, 2, 3)):
            client.commit_offsets(GROUP, {AT: number})
            cluster.kill(broker)
            assert committed(client) == number
            cluster.start_broker(broker)
        cluster.move_group_coordinator(GROUP, 1)
        assert committed(client) == 2
        assert cluster.leaders(OFFSETS)[0][0] == 1
        cluster.replicas_agree()
    with (
        LocalCluster(brokers=3, data_dir=tmp_path, settings=ONE_PARTITION) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        assert committed(client) == 2
