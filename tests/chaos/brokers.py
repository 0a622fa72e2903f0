"""The brokers of a chaos run: an embedded cluster of three releases, or
real brokers of one release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from parley.client import Client, NewTopic
from parley.devcluster import ClusterSettings, LocalCluster
from parley.testing.realbroker import RealCluster

RELEASES = {1: "2.4", 2: "3.9", 3: "4.3"}
REPLICAS = 3
_REAL_PROPERTIES = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}


class Cluster(Protocol):
    """What a run needs of its brokers: an address, and to take one of them away for a while."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…`."""

    def kill_broker(self, broker: int) -> None:
        """kill -9, or the embedded cluster's likeness of it."""

    def start_broker(self, broker: int) -> None:
        """Start it again with the data that it had."""


class _Real(NamedTuple):
    cluster: RealCluster

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def kill_broker(self, broker: int) -> None:
        self.cluster.kill(broker)

    def start_broker(self, broker: int) -> None:
        self.cluster.start_broker(broker)


def kind_of(release: str | None) -> str:
    """Return how the table names these brokers."""
    return f"real {release}" if release else "embedded"


@contextmanager
def started(
    release: str | None,
    topics: tuple[str, ...],
    *,
    embedded_releases: Mapping[int, str] = RELEASES,
    settings: ClusterSettings | None = None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Yield three brokers, real ones where a release is named, with these topics of three
    partitions.

    `settings` are of embedded brokers, `properties` of real ones.
    """
    if release is None:
        with LocalCluster(
            brokers=REPLICAS, releases=embedded_releases, settings=settings
        ) as embedded:
            _make(embedded, topics)
            yield embedded
    else:
        with RealCluster(
            release,
            brokers=REPLICAS,
            properties={**_REAL_PROPERTIES, **(properties or {})},
            separate_controller=release >= "3.3",
        ) as real:
            _make(_Real(real), topics)
            yield _Real(real)


def _make(cluster: Cluster, topics: tuple[str, ...]) -> None:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.create_topics(
            [NewTopic(name, num_partitions=3, replication_factor=REPLICAS) for name in topics]
        )
