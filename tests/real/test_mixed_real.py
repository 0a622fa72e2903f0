"""One client and real brokers of different releases in one cluster,
upgraded and killed under it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley import EARLIEST, LATEST, Client, NewTopic, TopicPartition
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster

TOPIC = "mixed"
CLUSTERS = {
    "3.9 with 3.7": {1: "3.9.1", 2: "3.7.2"},
    "4.3 with 3.9": {1: "4.3.0", 2: "3.9.1"},
    "2.4 with 0.11 and 0.10": {1: "2.4.1", 2: "0.11.0.3", 3: "0.10.1.1"},
    "0.10 with 0.9": {1: "0.10.2.2", 2: "0.9.0.1"},
}


RARE = ("3.9 with 3.7", "0.10 with 0.9")
MARKS = dict.fromkeys(RARE, pytest.mark.long) | {"4.3 with 3.9": pytest.mark.matrix}


@pytest.fixture(
    params=[pytest.param(name, marks=MARKS[name]) if name in MARKS else name for name in CLUSTERS]
)
def mixed(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    releases = CLUSTERS[request.param]
    with RealCluster(releases[1], brokers=len(releases), releases=releases) as cluster:
        yield cluster


def rows(first: int, count: int = 300) -> pa.RecordBatch:
    values = [b"%d" % i for i in range(first, first + count)]
    return pa.RecordBatch.from_pydict({"key": values, "value": values})


def spread(cluster: RealCluster) -> list[TopicPartition]:
    """Create the topic with one partition led by each broker; through ZooKeeper,
    whatever the controller can do.
    """
    brokers = list(cluster.releases)
    if cluster.kraft:
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.create_topics(
                [NewTopic(TOPIC, replica_assignments={i: [b] for i, b in enumerate(brokers)})]
            )
    else:
        command = [
            "kafka.admin.TopicCommand",
            "--create",
            "--zookeeper",
            cluster.zookeeper_address,
            "--topic",
            TOPIC,
        ]
        done = cluster.run_java([*command, "--replica-assignment", ",".join(map(str, brokers))])
        assert done.returncode == 0, done.stdout
    return [TopicPartition(TOPIC, i) for i in range(len(brokers))]


def everything(client: Client, partitions: list[TopicPartition]) -> list[int]:
    found = client.fetch_many(dict.fromkeys(partitions, (EARLIEST, LATEST)))
    return sorted(int(value) for fetched in found for value in fetched.batch["value"].to_pylist())


def test_each_broker_is_spoken_to_in_its_own_versions(mixed: RealCluster) -> None:
    partitions = spread(mixed)
    with Client(bootstrap_servers=mixed.bootstrap_servers) as client:
        for number, tp in enumerate(partitions):
            client.produce(TOPIC, rows(number * 1000), tp.partition)
        expected = [number * 1000 + i for number in range(len(partitions)) for i in range(300)]
        assert everything(client, partitions) == expected
        leaders = {
            p: view.leader for p, view in client.metadata([TOPIC]).topics[TOPIC].partitions.items()
        }
        assert leaders == {i: i + 1 for i in range(len(partitions))}
        used = client.versions_in_use()
        for broker_id in mixed.releases:
            ranges = client.api_versions(broker_id).ranges
            assert used[broker_id][ApiKey.FETCH] in ranges[ApiKey.FETCH]
            assert used[broker_id][ApiKey.PRODUCE] in ranges[ApiKey.PRODUCE]
        fetched = {used[broker_id][ApiKey.FETCH] for broker_id in mixed.releases}
        assert len(fetched) == len(set(mixed.releases.values()))


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.10.0.1", "2.4.1"), pytest.param("3.7.2", "4.1.1", marks=pytest.mark.matrix)],
)
def test_a_live_client_follows_an_upgrade(old: str, new: str) -> None:
    """Brokers are stopped and come back as a newer release, one by one,
    while the client goes on.
    """
    with (
        RealCluster(old, brokers=2, separate_controller=True) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        # Made on first use, because 0.10.0 has no CreateTopics.
        client.produce(TOPIC, rows(0), 0)
        tp = TopicPartition(TOPIC, 0)
        before = client.versions_in_use()
        for step, broker_id in enumerate((1, 2), start=1):
            cluster.stop_broker(broker_id)
            cluster.start_broker(broker_id, new)
            client.produce(TOPIC, rows(step * 1000), 0)
            expected = [part * 1000 + i for part in range(step + 1) for i in range(300)]
            assert everything(client, [tp]) == expected
        leader = client.metadata([TOPIC]).topics[TOPIC].partitions[0].leader
        assert client.versions_in_use()[leader][ApiKey.FETCH] > before[leader].get(ApiKey.FETCH, 0)


@pytest.mark.parametrize(
    "release",
    [
        "0.11.0.3",
        pytest.param("3.9.1", marks=pytest.mark.long),
        pytest.param("4.3.0", marks=pytest.mark.matrix),
    ],
)
def test_a_killed_leader_costs_and_doubles_nothing(release: str) -> None:
    """Acknowledged by all replicas, so that the survivor has it; sent again by sequence,
    so that nothing is doubled.
    """
    with (
        RealCluster(release, brokers=3, separate_controller=True) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        settings = {"min.insync.replicas": "2"}
        client.create_topics(
            [NewTopic(TOPIC, num_partitions=1, replication_factor=3, configs=settings)]
        )
        tp = TopicPartition(TOPIC, 0)

        def pieces() -> Iterator[pa.RecordBatch]:
            for number in range(40):
                if number == 15:
                    cluster.kill(client.metadata([TOPIC]).topics[TOPIC].partitions[0].leader)
                yield rows(number * 1000)

        result = client.produce(TOPIC, pieces(), 0)
        assert result.idempotent
        assert result.records == 40 * 300
        assert everything(client, [tp]) == [
            number * 1000 + i for number in range(40) for i in range(300)
        ]
