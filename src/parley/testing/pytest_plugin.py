"""Pytest fixtures that start embedded Kafka clusters; entry point `parley` of group `pytest11`.

    @pytest.mark.kafka(brokers=3, versions=["2.0", "3.9", "4.3"])
    def test_orders(kafka_cluster):
        kafka_cluster.create_topic("orders", partitions=6)
        client(kafka_cluster.bootstrap_servers)

`kafka_cluster` is new for each test, `kafka_cluster_session` one for the whole run (each xdist worker
has its own). Without the marker: three brokers of the newest release, in memory.

The module is imported by every pytest run of an environment that has parley: nothing but pytest is
imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from parley.devcluster import LocalCluster

MARKER = (
    "kafka(brokers=3, release=..., versions=[...], settings=...): the embedded cluster that `kafka_cluster` "
    "starts; `versions` gives each broker's release, from broker 1 on"
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


def cluster_arguments(marker: pytest.Mark | None) -> dict[str, Any]:
    """Return LocalCluster's arguments for a marker. Raises UsageError for what it does not know."""
    given = {} if marker is None else dict(marker.kwargs)
    if marker is not None and marker.args:
        raise pytest.UsageError(f"@pytest.mark.kafka takes keywords only, got {marker.args}")
    versions = given.pop("versions", None)
    unknown = given.keys() - {"brokers", "release", "settings", "seed"}
    if unknown:
        raise pytest.UsageError(f"@pytest.mark.kafka does not know {', '.join(sorted(unknown))}; it takes {MARKER}")
    if versions is not None:
        given.setdefault("brokers", len(versions))
        if len(versions) > given["brokers"]:
            raise pytest.UsageError(f"@pytest.mark.kafka: {len(versions)} versions for {given['brokers']} brokers")
        given["releases"] = dict(enumerate(versions, start=1))
    return given


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Return a running embedded Kafka cluster, new for this test; `@pytest.mark.kafka` says which."""
    from parley.devcluster import LocalCluster

    with LocalCluster(**cluster_arguments(request.node.get_closest_marker("kafka"))) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_cluster_session() -> Iterator[LocalCluster]:
    """Return an embedded Kafka cluster that runs for the whole session. Use topics of your own."""
    from parley.devcluster import LocalCluster

    with LocalCluster() as cluster:
        yield cluster
