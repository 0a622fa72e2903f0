"""The demo's brokers: an embedded cluster upgraded under way, or brokers of one's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from parley.client import Client, NewTopic
from parley.devcluster import LocalCluster
from parley.errors import UnsupportedVersionError
from parley.messages import MetadataRequest
from parley.pipelines.account import BrokerFacts, version_span
from parley.pipelines.progress import BrokerRow
from parley.pipelines.scenario import RELEASES, Director, rolling_upgrade
from parley.versions.features import Feature

SHOWN_APIS = ("Produce", "Fetch", "ListOffsets", "Metadata")
PARTITIONS = 4
_ASK_EVERY_SECONDS = 2.0


class Environment(Protocol):
    """What the demo asks of its brokers, whosever they are."""

    @property
    def bootstrap_servers(self) -> str: ...
    def create_topics(self, client: Client, names: Sequence[str]) -> None: ...
    def takes_headers(self) -> bool: ...
    def leaders(self, topic: str) -> Mapping[int, tuple[int, int]]: ...
    def broker_rows(self) -> tuple[BrokerRow, ...]: ...
    def broker_facts(self) -> tuple[BrokerFacts, ...]: ...
    def director(
        self, topic: str, progress: Callable[[], float], report: Callable[[str], None]
    ) -> Director | None: ...
    def close(self) -> None: ...


class EmbeddedEnvironment:
    """Three embedded brokers in the middle of a rolling upgrade, which the director carries on."""

    def __init__(self, releases: Mapping[int, str] = RELEASES) -> None:
        self._cluster = LocalCluster(len(releases), releases=releases)
        self._cluster.start()
        self.bootstrap_servers = self._cluster.bootstrap_servers
        self._spoken = {broker.id: [broker.release] for broker in self._cluster.brokers}

    def create_topics(self, client: Client, names: Sequence[str]) -> None:
        """Create topics whose partitions all brokers hold."""
        for name in names:
            self._cluster.create_topic(name, PARTITIONS, len(self._spoken))

    def takes_headers(self) -> bool:
        """Return whether records may have headers: all of these releases know them."""
        return True

    def leaders(self, topic: str) -> Mapping[int, tuple[int, int]]:
        """Return leader and epoch by partition."""
        return self._cluster.leaders(topic)

    def broker_rows(self) -> tuple[BrokerRow, ...]:
        """Return the brokers for the display; takes note of the releases on the way."""
        rows = []
        used = self._versions()
        for broker in self._cluster.brokers:
            if self._spoken[broker.id][-1] != broker.release:
                self._spoken[broker.id].append(broker.release)
            shown = {
                api: span for api, span in used.get(broker.id, {}).items() if api in SHOWN_APIS[:2]
            }
            text = ", ".join(f"{api} {span}" for api, span in sorted(shown.items(), reverse=True))
            rows.append(BrokerRow(broker.id, broker.release, broker.running, text))
        return tuple(rows)

    def broker_facts(self) -> tuple[BrokerFacts, ...]:
        """Return releases and versions for the account: of clients, and Spark's workers."""
        self.broker_rows()
        used = self._versions()
        return tuple(
            BrokerFacts(
                broker=broker,
                releases=tuple(releases),
                api_versions={
                    api: used[broker][api] for api in SHOWN_APIS if api in used.get(broker, {})
                },
            )
            for broker, releases in sorted(self._spoken.items())
        )

    def director(
        self, topic: str, progress: Callable[[], float], report: Callable[[str], None]
    ) -> Director:
        """Return the thread that moves leaders, upgrades and kills."""
        steps = rolling_upgrade()
        return Director(
            steps,
            self._cluster,
            topic,
            brokers=sorted(self._spoken),
            progress=progress,
            report=report,
        )

    def close(self) -> None:
        """Stop the cluster."""
        self._cluster.close()

    def _versions(self) -> dict[int, dict[str, str]]:
        """Return broker to API name to the versions that any client used there."""
        found: dict[int, dict[str, str]] = {}
        for broker, clients in self._cluster.versions_used().items():
            apis: dict[str, set[int]] = {}
            for by_api in clients.values():
                for api, versions in by_api.items():
                    apis.setdefault(api, set()).update(versions)
            found[broker] = {api: version_span(versions) for api, versions in apis.items()}
        return found


class OwnEnvironment:
    """Brokers that someone else runs: written to and read from, otherwise left alone."""

    def __init__(
        self, bootstrap_servers: str, client: Client, partitions: int = PARTITIONS
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._client = client
        self._partitions = partitions
        self._leaders: dict[int, tuple[int, int]] | None = None
        self._asked_at = 0.0

    def create_topics(self, client: Client, names: Sequence[str]) -> None:
        """Create topics with as many replicas as there are brokers, at most three."""
        replicas = min(3, len(client.metadata().brokers))
        try:
            client.create_topics([NewTopic(name, self._partitions, replicas) for name in names])
        except UnsupportedVersionError:
            # Before 0.10.1 a topic is made by asking for it,
            # where the broker's configuration allows it.
            wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
            client.request(None, MetadataRequest(topics=wanted))
            client.metadata(names)

    def takes_headers(self) -> bool:
        """Return whether records may have headers: since Kafka 0.11, on all brokers or none."""
        brokers = list(self._client.metadata().brokers)
        return all(
            self._client.api_versions(broker).supports(Feature.RECORD_HEADERS) for broker in brokers
        )

    def leaders(self, topic: str) -> Mapping[int, tuple[int, int]]:
        """Return leader and epoch by partition, as the brokers report it."""
        if self._leaders is None or time.monotonic() - self._asked_at > _ASK_EVERY_SECONDS:
            partitions = self._client.metadata([topic]).topics[topic].partitions
            self._leaders = {
                index: (one.leader, one.leader_epoch) for index, one in partitions.items()
            }
            self._asked_at = time.monotonic()
        return self._leaders

    def broker_rows(self) -> tuple[BrokerRow, ...]:
        """Return nothing: neither releases nor the state of these brokers are ours to know."""
        return ()

    def broker_facts(self) -> tuple[BrokerFacts, ...]:
        """Return the versions that the producing client used with each broker."""
        facts = []
        for broker, versions in sorted(self._client.versions_in_use().items()):
            used = {_title(api.name): version_span([version]) for api, version in versions.items()}
            shown = {api: used[api] for api in SHOWN_APIS if api in used}
            facts.append(BrokerFacts(broker=broker, api_versions=shown))
        return tuple(facts)

    def director(
        self, topic: str, progress: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        """Return none: nothing is forced on these brokers."""

    def close(self) -> None:
        """Leave everything as it is."""


def _title(name: str) -> str:
    """Return Kafka's name of an API, `LIST_OFFSETS` as `ListOffsets`."""
    return "".join(word.capitalize() for word in name.split("_"))
