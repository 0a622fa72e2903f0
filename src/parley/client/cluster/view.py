"""What a client knows of a cluster: immutable values, safe to read while replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from parley.errors.codes import FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER
from parley.messages import MetadataResponse
from parley.schema import ApiKey
from parley.types import ZERO_UUID, Node, TopicPartition
from parley.versions import Feature

K = TypeVar("K")
V = TypeVar("V")

TRUSTED_EPOCHS_VERSION = Feature.RELIABLE_LEADER_EPOCHS.first_version(ApiKey.METADATA)
"""First Metadata version whose leader epochs may be trusted: older ones are stale (KAFKA-9212)."""
TOPIC_IDS_VERSION = Feature.TOPIC_IDS.first_version(ApiKey.METADATA)
"""First Metadata version that carries topic ids (KIP-516)."""


class LeaderHint(Protocol):
    """The leader that an error of Produce or Fetch names (KIP-951); -1 where it names none."""

    leader_id: int
    leader_epoch: int


HINTED = (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH)
"""The errors that carry such a hint."""


class Endpoint(Protocol):
    """Where a broker is: Metadata's Brokers, Produce's and Fetch's NodeEndpoints."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """One partition as Metadata describes it; `leader` and `leader_epoch` are -1 where unknown."""

    partition: int
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


class TopicMetadata(NamedTuple):
    """One topic; `topic_id` is `ZERO_UUID` where the cluster has not returned one."""

    name: str
    partitions: Mapping[int, PartitionMetadata]
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    error_code: int = 0


class LeaderAndEpoch(NamedTuple):
    """Who leads a partition: `node` is None, `epoch` -1, while none is known."""

    node: Node | None
    epoch: int


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """A consistent state of brokers, topics and leaders at one moment. Never changes once made."""

    brokers: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    controller_id: int = -1
    cluster_id: str | None = None

    def partition(self, tp: TopicPartition) -> PartitionMetadata | None:
        """Return what is known of a partition, None when nothing is."""
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def leader(self, tp: TopicPartition) -> Node | None:
        """Return the broker that leads a partition, None without a known and reachable leader."""
        found = self.partition(tp)
        return self.brokers.get(found.leader) if found is not None else None

    def topic_id(self, topic: str) -> bytes:
        """Return a topic's id, `ZERO_UUID` when there is none."""
        found = self.topics.get(topic)
        return found.topic_id if found is not None else ZERO_UUID


class TopicUpdate(NamedTuple):
    """One topic of a Metadata answer."""

    name: str
    error_code: int
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """A Metadata answer in plain values, whatever its version was."""

    version: int
    brokers: Mapping[int, Node]
    topics: tuple[TopicUpdate, ...]
    controller_id: int = -1
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What an answer did to the cache."""

    outdated: Set[TopicPartition] = frozenset()
    """Partitions of interest for which the answer was older than the cache, a thousand of them at
    most: ask again.
    """
    possible_data_loss: Set[TopicPartition] = frozenset()
    """Partitions that were let go backwards after five agreeing answers (M18)."""
    incomplete: Set[str] = frozenset()
    """Topics with a partition or topic error that another refresh may cure (M14)."""
    recreated: Set[str] = frozenset()
    """Topics that are another topic of the same name now: by their ids, or where there are none by
    a rewind of three epochs or more onto a nearly new history.
    """
    equivalent: bool = True
    """Whether the answer brought nothing new (M15: the caller backs off further)."""


def frozen(mapping: dict[K, V]) -> Mapping[K, V]:
    """Return a read-only view. The caller gives the dict away and must not change it any more."""
    return MappingProxyType(mapping)


def read_metadata(response: MetadataResponse, version: int) -> MetadataUpdate:
    """Return a MetadataResponse as plain values.

    M1: leader epochs of versions below 9 are left out, because brokers older than 2.4 spread stale
        ones.
    """
    trusted = version >= TRUSTED_EPOCHS_VERSION
    topics = []
    for topic in response.topics:
        if topic.name is None:  # asked for by id and not found
            continue
        partitions = tuple(
            PartitionMetadata(
                found.partition_index,
                found.leader_id,
                max(found.leader_epoch, -1) if trusted else -1,
                tuple(found.replica_nodes),
                tuple(found.isr_nodes),
                tuple(found.offline_replicas or ()),
                found.error_code,
            )
            for found in topic.partitions
        )
        topics.append(
            TopicUpdate(
                topic.name, topic.error_code, bytes(topic.topic_id), topic.is_internal, partitions
            )
        )
    return MetadataUpdate(
        version=version,
        brokers=frozen(read_nodes(response.brokers)),
        topics=tuple(topics),
        controller_id=response.controller_id,
        cluster_id=response.cluster_id,
    )


def read_nodes(brokers: Iterable[Endpoint]) -> dict[int, Node]:
    """Return an answer's brokers by id (Metadata: Brokers; Produce and Fetch: NodeEndpoints)."""
    return {
        found.node_id: Node(found.node_id, found.host, found.port, found.rack) for found in brokers
    }
