"""Several listeners per broker, each with a security of its own: clients are
given the addresses of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow
import pytest

import parley
from parley.client import ClientOptions
from parley.devcluster import ClusterSettings, LocalCluster, Security
from parley.devcluster.security.listeners import ports_of
from parley.errors import ConfigError

LISTENERS = {
    "PLAINTEXT": Security(),
    "INSIDE": Security("SASL_PLAINTEXT", users={"alice": "secret"}),
    "TLS": Security("SSL"),
}


@pytest.fixture(scope="module", params=["2.4", "4.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=[101, 7], release=request.param, listeners=LISTENERS) as running:
        yield running


def client_of(cluster: LocalCluster, listener: str) -> parley.Client:
    properties = {**cluster.client_properties(listener=listener), "allow_plaintext_password": True}
    return parley.Client(ClientOptions.from_properties(properties))


@pytest.mark.parametrize("listener", list(LISTENERS))
def test_a_client_is_given_the_addresses_of_its_own_listener(
    cluster: LocalCluster, listener: str
) -> None:
    """Metadata, coordinators and the hints of moved leaders must not name a port
    that wants another protocol.
    """
    with client_of(cluster, listener) as client:
        name = f"through-{listener.lower()}"
        client.create_topics([parley.NewTopic(name, num_partitions=4, replication_factor=2)])
        known = client.metadata([name])
        assert {f"{one.host}:{one.port}" for one in known.brokers.values()} == set(
            cluster.bootstrap(listener).split(",")
        )
        rows = pyarrow.table(
            {"value": [b"v"] * 40, "partition": pyarrow.array([*range(4)] * 10, pyarrow.int32())}
        )
        client.produce(name, rows)
        client.commit_offsets(
            f"group-{listener}", {parley.TopicPartition(name, 0): parley.OffsetAndMetadata(1)}
        )
        for partition in range(4):
            leader = cluster.leaders(name)[partition][0]
            cluster.move_leader(name, partition, 108 - leader)  # 101 and 7
        client.produce(name, rows)
        counted = 0
        for partition in range(4):
            for batch in client.fetch(
                parley.TopicPartition(name, partition), parley.EARLIEST, parley.LATEST
            ):
                counted += batch.num_rows
        assert counted == 80


def test_all_listeners_are_described(cluster: LocalCluster) -> None:
    from parley.messages import DescribeConfigsRequest

    asked = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="7", configuration_keys=["advertised.listeners"]
    )
    with client_of(cluster, "TLS") as client:
        (entry,) = client.request(7, DescribeConfigsRequest(resources=[asked])).results[0].configs
    places = dict(place.split("://") for place in entry.value.split(","))
    assert {
        name: place in cluster.bootstrap(name).split(",") for name, place in places.items()
    } == dict.fromkeys(LISTENERS, True)


def test_a_broker_keeps_its_ports_when_it_comes_back(cluster: LocalCluster) -> None:
    before = {name: cluster.bootstrap(name) for name in LISTENERS}
    cluster.kill_broker(7)
    assert all(len(cluster.bootstrap(name).split(",")) == 1 for name in LISTENERS)
    cluster.start_broker(7)
    assert {name: cluster.bootstrap(name) for name in LISTENERS} == before


def test_the_first_listener_is_the_one_that_is_meant_without_a_name(cluster: LocalCluster) -> None:
    assert cluster.bootstrap_servers == cluster.bootstrap() == cluster.bootstrap("PLAINTEXT")
    assert list(cluster.listeners) == list(LISTENERS)
    with pytest.raises(ConfigError, match=r'there is no listener "TSL"\. Did you mean "TLS"'):
        cluster.bootstrap("TSL")


def test_fixed_ports_are_consecutive_listener_by_listener() -> None:
    assert ports_of(9092, [5, 9], ["A", "B"]) == {
        5: {"A": 9092, "B": 9094},
        9: {"A": 9093, "B": 9095},
    }
    with pytest.raises(ConfigError, match="65535"):
        LocalCluster(brokers=3, port=65_534)


def test_arguments_that_cannot_be_are_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="security is what the only listener wants"):
        LocalCluster(security=Security(), listeners=LISTENERS)
    with pytest.raises(ConfigError, match="at least one"):
        LocalCluster(listeners={})
    with pytest.raises(ConfigError, match="given twice"):
        LocalCluster(brokers=[3, 3])
    with pytest.raises(ConfigError, match="negative"):
        LocalCluster(brokers=[-1])
    with pytest.raises(ConfigError, match="at least 1"):
        LocalCluster(brokers=[])
    with pytest.raises(ConfigError, match="there is no broker 4: the ids are 1, 2, 3"):
        LocalCluster(settings=ClusterSettings(racks={4: "a"}))
