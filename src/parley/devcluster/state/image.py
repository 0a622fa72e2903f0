"""The cluster's metadata as one immutable image, as a broker knows it at one moment.

Rules of this file:
1. Nothing here changes: the controller makes a new image for each change and brokers are handed
   it, so that a broker can lag behind and still be consistent with itself (KIP-232's scene).
2. Images share what did not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

NO_LEADER = -1
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
"""The topics that Kafka marks as its own."""


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """Who holds and who leads one partition. `isr`: the replicas with acknowledged records."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: its id never returns, its name may (KIP-516)."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def internal(self) -> bool:
        """Whether Kafka marks topics of this name as its own."""
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A broker that is alive; `host` and `port` are its first listener's, `endpoints` has all."""

    id: int
    host: str
    port: int
    rack: str | None = None
    endpoints: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def seen_from(self, listener: str) -> BrokerImage:
        """Return the broker at the address for a listener's clients; as it is without one."""
        host, port = self.endpoints.get(listener, (self.host, self.port))
        return replace(self, host=host, port=port)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Everything that Metadata reports. `epoch` rises with each image."""

    cluster_id: str
    epoch: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    names: Mapping[bytes, str] = field(default_factory=dict)

    def seen_from(self, listener: str) -> ClusterImage:
        """Return the image with brokers' addresses on a listener, as its clients see it."""
        return replace(
            self, brokers={key: broker.seen_from(listener) for key, broker in self.brokers.items()}
        )

    @property
    def controller_id(self) -> int:
        """The broker that acts as controller: the lowest id alive, or -1."""
        return min(self.brokers, default=-1)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """Return the topic with that id, or None."""
        name = self.names.get(topic_id)
        return self.topics.get(name) if name is not None else None

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """Return one partition, or None when there is no such topic or partition."""
        found = self.topics.get(topic)
        return (
            found.partitions[index]
            if found is not None and 0 <= index < len(found.partitions)
            else None
        )
