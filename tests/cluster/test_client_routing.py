"""Requests find their broker: looked up once, remembered, looked up again where it moved."""

from __future__ import annotations

import pyarrow as pa

from parley.client import Client, NewTopic, OffsetAndMetadata, ProduceOptions, TopicPartition
from parley.devcluster import LocalCluster

from ..support import GENEROUS_MS

TP = TopicPartition("t", 0)


def client_of(cluster: LocalCluster) -> Client:
    return Client(
        bootstrap_servers=cluster.bootstrap_servers,
        default_api_timeout_ms=GENEROUS_MS,
        retry_backoff_ms=5,
    )


def test_a_groups_coordinator_is_looked_up_once() -> None:
    with LocalCluster(brokers=3) as cluster, client_of(cluster) as client:
        cluster.create_topic("t", partitions=1)
        for offset in range(1, 6):
            client.commit_offsets("readers", {TP: offset})
            assert client.committed_offsets("readers", [TP]) == {
                TP: OffsetAndMetadata(offset, "", -1)
            }
        assert len(cluster.requests("FindCoordinator")) == 1
        assert {request.broker for request in cluster.requests("OffsetCommit")} == {
            request.broker for request in cluster.requests("OffsetFetch")
        }


def test_a_coordinator_that_went_away_is_looked_up_again() -> None:
    with LocalCluster(brokers=3) as cluster, client_of(cluster) as client:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        client.commit_offsets("readers", {TP: 1})
        before = cluster.requests("OffsetCommit")[-1].broker
        cluster.kill_broker(before)
        client.commit_offsets("readers", {TP: 2})
        after = cluster.requests("OffsetCommit")[-1].broker
        assert after != before
        cluster.start_broker(before)
        cluster.move_group_coordinator("readers", before)  # the other one says so
        client.commit_offsets("readers", {TP: 3})
        assert cluster.requests("OffsetCommit")[-1].broker == before
        assert client.committed_offsets("readers", [TP]) == {TP: OffsetAndMetadata(3, "", -1)}


def test_in_the_middle_of_an_upgrade_a_broker_that_can_gives_out_the_producer_id() -> None:
    """InitProducerId is asked of a broker that has it, whichever is connected to first."""
    with (
        LocalCluster(brokers=3, release="0.10.2", releases={3: "0.11.0.3"}) as cluster,
        client_of(cluster) as client,
    ):
        client.create_topics([NewTopic("t", replica_assignments={0: [3]})])
        client.produce("t", pa.table({"value": ["x"]}), 0, ProduceOptions(enable_idempotence=True))
        assert {request.broker for request in cluster.requests("InitProducerId")} == {3}
