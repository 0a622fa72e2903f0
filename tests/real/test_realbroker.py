"""RealCluster itself: the releases start, brokers crash, freeze and come back, releases mix."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from parley import EARLIEST, Client, TopicPartition
from parley.client import NewTopic
from parley.testing.realbroker import RealCluster, StartError
from parley.testing.realbroker.probe import accepts_connections, listed_nodes
from parley.testing.realbroker.properties import HOST
from parley.testing.realbroker.releases import uses_kraft

from ..support import GENEROUS_S

PATIENCE_S = GENEROUS_S


def test_release_answers_metadata(real_broker: RealCluster, real_release: str) -> None:
    port = real_broker.broker(1).ports["PLAINTEXT"]
    assert real_broker.bootstrap_servers == f"{HOST}:{port}"
    assert listed_nodes(HOST, port) == {1: (HOST, port)}
    assert real_broker.kraft == uses_kraft(real_release)


@pytest.mark.parametrize(
    ("release", "releases"),
    [
        pytest.param("3.9.1", {2: "3.7.2"}, marks=pytest.mark.long),
        pytest.param("2.4.1", {2: "0.10.0.1", 3: "0.9.0.1"}, marks=pytest.mark.matrix),
    ],
    ids=["kraft", "zookeeper"],
)
def test_mixed_releases_are_one_cluster(release: str, releases: dict[int, str]) -> None:
    with RealCluster(release, brokers=len(releases) + 1, releases=releases) as cluster:
        everyone = {node.id: (HOST, node.ports["PLAINTEXT"]) for node in cluster.nodes.values()}
        for node in cluster.nodes.values():
            assert listed_nodes(HOST, node.ports["PLAINTEXT"]) == everyone
        cluster.kill(2)
        assert not accepts_connections(HOST, everyone[2][1])
        cluster.start_broker(2, release)
        assert listed_nodes(HOST, everyone[1][1]) == everyone
        assert cluster.broker(2).release == release


def test_frozen_broker_is_silent_until_resumed() -> None:
    with RealCluster("2.4.1") as cluster:
        port = cluster.broker(1).ports["PLAINTEXT"]
        cluster.pause(1)
        assert accepts_connections(HOST, port)  # the kernel does
        assert listed_nodes(HOST, port, timeout_seconds=0.5) is None
        cluster.resume(1)
        cluster.wait_ready()


def test_data_directory_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        with RealCluster("3.9.1", data_dir=tmp_path) as cluster:
            identity = (cluster.broker(1).directory / "data" / "meta.properties").read_text()
            assert "node.id=1" in identity
    assert (tmp_path / "node-1" / "data" / "meta.properties").read_text() == identity


def test_failed_start_shows_the_log_and_leaves_nothing() -> None:
    cluster = RealCluster("2.4.1", properties={"log.retention.hours": "many"})
    with pytest.raises(StartError, match=r"(?s)ended with status.*log\.retention\.hours"):
        cluster.start()
    assert cluster.nodes == {}


def test_records_of_any_date_stay_where_no_topic_says_otherwise() -> None:
    properties = {"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "100"}
    limited, kept = TopicPartition("limited", 0), TopicPartition("kept", 0)
    old = pa.RecordBatch.from_pydict(
        {"value": [b"of 1970"], "timestamp": pa.array([0], pa.timestamp("ms"))}
    )
    with (
        RealCluster("3.9.1", properties=properties) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        client.create_topics(
            [NewTopic("kept"), NewTopic("limited", configs={"retention.ms": "1000"})]
        )
        client.produce("kept", old, 0)
        # when the second is gone, a check has begun and ended since "kept" was written
        for removed in (1, 2):
            client.produce("limited", old, 0)
            end = time.monotonic() + PATIENCE_S
            while client.list_offsets({limited: EARLIEST})[limited].offset < removed:
                assert time.monotonic() < end, "retention was never checked"
        assert client.list_offsets({kept: EARLIEST})[kept].offset == 0


def test_java_programs_run_on_the_brokers_class_path(
    real_release: str, real_broker: RealCluster
) -> None:
    done = real_broker.run_java(["kafka.Kafka"])  # without arguments it prints its usage
    assert done.returncode == 1
    assert "server.properties" in done.stdout + done.stderr
