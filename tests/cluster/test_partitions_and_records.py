"""Partitions added to topics, and records deleted, at embedded brokers of every kind of release."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley.client import EARLIEST, LATEST, Client, NewTopic, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import (
    BrokerError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from parley.versions import Feature

ROWS = pa.table({"value": ["v"] * 10})


@pytest.fixture(scope="module", params=["0.10.2", "0.11.0.3", "1.1", "2.4", "4.3", "mixed"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    releases = {1: "2.4", 2: "3.9", 3: "4.3"} if request.param == "mixed" else None
    release = "4.3" if request.param == "mixed" else request.param
    with LocalCluster(brokers=3, release=release, releases=releases) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as made:
        yield made


def test_partitions_are_added_and_used_at_once(client: Client) -> None:
    client.create_topics([NewTopic("grows", 1, 3), NewTopic("placed", 1, 2)])
    if not client.supports(Feature.CREATE_PARTITIONS):
        with pytest.raises(UnsupportedVersionError) as refused:
            client.create_partitions({"grows": 4})
        assert (refused.value.feature, refused.value.local) == ("create-partitions", True)
        return
    client.create_partitions({"grows": 4}, validate_only=True)
    assert len(client.metadata(["grows"]).topics["grows"].partitions) == 1
    client.create_partitions(
        {"grows": 4, "placed": 3}, replica_assignments={"placed": [[2, 1], [3, 1]]}
    )
    assert client.produce("grows", ROWS, 3).records == 10
    placed = client.metadata(["placed"]).topics["placed"].partitions
    assert [list(placed[index].replicas) for index in (1, 2)] == [[2, 1], [3, 1]]
    with pytest.raises(InvalidPartitionsError) as same:
        client.create_partitions({"grows": 4})
    assert same.value.topic == "grows"
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        client.create_partitions({"no-such-topic": 4})
    with pytest.raises(InvalidReplicaAssignmentError):
        client.create_partitions({"grows": 6}, replica_assignments={"grows": [[1]]})
    assert len(client.metadata(["grows"]).topics["grows"].partitions) == 4


@pytest.mark.parametrize("executed", [True, False])
def test_partitions_are_added_once_where_the_answer_is_lost(
    client: Client, cluster: LocalCluster, executed: bool
) -> None:
    if not client.supports(Feature.CREATE_PARTITIONS):
        return
    name = f"lost-{executed}"
    client.create_topics([NewTopic(name)])
    cluster.faults.cut("CreatePartitions", executed=executed)
    client.create_partitions({name: 3})
    assert sorted(client.metadata([name]).topics[name].partitions) == [0, 1, 2]


def test_records_are_deleted_up_to_an_offset_or_to_the_end(client: Client) -> None:
    client.create_topics([NewTopic("shrinks", 3, 3)])
    parts = [TopicPartition("shrinks", index) for index in range(3)]
    for tp in parts:
        client.produce("shrinks", ROWS, tp.partition)
    if not client.supports(Feature.DELETE_RECORDS):
        with pytest.raises(UnsupportedVersionError) as refused:
            client.delete_records({parts[0]: 4})
        assert (refused.value.feature, refused.value.local) == ("delete-records", True)
        return
    wanted = {parts[0]: 4, parts[1]: LATEST, parts[2]: 0}
    assert client.delete_records(wanted) == {parts[0]: 4, parts[1]: 10, parts[2]: 0}
    begins = client.list_offsets(dict.fromkeys(parts, EARLIEST))
    assert [begins[tp].offset for tp in parts] == [4, 10, 0]
    assert client.delete_records({parts[0]: 2}) == {parts[0]: 4}
    with pytest.raises(OffsetOutOfRangeError, match=r"shrinks-2.*offset 11 is behind"):
        client.delete_records({parts[2]: 11, parts[0]: 6})
    assert client.list_offsets({parts[0]: EARLIEST})[parts[0]].offset == 6
    with pytest.raises(BrokerError) as missing:
        client.delete_records({TopicPartition("shrinks", 9): 1})
    assert missing.value.partition == 9


def test_a_compacted_topic_keeps_its_records(client: Client) -> None:
    if not client.supports(Feature.DELETE_RECORDS):
        return
    client.create_topics([NewTopic("compacted", configs={"cleanup.policy": "compact"})])
    tp = TopicPartition("compacted", 0)
    client.produce("compacted", pa.table({"key": ["k"], "value": ["v"]}), 0)
    with pytest.raises(PolicyViolationError, match=r"cleanup\.policy"):
        client.delete_records({tp: 1})
