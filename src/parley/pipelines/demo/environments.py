"""The demo's clusters: embedded ones, to which things happen under way, or brokers of one's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from parley.client import Client, NewTopic
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, UnsupportedVersionError
from parley.messages import MetadataRequest
from parley.pipelines.demo.account import BrokerFacts, version_span
from parley.pipelines.demo.progress import BrokerRow
from parley.pipelines.demo.scenario import Director, Step
from parley.versions.features import Feature

SHOWN_APIS = ("Produce", "Fetch", "ListOffsets", "Metadata")
PARTITIONS = 4
_ASK_EVERY_SECONDS = 2.0
_CLIENT_ID = "parley-demo"


class Environment(Protocol):
    """What the demo asks of a cluster, whosever it is."""

    client: Client

    @property
    def name(self) -> str: ...
    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def registry(self) -> str | None: ...
    def create_topic(self, name: str) -> None: ...
    def takes_headers(self) -> bool: ...
    def leaders(self, topic: str) -> Mapping[int, tuple[int, int]]: ...
    def broker_rows(self, topic: str) -> tuple[BrokerRow, ...]: ...
    def broker_facts(self) -> tuple[BrokerFacts, ...]: ...
    def director(
        self, topic: str, progress: Callable[[], float], report: Callable[[str], None]
    ) -> Director | None: ...
    def close(self) -> None: ...


class EmbeddedEnvironment:
    """Three embedded brokers with a schema registry, and the steps that the director performs."""

    def __init__(self, name: str, releases: Mapping[int, str], steps: Sequence[Step]) -> None:
        self.name = name
        self._steps = steps
        self._cluster = LocalCluster(len(releases), releases=releases, schema_registry=True)
        self._cluster.start()
        self.bootstrap_servers = self._cluster.bootstrap_servers
        self.registry = self._cluster.schema_registry.url
        self.client = Client(bootstrap_servers=self.bootstrap_servers, client_id=_CLIENT_ID)
        self._spoken = {broker.id: [broker.release] for broker in self._cluster.brokers}

    def create_topic(self, name: str) -> None:
        """Create a topic whose partitions all brokers hold."""
        self._cluster.create_topic(name, PARTITIONS, len(self._spoken))

    def takes_headers(self) -> bool:
        """Return whether records may have headers: all of these releases know them."""
        return True

    def leaders(self, topic: str) -> Mapping[int, tuple[int, int]]:
        """Return leader and epoch by partition; nothing where the topic is not there yet."""
        try:
            return self._cluster.leaders(topic)
        except ConfigError:
            return {}

    def broker_rows(self, topic: str) -> tuple[BrokerRow, ...]:
        """Return the brokers for the display; takes note of the releases on the way."""
        self._note_releases()
        rows = []
        used, leaders = self._versions(), self.leaders(topic)
        for broker in self._cluster.brokers:
            shown = {
                api: span for api, span in used.get(broker.id, {}).items() if api in SHOWN_APIS[:2]
            }
            rows.append(
                BrokerRow(
                    self.name, broker.id, broker.release, broker.running,
                    ", ".join(f"{api} {span}" for api, span in sorted(shown.items(), reverse=True)),
                    tuple(index for index, (leader, _) in leaders.items() if leader == broker.id),
                )
            )  # fmt: skip
        return tuple(rows)

    def broker_facts(self) -> tuple[BrokerFacts, ...]:
        """Return releases and versions for the account: of clients, and Spark's workers."""
        self._note_releases()
        used = self._versions()
        return tuple(
            BrokerFacts(
                cluster=self.name,
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
        """Return the thread that performs the steps."""
        return Director(
            self._steps,
            self._cluster,
            topic,
            brokers=sorted(self._spoken),
            progress=progress,
            report=lambda text: report(f"{self.name} cluster: {text}"),
        )

    def close(self) -> None:
        """Stop the cluster."""
        self.client.close()
        self._cluster.close()

    def _note_releases(self) -> None:
        for broker in self._cluster.brokers:
            if self._spoken[broker.id][-1] != broker.release:
                self._spoken[broker.id].append(broker.release)

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

    registry = None

    def __init__(self, name: str, bootstrap_servers: str, partitions: int = PARTITIONS) -> None:
        self.name = name
        self.bootstrap_servers = bootstrap_servers
        self.client = Client(bootstrap_servers=bootstrap_servers, client_id=_CLIENT_ID)
        self._partitions = partitions
        self._leaders: dict[int, tuple[int, int]] | None = None
        self._asked_at = 0.0

    def create_topic(self, name: str) -> None:
        """Create a topic with as many replicas as there are brokers, at most three."""
        replicas = min(3, len(self.client.metadata().brokers))
        try:
            self.client.create_topics([NewTopic(name, self._partitions, replicas)])
        except UnsupportedVersionError:
            # Before 0.10.1 a topic is made by asking for it,
            # where the broker's configuration allows it.
            wanted = [MetadataRequest.MetadataRequestTopic(name=name)]
            self.client.request(None, MetadataRequest(topics=wanted))
            self.client.metadata([name])

    def takes_headers(self) -> bool:
        """Return whether records may have headers: since Kafka 0.11, on all brokers or none."""
        brokers = list(self.client.metadata().brokers)
        return all(
            self.client.api_versions(broker).supports(Feature.RECORD_HEADERS) for broker in brokers
        )

    def leaders(self, topic: str) -> Mapping[int, tuple[int, int]]:
        """Return leader and epoch by partition, as the brokers report it; nothing where the topic
        is not there yet.
        """
        if self._leaders is None or time.monotonic() - self._asked_at > _ASK_EVERY_SECONDS:
            found = self.client.metadata().topics.get(topic)
            partitions = {} if found is None else found.partitions
            self._leaders = {
                index: (one.leader, one.leader_epoch) for index, one in partitions.items()
            }
            self._asked_at = time.monotonic()
        return self._leaders

    def broker_rows(self, topic: str) -> tuple[BrokerRow, ...]:
        """Return nothing: neither releases nor the state of these brokers are ours to know."""
        return ()

    def broker_facts(self) -> tuple[BrokerFacts, ...]:
        """Return the versions that the demo's own client used with each broker."""
        facts = []
        for broker, versions in sorted(self.client.versions_in_use().items()):
            used = {_title(api.name): version_span([version]) for api, version in versions.items()}
            shown = {api: used[api] for api in SHOWN_APIS if api in used}
            facts.append(BrokerFacts(cluster=self.name, broker=broker, api_versions=shown))
        return tuple(facts)

    def director(
        self, topic: str, progress: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        """Return none: nothing is forced on these brokers."""

    def close(self) -> None:
        """Leave the brokers as they are."""
        self.client.close()


def _title(name: str) -> str:
    """Return Kafka's name of an API, `LIST_OFFSETS` as `ListOffsets`."""
    return "".join(word.capitalize() for word in name.split("_"))
