"""The metadata cache: what may replace what, so that leadership never goes backwards (KIP-232).

No clock, no socket, no randomness: answers come in, metadata and findings come out. The rules, with
the labels under which the tests name them:

 M1  Epochs of Metadata before v9 are left out where answers are read
     (`cluster.view.read_metadata`).
 M2  An answer with a lower leader epoch than the last one seen does not touch that partition.
 M3  An equal epoch replaces (the ISR may have changed). A topic missing from a full answer goes,
     but not while that answer is outdated; its last-seen epochs stay, and an older answer does not
     bring its leaders back: it shows that a partition exists, which counts when records are spread.
 M4  An unknown topic keeps its last-seen epochs; under another topic id any epoch is accepted.
 M5  A topic id seen for the first time, or another one, accepts any epoch at once. Ids are never
     used again (KIP-516): an answer that goes back to an id held before is stale, unless a broker
     has rejected the one held now.
 M6  An answer without ids is judged by epochs alone. If its version could have carried ids, the id
     is no longer used on the wire; it is still remembered, so that the same id coming back from a
     broker that is behind gains nothing by the detour.
 M7  An epoch seen elsewhere (Fetch, ListOffsets, OffsetFetch) raises a known one, never makes one.
 M8  While the metadata is older than the last-seen epoch, the leader counts as unknown.
 M10 A leader that is not among the brokers is unavailable; the one before is not resurrected.
 M11 An offline replica, or one that is not in the replica set, is never chosen to read from.
 M13 A partial answer leaves the other topics alone.
 M14 A partition in error still teaches its epoch, and asks for another refresh.
 M17 An answer without an epoch, where one was known, counts as lower, but for an unchanged leader:
     then the known epoch stays with it. The last real epoch is kept in any case.
 M18 Five answers in a row that agree on a lower epoch, on fewer partitions, or on a former topic id
     are believed, and reported as possible data loss: otherwise a client would refresh forever.

An answer is *outdated* (KIP-232) if, among the partitions of interest, an epoch is lower than the
cached one, or a cached partition is missing while another one of its topic is there. The old entry
then stays and the caller asks again with its backoff.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field

from parley.client.cluster.view import (
    TOPIC_IDS_VERSION,
    Applied,
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
"""Reported by Metadata v0 for a partition that has a leader all the same: not asked again."""
MERGED_AT_ONCE = 1_000
"""Topics and partitions in one step of `merging`: some 10 ms if each is outdated."""
_WITH_A_LEADER = (0, REPLICA_NOT_AVAILABLE)
FORMER_IDS = 16
"""Topic ids remembered per name: for stale answers, bounded for a topic re-created daily."""
REWIND_OF_A_NEW_TOPIC, EPOCHS_OF_A_NEW_TOPIC = 3, 2
"""Without topic ids: this many epochs back, onto at most this one, is a new topic."""


@dataclass(slots=True)
class _Findings:
    outdated: set[TopicPartition] = field(default_factory=set)
    data_loss: set[TopicPartition] = field(default_factory=set)
    incomplete: set[str] = field(default_factory=set)
    recreated: set[str] = field(default_factory=set)


class MetadataCache:
    """The cache and its rules. One writer at a time; `snapshot` for any thread (M16)."""

    def __init__(self) -> None:
        self.snapshot = ClusterMetadata()
        self._last_epochs: dict[str, dict[int, int]] = {}
        self._ids: dict[str, bytes] = {}
        self._former_ids: dict[str, dict[bytes, None]] = {}
        self._topic_errors: dict[str, int] = {}
        self._interest: dict[str, set[int]] | None = None
        # epoch of the hint, last-seen epoch before it
        self._hinted: dict[TopicPartition, tuple[int, int]] = {}
        self._hinted_meanwhile: set[TopicPartition] | None = None  # while an answer is being merged
        # epoch of the last one that failed: not taken again
        self._failed_hints: dict[TopicPartition, int] = {}
        # per partition or topic: what a backward answer said, and how often in a row
        self._rewinds: dict[TopicPartition | str, tuple[object, int]] = {}

    def set_interest(self, partitions: Iterable[TopicPartition] | None) -> None:
        """Say which partitions can make an answer outdated: a consumer's own, or None for all."""
        interest: dict[str, set[int]] | None = None
        if partitions is not None:
            interest = {}
            for topic, partition in partitions:
                interest.setdefault(topic, set()).add(partition)
        self._interest = interest

    def last_seen_epoch(self, tp: TopicPartition) -> int | None:
        """Return the highest leader epoch known for a partition, None when none is."""
        return self._last_epochs.get(tp.topic, {}).get(tp.partition)

    def topic_error(self, topic: str) -> int:
        """Return the error code of a topic in the last answer that named it, 0 for none."""
        return self._topic_errors.get(topic, 0)

    def current_leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        """Return the leader to speak to and its epoch; node None while it is unknown (M8, M10)."""
        found = self.snapshot.partition(tp)
        if found is None:
            return LeaderAndEpoch(None, -1)
        seen = self._last_epochs.get(tp.topic, {}).get(tp.partition, -1)
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
        """Note a leader epoch seen outside Metadata; return whether to refresh all (M7, M9)."""
        if epoch < 0:
            raise LocalProtocolError(
                f"{tp}: a leader epoch of {epoch} was reported as seen; epochs start at 0"
            )
        known = self.last_seen_epoch(tp)
        if known is None or epoch <= known:
            return False
        self._last_epochs[tp.topic][tp.partition] = epoch
        return True

    def see_rejected_id(self, topic: str, topic_id: bytes) -> None:
        """Note that a broker rejected a topic id: if it is the one held, another may come (M5)."""
        if topic_id == self._ids.get(topic):
            self._former_ids.pop(topic, None)

    def forget(self, topic: str) -> None:
        """Drop a topic that is no longer used. Its last-seen epochs stay (M3)."""
        if topic in self.snapshot.topics:
            topics = {name: found for name, found in self.snapshot.topics.items() if name != topic}
            self._replace_topics(topics)
        self._topic_errors.pop(topic, None)

    def apply(self, update: MetadataUpdate, *, full: bool) -> Applied:
        """Merge an answer, all of it at once, and return what it did. See `merging`."""
        merging = self.merging(update, full=full)
        while True:
            try:
                next(merging)
            except StopIteration as ended:
                found: Applied = ended.value
                return found

    def merging(self, update: MetadataUpdate, *, full: bool) -> Generator[None, None, Applied]:
        """Merge an answer in steps, between which a loop may go on; returns what it did.

        Mutates: `snapshot` is replaced by a new one at the end. Hints and epochs may come in
        between, another answer may not. `full` says that all topics of this client (or of the
        cluster) were asked for, so that a topic which is missing is gone (M3); a partial answer
        leaves the others alone (M13).
        """
        before, findings, room = self.snapshot, _Findings(), MERGED_AT_ONCE
        if full:
            self._topic_errors = {}
        self._hinted_meanwhile = set()
        merged: dict[str, TopicMetadata] = {}
        missing: set[str] = set()  # named by the answer, and not there
        not_ours: set[str] = set()
        for topic in update.topics:
            if room <= 0:
                room = MERGED_AT_ONCE
                yield
            room -= 1 + len(topic.partitions)
            found = yield from self._merge_topic(topic, update.version, findings)
            self._topic_errors[topic.name] = topic.error_code
            if found is not None:
                merged[topic.name] = found
                continue
            missing.add(topic.name)
            if topic.error_code != UNKNOWN_TOPIC_OR_PARTITION:
                not_ours.add(topic.name)
        if room <= 0:
            yield
        for topic in update.topics if self._hinted_meanwhile else ():
            if topic.name in merged:
                merged[topic.name] = self._merge_hinted(topic, merged[topic.name], findings)
        self._hinted_meanwhile = None
        topics = merged
        if (findings.outdated or not full) and not self.snapshot.topics.keys() <= merged.keys():
            topics = {**self.snapshot.topics, **merged}
            # Who is behind in one thing is not believed that another one is gone.
            for name in not_ours if findings.outdated else missing:
                topics.pop(name, None)
        self.snapshot = after = ClusterMetadata(
            brokers=frozen(self._brokers(update, topics)),
            topics=frozen(topics),
            controller_id=update.controller_id,
            cluster_id=update.cluster_id if update.cluster_id is not None else before.cluster_id,
        )
        if len(topics) > MERGED_AT_ONCE:
            yield
        return Applied(
            outdated=findings.outdated,
            possible_data_loss=findings.data_loss,
            incomplete=findings.incomplete,
            recreated=findings.recreated,
            equivalent=_nothing_new(before, after),
        )

    def apply_hint(
        self, tp: TopicPartition, leader_id: int, leader_epoch: int, endpoints: Iterable[Node]
    ) -> bool:
        """Take a new leader out of a Produce or Fetch error (KIP-951); return whether it was taken.

        K7: ignored without an id and epoch, for an epoch that is not greater than the cached one
            (K13:
        two brokers naming each other cannot make a loop), for a partition that is not cached, and
        for a node that neither the answer nor the cache knows. K9: the answer's endpoint overrides
        the cached one; endpoints that leave out the leader contradict the hint, which is ignored
        then, as id and endpoint are only good together. K8: nothing else changes.
        """
        found = self.snapshot.partition(tp)
        nodes = {node.id: node for node in endpoints}
        if found is None or leader_id < 0 or leader_epoch < 0 or leader_epoch <= found.leader_epoch:
            return False
        epochs = self._last_epochs.setdefault(tp.topic, {})
        if leader_epoch < epochs.get(tp.partition, -1) or leader_epoch == self._failed_hints.get(
            tp
        ):
            return False
        if leader_id not in (nodes or self.snapshot.brokers):
            return False
        topic = self.snapshot.topics[tp.topic]
        moved = found._replace(leader=leader_id, leader_epoch=leader_epoch, error_code=0)
        partitions = frozen({**topic.partitions, tp.partition: moved})
        brokers = dict(self.snapshot.brokers)
        if leader_id in nodes:
            brokers[leader_id] = nodes[leader_id]
        before_it = self._hinted.get(tp, (-1, epochs.get(tp.partition, -1)))[1]
        self._hinted[tp] = (leader_epoch, before_it)
        epochs[tp.partition] = leader_epoch
        self._rewinds.pop(tp, None)
        if self._hinted_meanwhile is not None:
            self._hinted_meanwhile.add(tp)
        self._replace_topics(
            {**self.snapshot.topics, tp.topic: topic._replace(partitions=partitions)}, brokers
        )
        return True

    def hint_failed(self, tp: TopicPartition, epoch: int) -> bool:
        """Note that the leader of this epoch does not lead; return whether a hint had named it.

        The hint's epoch does not count as seen any more, so that the next answer is judged by what
        was known before: behind a proxy hints may be wrong, and a lie must not outlive its first
        failure.
        """
        hinted, before_it = self._hinted.get(tp, (-1, -1))
        if hinted != epoch or epoch < 0:
            return False
        del self._hinted[tp]
        self._failed_hints[tp] = epoch
        epochs = self._last_epochs[tp.topic]
        if epochs.get(tp.partition) == hinted:
            del epochs[tp.partition]
            if before_it >= 0:
                epochs[tp.partition] = before_it
        return True

    def _brokers(self, update: MetadataUpdate, topics: dict[str, TopicMetadata]) -> dict[int, Node]:
        brokers, before = dict(update.brokers), self.snapshot.brokers
        # as long as no answer has confirmed a hint, its endpoint counts (K9)
        for tp in self._hinted:
            found = topics[tp.topic].partitions.get(tp.partition) if tp.topic in topics else None
            if found is not None and found.leader in before:
                brokers[found.leader] = before[found.leader]
        return brokers

    def _replace_topics(
        self, topics: dict[str, TopicMetadata], brokers: dict[int, Node] | None = None
    ) -> None:
        old = self.snapshot
        nodes = old.brokers if brokers is None else frozen(brokers)
        self.snapshot = ClusterMetadata(nodes, frozen(topics), old.controller_id, old.cluster_id)

    def _merge_topic(
        self, topic: TopicUpdate, version: int, findings: _Findings
    ) -> Generator[None, None, TopicMetadata | None]:
        """Return what the cache holds of a topic from now on (None: nothing); in steps if large."""
        name, old = topic.name, self.snapshot.topics.get(topic.name)
        if topic.error_code != 0:
            entry = error_codes().get(topic.error_code)
            if entry is not None and entry.retriable:
                findings.incomplete.add(name)
                # the broker may only be behind (LEADER_NOT_AVAILABLE):
                # the old entry is still the best there is
                return old if topic.error_code != UNKNOWN_TOPIC_OR_PARTITION else None
            return None
        topic_id = topic.topic_id if version >= TOPIC_IDS_VERSION else ZERO_UUID
        if topic_id not in (ZERO_UUID, self._ids.get(name)):
            if topic_id in self._former_ids.get(name, ()):
                if not self._believed(name, topic_id):
                    findings.outdated |= self._interesting(
                        name, [found.partition for found in topic.partitions]
                    )
                    return old
                findings.data_loss |= {
                    TopicPartition(name, found.partition) for found in topic.partitions
                }
            return self._accept_whole(topic, findings)
        partitions: dict[int, PartitionMetadata] = {}
        for first in range(0, len(topic.partitions), MERGED_AT_ONCE):
            if first:
                yield
            self._merge_partitions(
                name, topic.partitions[first : first + MERGED_AT_ONCE], old, partitions, findings
            )
        self._keep_missing(topic, old, partitions, findings)
        if version < TOPIC_IDS_VERSION and old is not None:
            # the answer could not have carried an id: nothing is learned from its absence
            topic_id = old.topic_id
        merged = TopicMetadata(name, frozen(partitions), topic_id, topic.is_internal)
        return old if merged == old else merged

    def _merge_partitions(
        self,
        name: str,
        answered: Sequence[PartitionMetadata],
        old: TopicMetadata | None,
        partitions: dict[int, PartitionMetadata],
        findings: _Findings,
    ) -> None:
        """Merge these partitions of a topic with what the cache has of them, into `partitions`."""
        before = old.partitions if old is not None else {}
        known = self._last_epochs.setdefault(name, {})
        quiet = not (self._rewinds or self._hinted)
        for found in answered:
            index, epoch = found.partition, found.leader_epoch
            held, seen = before.get(index), known.get(index, -1)
            if not (quiet and epoch >= seen):
                partitions[index] = self._merge_partition(name, found, held, findings)
                quiet = not (self._rewinds or self._hinted)
                continue
            # Most partitions of most answers: nothing new, or what only goes forwards.
            if epoch > seen:
                known[index] = epoch
            if found.leader < 0 or found.error_code not in _WITH_A_LEADER:
                findings.incomplete.add(name)
            partitions[index] = held if held is not None and held == found else found

    def _merge_hinted(
        self, topic: TopicUpdate, merged: TopicMetadata, findings: _Findings
    ) -> TopicMetadata:
        """Merge again what a hint has changed since: it is judged by what the hint said."""
        now, partitions = self.snapshot.topics.get(topic.name), dict(merged.partitions)
        hints = self._hinted_meanwhile or ()
        hinted = [one for one in topic.partitions if (topic.name, one.partition) in hints]
        for one in hinted:
            self._rewinds.pop(TopicPartition(topic.name, one.partition), None)
        self._merge_partitions(topic.name, hinted, now, partitions, findings)
        return merged._replace(partitions=frozen(partitions)) if hinted else merged

    def _accept_whole(self, topic: TopicUpdate, findings: _Findings) -> TopicMetadata:
        """M4, M5: under a topic id new to this cache every epoch is accepted, higher or lower."""
        name = topic.name
        if (former := self._ids.get(name)) is not None:
            findings.recreated.add(name)
            held = self._former_ids.setdefault(name, {})
            held.pop(topic.topic_id, None)
            held[former] = None
            if len(held) > FORMER_IDS:
                del held[next(iter(held))]
        self._ids[name] = topic.topic_id
        self._rewinds.pop(name, None)
        if self._rewinds or self._hinted or self._failed_hints:
            for index in self._last_epochs.get(name, ()):
                tp = TopicPartition(name, index)
                self._rewinds.pop(tp, None)
                self._hinted.pop(tp, None)
                self._failed_hints.pop(tp, None)
        self._last_epochs[name] = {
            f.partition: f.leader_epoch for f in topic.partitions if f.leader_epoch >= 0
        }
        partitions = frozen({found.partition: found for found in topic.partitions})
        return TopicMetadata(name, partitions, topic.topic_id, topic.is_internal)

    def _merge_partition(
        self,
        name: str,
        found: PartitionMetadata,
        before: PartitionMetadata | None,
        findings: _Findings,
    ) -> PartitionMetadata:
        tp, epochs = TopicPartition(name, found.partition), self._last_epochs[name]
        known, epoch = epochs.get(tp.partition, -1), found.leader_epoch
        if epoch < known:
            if (
                epoch < 0
                and before is not None
                and (before.leader == found.leader or before.leader_epoch < 0)
            ):
                found = found._replace(leader_epoch=before.leader_epoch)  # M17
            elif not self._believed(tp, (epoch, found.leader)):
                findings.outdated |= self._interesting(name, (tp.partition,))
                return before if before is not None else PartitionMetadata(tp.partition, -1)
            elif epoch >= 0:
                epochs[tp.partition] = epoch
                findings.data_loss.add(tp)
                if known - epoch >= REWIND_OF_A_NEW_TOPIC and epoch <= EPOCHS_OF_A_NEW_TOPIC:
                    findings.recreated.add(name)
        elif epoch >= 0:
            epochs[tp.partition] = epoch
        self._rewinds.pop(tp, None)
        self._hinted.pop(tp, None)
        if found.leader < 0 or found.error_code not in _WITH_A_LEADER:
            findings.incomplete.add(name)
        return found

    def _keep_missing(
        self,
        topic: TopicUpdate,
        old: TopicMetadata | None,
        partitions: dict[int, PartitionMetadata],
        findings: _Findings,
    ) -> None:
        """KIP-232's second condition: a partition of a living topic stays until M18 believes it."""
        present = {found.partition for found in topic.partitions}
        missing = old.partitions.keys() - present if old is not None else ()
        if old is None or not missing or not present:
            self._rewinds.pop(topic.name, None)
            return
        if self._believed(topic.name, frozenset(present)):
            self._rewinds.pop(topic.name, None)
            lost = {TopicPartition(topic.name, index) for index in missing}
            findings.data_loss |= lost
            return
        partitions.update({index: old.partitions[index] for index in missing})
        findings.outdated |= self._interesting(topic.name, missing)

    def _interesting(self, topic: str, partitions: Iterable[int]) -> set[TopicPartition]:
        """Return those of these partitions that can make an answer outdated."""
        wanted = None if self._interest is None else self._interest.get(topic, set())
        return {
            TopicPartition(topic, index)
            for index in partitions
            if wanted is None or index in wanted
        }

    def _believed(self, key: TopicPartition | str, evidence: object) -> bool:
        """Count one more answer that goes backwards; return whether enough agree (M18)."""
        said, count = self._rewinds.get(key, (None, 0))
        count = count + 1 if said == evidence else 1
        self._rewinds[key] = (evidence, count)
        return count >= AGREEING_ANSWERS


def _nothing_new(before: ClusterMetadata, after: ClusterMetadata) -> bool:
    """Return whether two snapshots say the same. A topic that says the same is the same object."""
    return (
        (before.brokers, before.controller_id, before.cluster_id)
        == (after.brokers, after.controller_id, after.cluster_id)
        and len(before.topics) == len(after.topics)
        and all(before.topics.get(name) is found for name, found in after.topics.items())
    )
