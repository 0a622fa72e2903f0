"""The metadata cache: what may replace what, so that leadership never goes backwards (KIP-232).

No clock, no socket, no dice: answers come in, a picture and a verdict come out. The rules, with the
labels under which the tests name them:

 M2  An answer with a lower leader epoch than the last one seen does not touch that partition.
 M3  An equal epoch replaces (the ISR may have changed). A topic missing from a full answer goes;
     its last-seen epochs stay, and an older answer does not bring its partitions back.
 M4  An unknown topic keeps its last-seen epochs; under another topic id any epoch is accepted.
 M5  A topic id seen for the first time, or another one, accepts any epoch at once.
 M6  An answer without ids is judged by epochs alone. If its version could have carried ids, the id
     is no longer used on the wire; it is still remembered, so that the same id coming back from a
     broker that is behind gains nothing by the detour.
 M7  An epoch seen elsewhere (Fetch, ListOffsets, OffsetFetch) raises a known one, never makes one.
 M8  While the picture is older than the last-seen epoch, the leader counts as unknown.
 M10 A leader that is not among the brokers is unavailable; the one before is not resurrected.
 M11 An offline replica, or one that is not in the replica set, is never chosen to read from.
 M13 A partial answer leaves the other topics alone.
 M14 A partition in error still teaches its epoch, and asks for another refresh.
 M17 An answer without an epoch, where one was known, counts as lower, but for an unchanged leader:
     then the known epoch stays with it.
 M18 Five answers in a row that agree on a lower epoch, or on fewer partitions, are believed, and
     reported as possible data loss: otherwise a client would refresh for ever.

An answer is *outdated* (KIP-232) if, among the partitions of interest, an epoch is lower than the
cached one, or a cached partition is missing while another one of its topic is there. The old entry
then stays and the caller asks again with its backoff.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from parley.client.cluster_view import (
    TOPIC_IDS_VERSION,
    ClusterMetadata,
    LeaderAndEpoch,
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
    TopicUpdate,
    frozen,
)
from parley.errors import LocalProtocolError
from parley.errors.broker import error_codes
from parley.types import ZERO_UUID, Node, TopicPartition

AGREEING_ANSWERS = 5
"""Answers in a row after which a step backwards is believed (franz-go's figure, its issue 119)."""
UNKNOWN_TOPIC_OR_PARTITION = 3
REPLICA_NOT_AVAILABLE = 9
"""Reported by Metadata v0 for a partition that has a leader all the same: no reason to ask again."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What an answer did to the cache."""

    changed: frozenset[TopicPartition] = frozenset()
    """Partitions whose leader or leader epoch is another one now."""
    outdated: frozenset[TopicPartition] = frozenset()
    """Partitions of interest for which the answer was older than the cache: ask again."""
    possible_data_loss: frozenset[TopicPartition] = frozenset()
    """Partitions that were let go backwards after five agreeing answers (M18)."""
    incomplete: frozenset[str] = frozenset()
    """Topics with a partition or topic error that another refresh may mend (M14)."""
    equivalent: bool = True
    """Whether the answer brought nothing new (M15: the caller backs off further)."""


@dataclass(slots=True)
class _Verdict:
    changed: set[TopicPartition] = field(default_factory=set)
    outdated: set[TopicPartition] = field(default_factory=set)
    data_loss: set[TopicPartition] = field(default_factory=set)
    incomplete: set[str] = field(default_factory=set)


class MetadataCache:
    """The cache and its rules. One writer at a time; `snapshot` may be read from any thread (M16)."""

    def __init__(self) -> None:
        self.snapshot = ClusterMetadata()
        self._last_epochs: dict[TopicPartition, int] = {}
        self._remembered_ids: dict[str, bytes] = {}
        self._topic_errors: dict[str, int] = {}
        self._interest: set[TopicPartition] | None = None
        # per partition or topic: what a backward answer said, and how often in a row
        self._rewinds: dict[TopicPartition | str, tuple[object, int]] = {}

    def set_interest(self, partitions: Iterable[TopicPartition] | None) -> None:
        """Say which partitions can make an answer outdated: a consumer's own, or None for all (a producer)."""
        self._interest = None if partitions is None else set(partitions)

    def last_seen_epoch(self, tp: TopicPartition) -> int | None:
        """Return the highest leader epoch known for a partition, None when none is."""
        return self._last_epochs.get(tp)

    def topic_error(self, topic: str) -> int:
        """Return the error code of a topic in the last answer that named it, 0 for none."""
        return self._topic_errors.get(topic, 0)

    def current_leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        """Return the leader to speak to and its epoch; the node is None while it is unknown (M8, M10)."""
        found = self.snapshot.partition(tp)
        if found is None:
            return LeaderAndEpoch(None, -1)
        seen = self._last_epochs.get(tp, -1)
        if seen > found.leader_epoch >= 0:
            return LeaderAndEpoch(None, seen)
        return LeaderAndEpoch(self.snapshot.brokers.get(found.leader), found.leader_epoch)

    def online_replica(self, tp: TopicPartition, node_id: int) -> Node | None:
        """Return a replica to read from, or None where it is offline or no replica at all (M11)."""
        found = self.snapshot.partition(tp)
        if found is None or node_id not in found.replicas or node_id in found.offline_replicas:
            return None
        return self.snapshot.brokers.get(node_id)

    def see_epoch(self, tp: TopicPartition, epoch: int) -> bool:
        """Take note of a leader epoch seen outside Metadata; return whether a full refresh is called for (M7, M9)."""
        if epoch < 0:
            raise LocalProtocolError(f"{tp}: a leader epoch of {epoch} was reported as seen; epochs start at 0")
        known = self._last_epochs.get(tp)
        if known is None or epoch <= known:
            return False
        self._last_epochs[tp] = epoch
        return True

    def forget(self, topic: str) -> None:
        """Drop a topic that is no longer used. Its last-seen epochs stay (M3)."""
        if topic in self.snapshot.topics:
            topics = {name: found for name, found in self.snapshot.topics.items() if name != topic}
            self._replace_topics(topics)
        self._topic_errors.pop(topic, None)

    def apply(self, update: MetadataUpdate, *, full: bool) -> Applied:
        """Merge an answer and return what it did.

        Mutates: `snapshot` is replaced by a new one. `full` says that all topics of this client (or of
        the cluster) were asked for, so that a topic which is missing is gone (M3); a partial answer
        leaves the others alone (M13).
        """
        before = self.snapshot
        verdict = _Verdict()
        topics: dict[str, TopicMetadata] = {} if full else dict(before.topics)
        if full:
            self._topic_errors = {}
        for topic in update.topics:
            merged = self._merge_topic(topic, update.version, verdict)
            self._topic_errors[topic.name] = topic.error_code
            if merged is None:
                topics.pop(topic.name, None)
            else:
                topics[topic.name] = merged
        self.snapshot = ClusterMetadata(
            brokers=frozen(dict(update.brokers)),
            topics=frozen(topics),
            controller_id=update.controller_id,
            cluster_id=update.cluster_id if update.cluster_id is not None else before.cluster_id,
        )
        return Applied(
            changed=frozenset(verdict.changed),
            outdated=frozenset(verdict.outdated),
            possible_data_loss=frozenset(verdict.data_loss),
            incomplete=frozenset(verdict.incomplete),
            equivalent=before == self.snapshot,
        )

    def apply_hint(self, tp: TopicPartition, leader_id: int, leader_epoch: int, endpoints: Iterable[Node]) -> bool:
        """Take a new leader out of a Produce or Fetch error (KIP-951); return whether it was taken.

        K7: ignored without an id and epoch, for an epoch that is not greater than the cached one (K13:
        two brokers naming each other cannot make a loop), for a partition that is not cached, and for
        a node that neither the answer nor the cache knows. K9: the answer's endpoint overrides the
        cached one. K8: nothing else changes.
        """
        found = self.snapshot.partition(tp)
        nodes = {node.id: node for node in endpoints}
        if found is None or leader_id < 0 or leader_epoch < 0 or leader_epoch <= found.leader_epoch:
            return False
        if leader_epoch < self._last_epochs.get(tp, -1):
            return False
        if leader_id not in nodes and leader_id not in self.snapshot.brokers:
            return False
        topic = self.snapshot.topics[tp.topic]
        moved = found._replace(leader=leader_id, leader_epoch=leader_epoch, error_code=0)
        partitions = frozen({**topic.partitions, tp.partition: moved})
        brokers = dict(self.snapshot.brokers)
        if leader_id in nodes:
            brokers[leader_id] = nodes[leader_id]
        self._last_epochs[tp] = leader_epoch
        self._rewinds.pop(tp, None)
        self._replace_topics({**self.snapshot.topics, tp.topic: topic._replace(partitions=partitions)}, brokers)
        return True

    def _replace_topics(self, topics: dict[str, TopicMetadata], brokers: dict[int, Node] | None = None) -> None:
        old = self.snapshot
        nodes = old.brokers if brokers is None else frozen(brokers)
        self.snapshot = ClusterMetadata(nodes, frozen(topics), old.controller_id, old.cluster_id)

    def _merge_topic(self, topic: TopicUpdate, version: int, verdict: _Verdict) -> TopicMetadata | None:
        """Return what the cache holds of a topic from now on, None for nothing."""
        old = self.snapshot.topics.get(topic.name)
        if topic.error_code != 0:
            entry = error_codes().get(topic.error_code)
            if entry is not None and entry.retriable:
                verdict.incomplete.add(topic.name)
                # the broker may only be behind (LEADER_NOT_AVAILABLE): the old entry is still the best there is
                return old if topic.error_code != UNKNOWN_TOPIC_OR_PARTITION else None
            return None
        topic_id = topic.topic_id if version >= TOPIC_IDS_VERSION else ZERO_UUID
        remembered = self._remembered_ids.get(topic.name)
        if topic_id != ZERO_UUID:
            self._remembered_ids[topic.name] = topic_id
            if topic_id != remembered:
                return self._accept_whole(topic, verdict)
        partitions = {}
        for found in topic.partitions:
            kept = self._merge_partition(topic.name, found, old, verdict)
            if kept is not None:
                partitions[found.partition] = kept
        self._keep_missing(topic, old, partitions, verdict)
        if version < TOPIC_IDS_VERSION and old is not None:
            topic_id = old.topic_id  # the answer could not have carried an id: nothing is learned from its absence
        return TopicMetadata(topic.name, frozen(partitions), topic_id, topic.is_internal)

    def _accept_whole(self, topic: TopicUpdate, verdict: _Verdict) -> TopicMetadata:
        """M4, M5: under a topic id that is new to this cache, every epoch is accepted, higher or lower."""
        old = self.snapshot.topics.get(topic.name)
        for index in old.partitions if old is not None else ():
            self._last_epochs.pop(TopicPartition(topic.name, index), None)
        self._rewinds.pop(topic.name, None)
        for found in topic.partitions:
            tp = TopicPartition(topic.name, found.partition)
            self._rewinds.pop(tp, None)
            self._last_epochs.pop(tp, None)
            if found.leader_epoch >= 0:
                self._last_epochs[tp] = found.leader_epoch
            self._note_change(tp, found, old, verdict)
        partitions = frozen({found.partition: found for found in topic.partitions})
        return TopicMetadata(topic.name, partitions, topic.topic_id, topic.is_internal)

    def _merge_partition(
        self, name: str, found: PartitionMetadata, old: TopicMetadata | None, verdict: _Verdict
    ) -> PartitionMetadata | None:
        tp = TopicPartition(name, found.partition)
        before = old.partitions.get(found.partition) if old is not None else None
        known = self._last_epochs.get(tp)
        if known is not None and found.leader_epoch < known:
            if found.leader_epoch < 0 and before is not None and before.leader == found.leader:
                found = found._replace(leader_epoch=before.leader_epoch)  # M17
            elif not self._believed(tp, (found.leader_epoch, found.leader)):
                if self._interest is None or tp in self._interest:
                    verdict.outdated.add(tp)
                return before
            else:
                del self._last_epochs[tp]
                if found.leader_epoch >= 0:
                    verdict.data_loss.add(tp)
        self._rewinds.pop(tp, None)
        if found.leader_epoch >= 0 and found.leader_epoch >= self._last_epochs.get(tp, -1):
            self._last_epochs[tp] = found.leader_epoch
        if found.leader < 0 or found.error_code not in (0, REPLICA_NOT_AVAILABLE):
            verdict.incomplete.add(name)
        self._note_change(tp, found, old, verdict)
        return found

    def _keep_missing(
        self, topic: TopicUpdate, old: TopicMetadata | None, partitions: dict[int, PartitionMetadata], verdict: _Verdict
    ) -> None:
        """KIP-232's second condition: a partition does not vanish while its topic lives, until M18 believes it."""
        present = {found.partition for found in topic.partitions}
        missing = [index for index in old.partitions if index not in present] if old is not None else []
        if not missing or not present:
            self._rewinds.pop(topic.name, None)
            return
        lost = {TopicPartition(topic.name, index) for index in missing}
        if self._believed(topic.name, frozenset(present)):
            self._rewinds.pop(topic.name, None)
            verdict.data_loss |= lost
            verdict.changed |= lost
            return
        assert old is not None  # or nothing could be missing
        partitions.update({index: old.partitions[index] for index in missing})
        verdict.outdated |= lost if self._interest is None else lost & self._interest

    def _believed(self, key: TopicPartition | str, evidence: object) -> bool:
        """Count one more answer that goes backwards; return whether enough agree (M18)."""
        said, count = self._rewinds.get(key, (None, 0))
        count = count + 1 if said == evidence else 1
        self._rewinds[key] = (evidence, count)
        return count >= AGREEING_ANSWERS

    @staticmethod
    def _note_change(
        tp: TopicPartition, found: PartitionMetadata, old: TopicMetadata | None, verdict: _Verdict
    ) -> None:
        before = old.partitions.get(tp.partition) if old is not None else None
        if before is None or before.leader != found.leader or before.leader_epoch != found.leader_epoch:
            verdict.changed.add(tp)
