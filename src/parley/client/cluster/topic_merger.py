"""What an answer says of topics, merged into what is known of them: M2 to M7, M14, M17 and M18.

The rules stand at the head of `metadata_cache`, which keeps the snapshot. Here is what must be
remembered beside it to judge an answer: epochs and topic ids seen before, hints that no answer has
confirmed, and how often answers went backwards. No clock, no socket, no randomness.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from parley.client.cluster.view import (
    TOPIC_IDS_VERSION,
    PartitionMetadata,
    TopicMetadata,
    TopicUpdate,
    frozen,
)
from parley.errors.broker import error_codes
from parley.types import ZERO_UUID, TopicPartition

AGREEING_ANSWERS = 5
"""Answers in a row after which a step backwards is believed (franz-go's figure, its issue 119)."""
UNKNOWN_TOPIC_OR_PARTITION = 3
REPLICA_NOT_AVAILABLE = 9
"""Reported by Metadata v0 for a partition that has a leader all the same: not asked again."""
MERGED_AT_ONCE = 1_000
"""Topics and partitions in one step of `merging`: some 10 ms if each is outdated."""
_WITH_A_LEADER = (0, REPLICA_NOT_AVAILABLE)
OUTDATED_NAMED = 1_000
"""Partitions that are named as outdated: one is enough to ask again, and a hundred thousand would
take longer to let go of than a step may.
"""
FORMER_IDS = 16
"""Topic ids remembered per name: for stale answers, bounded for a topic re-created daily."""
REWIND_OF_A_NEW_TOPIC, EPOCHS_OF_A_NEW_TOPIC = 3, 2
"""Without topic ids: this many epochs back, onto at most this one, is a new topic."""


@dataclass(slots=True)
class Findings:
    """What merging an answer found, besides the topics themselves."""

    outdated: set[TopicPartition] = field(default_factory=set)
    data_loss: set[TopicPartition] = field(default_factory=set)
    incomplete: set[str] = field(default_factory=set)
    recreated: set[str] = field(default_factory=set)


class TopicMerger:
    """What is remembered of topics, so that answers can be judged by it. Every method mutates."""

    def __init__(self) -> None:
        self.last_epochs: dict[str, dict[int, int]] = {}
        self.ids: dict[str, bytes] = {}
        self.former_ids: dict[str, dict[bytes, None]] = {}
        self.interest: Mapping[str, Collection[int]] | None = None
        self.hinted: dict[TopicPartition, tuple[int, int]] = {}
        """Epoch of a hint, and the last-seen epoch before it."""
        self.hinted_meanwhile: set[TopicPartition] | None = None
        """Hints that came while an answer is being merged."""
        self.failed_hints: dict[TopicPartition, int] = {}
        """Epoch of the last hint that failed: it is not taken again."""
        self.rewinds: dict[TopicPartition | str, tuple[object, int]] = {}
        """Of a partition or topic: what a backward answer said, and how often in a row."""

    def merge(
        self, topic: TopicUpdate, version: int, old: TopicMetadata | None, findings: Findings
    ) -> Generator[None, None, TopicMetadata | None]:
        """Return what the cache holds of a topic from now on (None: nothing); in steps if large."""
        name = topic.name
        if topic.error_code != 0:
            entry = error_codes().get(topic.error_code)
            if entry is not None and entry.retriable:
                findings.incomplete.add(name)
                # the broker may only be behind (LEADER_NOT_AVAILABLE):
                # the old entry is still the best there is
                return old if topic.error_code != UNKNOWN_TOPIC_OR_PARTITION else None
            return None
        topic_id = topic.topic_id if version >= TOPIC_IDS_VERSION else ZERO_UUID
        if topic_id not in (ZERO_UUID, self.ids.get(name)):
            if topic_id in self.former_ids.get(name, ()):
                if not self._believed(name, topic_id):
                    self._note_outdated(
                        findings, name, [found.partition for found in topic.partitions]
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
        self.keep_missing(topic, old, partitions, findings)
        if version < TOPIC_IDS_VERSION and old is not None:
            # the answer could not have carried an id: nothing is learned from its absence
            topic_id = old.topic_id
        merged = TopicMetadata(name, frozen(partitions), topic_id, topic.is_internal)
        return old if merged == old else merged

    def merge_hinted(
        self,
        topic: TopicUpdate,
        merged: TopicMetadata,
        now: TopicMetadata | None,
        findings: Findings,
    ) -> TopicMetadata:
        """Merge again what a hint has changed since: it is judged by what the hint said."""
        partitions = dict(merged.partitions)
        hints = self.hinted_meanwhile or ()
        hinted = [one for one in topic.partitions if (topic.name, one.partition) in hints]
        for one in hinted:
            self.rewinds.pop(TopicPartition(topic.name, one.partition), None)
        self._merge_partitions(topic.name, hinted, now, partitions, findings)
        return merged._replace(partitions=frozen(partitions)) if hinted else merged

    def _merge_partitions(
        self,
        name: str,
        answered: Sequence[PartitionMetadata],
        old: TopicMetadata | None,
        partitions: dict[int, PartitionMetadata],
        findings: Findings,
    ) -> None:
        """Merge these partitions of a topic with what the cache has of them, into `partitions`."""
        before = old.partitions if old is not None else {}
        known = self.last_epochs.setdefault(name, {})
        quiet = not (self.rewinds or self.hinted)
        for found in answered:
            index, epoch = found.partition, found.leader_epoch
            held, seen = before.get(index), known.get(index, -1)
            if not (quiet and epoch >= seen):
                partitions[index] = self._merge_partition(name, found, held, findings)
                quiet = not (self.rewinds or self.hinted)
                continue
            # Most partitions of most answers: nothing new, or what only goes forwards.
            if epoch > seen:
                known[index] = epoch
            if found.leader < 0 or found.error_code not in _WITH_A_LEADER:
                findings.incomplete.add(name)
            partitions[index] = held if held is not None and held == found else found

    def _accept_whole(self, topic: TopicUpdate, findings: Findings) -> TopicMetadata:
        """M4, M5: under a topic id new to this cache every epoch is accepted, higher or lower."""
        name = topic.name
        if (former := self.ids.get(name)) is not None:
            findings.recreated.add(name)
            held = self.former_ids.setdefault(name, {})
            held.pop(topic.topic_id, None)
            held[former] = None
            if len(held) > FORMER_IDS:
                del held[next(iter(held))]
        self.ids[name] = topic.topic_id
        self.rewinds.pop(name, None)
        if self.rewinds or self.hinted or self.failed_hints:
            for index in self.last_epochs.get(name, ()):
                tp = TopicPartition(name, index)
                self.rewinds.pop(tp, None)
                self.hinted.pop(tp, None)
                self.failed_hints.pop(tp, None)
        self.last_epochs[name] = {
            f.partition: f.leader_epoch for f in topic.partitions if f.leader_epoch >= 0
        }
        partitions = frozen({found.partition: found for found in topic.partitions})
        return TopicMetadata(name, partitions, topic.topic_id, topic.is_internal)

    def _merge_partition(
        self,
        name: str,
        found: PartitionMetadata,
        before: PartitionMetadata | None,
        findings: Findings,
    ) -> PartitionMetadata:
        tp, epochs = TopicPartition(name, found.partition), self.last_epochs[name]
        known, epoch = epochs.get(tp.partition, -1), found.leader_epoch
        if epoch < known:
            if (
                epoch < 0
                and before is not None
                and (before.leader == found.leader or before.leader_epoch < 0)
            ):
                found = found._replace(leader_epoch=before.leader_epoch)  # M17
            elif not self._believed(tp, (epoch, found.leader)):
                self._note_outdated(findings, name, (tp.partition,))
                return before if before is not None else PartitionMetadata(tp.partition, -1)
            elif epoch >= 0:
                epochs[tp.partition] = epoch
                findings.data_loss.add(tp)
                if known - epoch >= REWIND_OF_A_NEW_TOPIC and epoch <= EPOCHS_OF_A_NEW_TOPIC:
                    findings.recreated.add(name)
        elif epoch >= 0:
            epochs[tp.partition] = epoch
        self.rewinds.pop(tp, None)
        self.hinted.pop(tp, None)
        if found.leader < 0 or found.error_code not in _WITH_A_LEADER:
            findings.incomplete.add(name)
        return found

    def keep_missing(
        self,
        topic: TopicUpdate,
        old: TopicMetadata | None,
        partitions: dict[int, PartitionMetadata],
        findings: Findings,
    ) -> None:
        """KIP-232's second condition: a partition of a living topic stays until M18 believes it."""
        present = {found.partition for found in topic.partitions}
        missing = old.partitions.keys() - present if old is not None else ()
        if old is None or not missing or not present:
            self.rewinds.pop(topic.name, None)
            return
        if self._believed(topic.name, frozenset(present)):
            self.rewinds.pop(topic.name, None)
            lost = {TopicPartition(topic.name, index) for index in missing}
            findings.data_loss |= lost
            return
        partitions.update({index: old.partitions[index] for index in missing})
        self._note_outdated(findings, topic.name, missing)

    def _note_outdated(self, findings: Findings, topic: str, partitions: Iterable[int]) -> None:
        """Take note of those of these partitions that can make an answer outdated."""
        wanted = None if self.interest is None else self.interest.get(topic, ())
        for index in partitions:
            if len(findings.outdated) >= OUTDATED_NAMED:
                return
            if wanted is None or index in wanted:
                findings.outdated.add(TopicPartition(topic, index))

    def _believed(self, key: TopicPartition | str, evidence: object) -> bool:
        """Count one more answer that goes backwards; return whether enough agree (M18)."""
        said, count = self.rewinds.get(key, (None, 0))
        count = count + 1 if said == evidence else 1
        self.rewinds[key] = (evidence, count)
        return count >= AGREEING_ANSWERS
