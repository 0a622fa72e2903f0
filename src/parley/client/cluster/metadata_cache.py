"""The metadata cache: what may replace what, so that leadership never goes backwards (KIP-232).

No clock, no socket, no randomness: answers come in, metadata and findings come out. The rules, with
the labels under which the tests name them (what answers say of topics `topic_merger` judges):

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

from collections.abc import Collection, Generator, Iterable, Mapping
from typing import NamedTuple

from parley.client.cluster import topic_merger
from parley.client.cluster.topic_merger import Findings, TopicMerger
from parley.client.cluster.view import (
    Applied,
    ClusterMetadata,
    LeaderAndEpoch,
    MetadataUpdate,
    TopicMetadata,
    frozen,
)
from parley.errors import LocalProtocolError
from parley.types import Node, TopicPartition


class _Merged(NamedTuple):
    """What became of an answer's topics."""

    topics: dict[str, TopicMetadata]
    missing: set[str]
    """Named by the answer, and not there."""
    not_ours: set[str]
    unchanged: bool
    """Whether all topics are the same objects as when merging began, if nothing was hinted."""


class MetadataCache:
    """The cache and its rules. One writer at a time; `snapshot` for any thread (M16)."""

    def __init__(self, known: TopicMerger | None = None) -> None:
        self.snapshot = ClusterMetadata()
        self.changes = 0
        """Counts what may have changed a leader: whoever keeps one looks again."""
        self._known = known or TopicMerger()
        self._topic_errors: dict[str, int] = {}

    def set_interest(self, partitions: Iterable[TopicPartition] | None) -> None:
        """Say which partitions can make an answer outdated: a consumer's own, or None for all."""
        interest: dict[str, set[int]] | None = None
        if partitions is not None:
            interest = {}
            for topic, partition in partitions:
                interest.setdefault(topic, set()).add(partition)
        self.share_interest(interest)

    def share_interest(self, interest: Mapping[str, Collection[int]] | None) -> None:
        """Say the same with the caller's own partitions by topic, which it may change later."""
        self._known.interest = interest

    def last_seen_epoch(self, tp: TopicPartition) -> int | None:
        """Return the highest leader epoch known for a partition, None when none is."""
        return self._known.last_epochs.get(tp.topic, {}).get(tp.partition)

    def topic_error(self, topic: str) -> int:
        """Return the error code of a topic in the last answer that named it, 0 for none."""
        return self._topic_errors.get(topic, 0)

    def current_leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        """Return the leader to speak to and its epoch; node None while it is unknown (M8, M10)."""
        found = self.snapshot.partition(tp)
        if found is None:
            return LeaderAndEpoch(None, -1)
        seen = self._known.last_epochs.get(tp.topic, {}).get(tp.partition, -1)
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
        self._known.last_epochs[tp.topic][tp.partition] = epoch
        self.changes += 1
        return True

    def see_rejected_id(self, topic: str, topic_id: bytes) -> None:
        """Note that a broker rejected a topic id: if it is the one held, another may come (M5)."""
        if topic_id == self._known.ids.get(topic):
            self._known.former_ids.pop(topic, None)

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
        before, findings = self.snapshot, Findings()
        if full:
            self._topic_errors = {}
        self._known.hinted_meanwhile = set()
        merged = yield from self._merge_topics(update, findings)
        self._known.hinted_meanwhile = None
        same = merged.unchanged and before is self.snapshot
        topics = self._together(merged, findings, full=full, same=same)
        same = same and topics is merged.topics and len(topics) == len(before.topics)
        self.snapshot = after = ClusterMetadata(
            brokers=frozen(self._brokers(update, topics)),
            topics=frozen(topics),
            controller_id=update.controller_id,
            cluster_id=update.cluster_id if update.cluster_id is not None else before.cluster_id,
        )
        self.changes += 1
        large = len(topics) > topic_merger.MERGED_AT_ONCE
        if large:
            yield
        applied = Applied(
            outdated=findings.outdated,
            possible_data_loss=findings.data_loss,
            incomplete=findings.incomplete,
            recreated=findings.recreated,
            equivalent=_nothing_new(before, after, same_topics=same),
        )
        if large:  # to let go of what was known before takes as long as a step
            yield
            del before
            yield
        return applied

    def _merge_topics(
        self, update: MetadataUpdate, findings: Findings
    ) -> Generator[None, None, _Merged]:
        """Merge an answer's topics into those of now, in steps."""
        before, room, unchanged = self.snapshot.topics, topic_merger.MERGED_AT_ONCE, 0
        merged: dict[str, TopicMetadata] = {}
        missing: set[str] = set()
        not_ours: set[str] = set()
        for topic in update.topics:
            if room <= 0:
                room = topic_merger.MERGED_AT_ONCE
                yield
            room -= 1 + len(topic.partitions)
            found = yield from self._known.merge(
                topic, update.version, self.snapshot.topics.get(topic.name), findings
            )
            self._topic_errors[topic.name] = topic.error_code
            if found is not None:
                merged[topic.name] = found
                unchanged += found is before.get(topic.name)
                continue
            missing.add(topic.name)
            if topic.error_code != topic_merger.UNKNOWN_TOPIC_OR_PARTITION:
                not_ours.add(topic.name)
        if room <= 0:
            yield
        for topic in update.topics if self._known.hinted_meanwhile else ():
            if topic.name in merged:
                merged[topic.name] = self._known.merge_hinted(
                    topic, merged[topic.name], self.snapshot.topics.get(topic.name), findings
                )
        return _Merged(merged, missing, not_ours, unchanged == len(merged))

    def _together(
        self, merged: _Merged, findings: Findings, *, full: bool, same: bool
    ) -> dict[str, TopicMetadata]:
        """Return the topics from now on: what is merged, with what stays beside it."""
        topics, held = merged.topics, self.snapshot.topics
        if full and not findings.outdated:
            return topics
        if len(topics) == len(held) if same else held.keys() <= topics.keys():
            return topics
        together = {**held, **topics}
        # Who is behind in one thing is not believed that another one is gone.
        for name in merged.not_ours if findings.outdated else merged.missing:
            together.pop(name, None)
        return together

    def apply_hint(
        self, tp: TopicPartition, leader_id: int, leader_epoch: int, endpoints: Iterable[Node]
    ) -> bool:
        """Take a new leader out of a Produce or Fetch error (KIP-951); return whether it was taken.

        K7: ignored without an id and epoch, for an epoch that is not greater than the cached one
            (K13: two brokers naming each other cannot make a loop), for a partition that is not
            cached, and for a node that neither the answer nor the cache knows.
        K8: nothing else changes.
        K9: the answer's endpoint overrides the cached one; endpoints that leave out the leader
            contradict the hint, which is ignored then: id and endpoint are only good together.
        """
        found = self.snapshot.partition(tp)
        nodes = {node.id: node for node in endpoints}
        if found is None or leader_id < 0 or leader_epoch < 0 or leader_epoch <= found.leader_epoch:
            return False
        epochs = self._known.last_epochs.setdefault(tp.topic, {})
        if leader_epoch == self._known.failed_hints.get(tp):
            return False
        if leader_epoch < epochs.get(tp.partition, -1):
            return False
        if leader_id not in (nodes or self.snapshot.brokers):
            return False
        topic = self.snapshot.topics[tp.topic]
        moved = found._replace(leader=leader_id, leader_epoch=leader_epoch, error_code=0)
        partitions = frozen({**topic.partitions, tp.partition: moved})
        brokers = dict(self.snapshot.brokers)
        if leader_id in nodes:
            brokers[leader_id] = nodes[leader_id]
        before_it = self._known.hinted.get(tp, (-1, epochs.get(tp.partition, -1)))[1]
        self._known.hinted[tp] = (leader_epoch, before_it)
        epochs[tp.partition] = leader_epoch
        self._known.rewinds.pop(tp, None)
        if self._known.hinted_meanwhile is not None:
            self._known.hinted_meanwhile.add(tp)
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
        hinted, before_it = self._known.hinted.get(tp, (-1, -1))
        if hinted != epoch or epoch < 0:
            return False
        del self._known.hinted[tp]
        self._known.failed_hints[tp] = epoch
        self.changes += 1
        epochs = self._known.last_epochs[tp.topic]
        if epochs.get(tp.partition) == hinted:
            del epochs[tp.partition]
            if before_it >= 0:
                epochs[tp.partition] = before_it
        return True

    def _brokers(self, update: MetadataUpdate, topics: dict[str, TopicMetadata]) -> dict[int, Node]:
        brokers, before = dict(update.brokers), self.snapshot.brokers
        # as long as no answer has confirmed a hint, its endpoint counts (K9)
        for tp in self._known.hinted:
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
        self.changes += 1


def _nothing_new(before: ClusterMetadata, after: ClusterMetadata, *, same_topics: bool) -> bool:
    """Return whether two snapshots say the same. A topic that says the same is the same object;
    `same_topics`: it is known that all are.
    """
    if (before.brokers, before.controller_id, before.cluster_id) != (
        after.brokers,
        after.controller_id,
        after.cluster_id,
    ):
        return False
    return same_topics or (
        len(before.topics) == len(after.topics)
        and all(before.topics.get(name) is found for name, found in after.topics.items())
    )
