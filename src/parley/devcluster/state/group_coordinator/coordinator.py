"""What the coordinators of all groups know, kept in `__consumer_offsets` and taken from there.

Rules of this file:
1. What a client is sent stands in the log first; where the log takes nothing, nothing is changed.
2. A group is known while its partition has a leader, and as that leader's log has it: when another
   broker leads, or the same one after a restart, the log is read from its start (`follow`; H18,
   H19). While a broker loads a partition, nothing of it is known and nothing taken.
3. A record that says what the last one of its key said is not written.
4. Offsets of an open transaction stand in the log as well, and count when its marker does (KIP-98).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import starmap

from parley.devcluster.state.group_coordinator.replay import Stored, replay
from parley.devcluster.state.group_coordinator.topic import (
    OFFSETS_TOPIC,
    Logs,
    LogUnavailable,
    OffsetsTopic,
    Place,
)
from parley.devcluster.state.groups.classic.registry import ClassicGroups
from parley.devcluster.state.groups.mixed.registry import MixedGroups
from parley.devcluster.state.groups.modern.registry import ConsumerGroups
from parley.devcluster.state.groups.offsets import CommittedOffset, Groups, dashed
from parley.devcluster.state.groups.pending_offsets import Offsets, PendingOffsets
from parley.devcluster.state.groups.records import (
    NO_ID,
    GroupRecord,
    RecordRules,
    Written,
    decode,
    encode,
    encode_offset,
)
from parley.devcluster.state.groups.share.records import VALUES as SHARE_VALUES
from parley.devcluster.state.groups.share.registry import ShareGroups
from parley.devcluster.state.image import ClusterImage, TopicImage
from parley.devcluster.state.loading import Loading, LoadingRules
from parley.devcluster.state.log.replica import Replica
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.errors import RemoteProtocolError
from parley.errors.codes import INVALID_PRODUCER_EPOCH
from parley.messages import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from parley.types import format_uuid

logger = logging.getLogger("parley.devcluster")


class GroupCoordinator:
    """Committed offsets and groups. `new_id` makes ids of members; `policy`: of migrations."""

    def __init__(
        self,
        topic: OffsetsTopic,
        logs: Logs,
        new_id: Callable[[], bytes],
        policy: str,
        loading: LoadingRules,
    ) -> None:
        self.topic, self._logs = topic, logs
        self.offsets = Groups()
        self.pending = PendingOffsets()
        self.classic_groups = ClassicGroups(self.write, lambda: dashed(new_id()))
        self.consumer_groups = ConsumerGroups(self.write, self._rules_of)
        self.mixed_groups = MixedGroups(
            self.write,
            self.classic_groups,
            self.consumer_groups,
            lambda: format_uuid(new_id()),
            policy,
        )
        self.share_groups = ShareGroups(
            logs.keep, self.write, self._rules_of, lambda: logs.image.names
        )
        self._written: dict[str, dict[bytes, bytes]] = {}
        """The newest record of each key of a group, but for its offsets."""
        self._loaded: dict[int, Replica] = {}
        self.loading: Loading[int] = Loading(loading)
        """The partitions whose leaders still read them."""

    @property
    def _topics(self) -> Mapping[str, TopicImage]:
        return self._logs.image.topics

    def coordinator_of(self, group: str, image: ClusterImage) -> int:
        """Return who coordinates a group as an image of the cluster has it; -1 for nobody."""
        found = image.partition(OFFSETS_TOPIC, self.topic.partition_of(group))
        return -1 if found is None else found.leader

    # -- writing -------------------------------------------------------------------------------

    def _rules_of(self, group: str) -> RecordRules:
        return self.topic.rules_of(self.coordinator_of(group, self._logs.image))

    def _append(self, group: str, records: Sequence[Written], now_ms: int) -> Place:
        index = self.topic.partition_of(group)
        replica = self._writer(index, now_ms)
        if self.topic.is_long(replica):
            with suppress(OSError):  # the long one is as good
                self.topic.compact(replica, self._held_in(index), now_ms=now_ms)
        self.topic.append(replica, records, now_ms=now_ms)
        return Place(replica, replica.log.end_offset)

    def _writer(self, index: int, now_ms: int) -> Replica:
        if index in self.loading:
            raise LogUnavailable(f"{OFFSETS_TOPIC}-{index} is being loaded")
        return self.topic.writer(index, now_ms=now_ms)

    def _held_in(self, index: int) -> list[Written]:
        """Return the records that hold in a partition."""
        found: list[Written] = []
        for group in sorted({*self._written, *self.offsets.names()}):
            if self.topic.partition_of(group) == index:
                found += starmap(Written, self._written.get(group, {}).items())
                found += self._offset_records(group, self.offsets.all_of(group))
        return found

    def write(self, group: str, records: Iterable[GroupRecord], now_ms: int) -> None:
        """Write what has changed of a group, as one batch. Raises OSError; nothing is then."""
        rules, known = self._rules_of(group), self._written.get(group, {})
        found = [encode(record, rules) for record in records]
        changed = [one for one in found if known.get(one.key) != one.value]
        if changed:
            self._append(group, changed, now_ms)
            self._note(group, changed)

    def _note(self, group: str, records: Iterable[Written]) -> None:
        known = self._written.setdefault(group, {})
        for key, value in records:
            if value is None:
                known.pop(key, None)
            else:
                known[key] = value
        if not known:
            del self._written[group]

    def commit_offsets(self, group: str, offsets: Offsets, *, now_ms: int) -> Place | None:
        """Keep committed offsets; return where they are written, None without any.

        Raises OSError where the log takes none; none is changed then.
        """
        if not offsets:
            return None
        place = self._append(group, self._offset_records(group, offsets), now_ms)
        first = place.end_offset - len(offsets)
        for stamp, ((topic, index), offset) in enumerate(offsets.items(), start=first):
            self.offsets.commit(group, topic, index, offset, stamp)
        return place

    def _offset_records(self, group: str, offsets: Offsets) -> list[Written]:
        rules = self._rules_of(group)
        topics = self._topics if rules.writes_topic_ids else {}
        return [
            encode_offset(
                OffsetCommitKey(group=group, topic=topic, partition=index),
                OffsetCommitValue(
                    offset=offset.offset,
                    leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                    commit_timestamp=offset.committed_at_ms,
                    expire_timestamp=offset.expires_at_ms,
                    topic_id=topics[topic].topic_id if topic in topics else NO_ID,
                ),
                rules,
            )
            for (topic, index), offset in offsets.items()
        ]

    def delete_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], *, now_ms: int
    ) -> None:
        """Drop committed offsets. Raises OSError where the log takes none; none is dropped then."""
        known = [at for at in partitions if self.offsets.committed(group, *at) is not None]
        if known:
            self._append(group, _offset_tombstones(group, known), now_ms)
            for topic, index in known:
                self.offsets.forget_offset(group, topic, index)

    def delete_group(self, group: str, *, now_ms: int) -> None:
        """Drop a group with its offsets. Raises OSError where the log takes none; it stays then."""
        known = _offset_tombstones(group, self.offsets.all_of(group))
        known += [Written(key, None) for key in self._written.get(group, {})]
        if known:
            self._append(group, known, now_ms)
        self._forget(group)

    def forget_topic(self, topic: str, *, now_ms: int) -> None:
        """Drop the offsets of a topic that was deleted, pending ones too (H21)."""
        for group in self.offsets.names():
            gone = [at for at in self.offsets.all_of(group) if at[0] == topic]
            if gone:
                with suppress(OSError):  # whoever reads it later finds that the topic is gone
                    self._append(group, _offset_tombstones(group, gone), now_ms)
        self.offsets.forget_topic(topic)
        self.pending.forget_topic(topic)

    # -- transactions --------------------------------------------------------------------------

    def add_pending(
        self,
        producer: ProducerIdentity,
        group: str,
        offsets: Offsets,
        *,
        now_ms: int,
        fences: bool = True,
    ) -> Place:
        """Write offsets that count when the producer's transaction is committed; return where.

        Raises Refused (INVALID_PRODUCER_EPOCH, with `fences` only: the log has seen a newer epoch)
        or OSError.
        """
        replica = self._writer(self.topic.partition_of(group), now_ms)
        newest = replica.producers.epoch_of(producer.producer_id)
        if fences and producer.epoch < newest:
            raise Refused(INVALID_PRODUCER_EPOCH, f"epoch {producer.epoch} is older than {newest}")
        records = self._offset_records(group, offsets)
        first = self.topic.append(replica, records, now_ms=now_ms, producer=producer)
        self.pending.add(producer.producer_id, group, offsets, first)
        return Place(replica, replica.log.end_offset)

    def end_pending(self, producer_id: int, index: int, *, commit: bool) -> None:
        """Let a producer's offsets in a partition count, or drop them: its marker is there.

        Of an offset that was committed meanwhile the one that was written last holds.
        """
        ended = self.pending.ended(
            producer_id, lambda group: self.topic.partition_of(group) == index
        )
        for group, offsets in ended if commit else ():
            for (topic, partition), (offset, stamp) in offsets.items():
                if stamp > self.offsets.stamp_of(group, topic, partition):
                    self.offsets.commit(group, topic, partition, offset, stamp)

    # -- moves -------------------------------------------------------------------------------------

    def follow(self, *, now_ms: int) -> None:
        """Take over the groups of partitions that have another leader now, or none (rule 2)."""
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None and not self._loaded:
            return
        now: dict[int, Replica] = {}
        for index in range(0 if topic is None else len(topic.partitions)):
            leader = self.topic.leader_of(index)
            if leader is not None:
                now[index] = leader
        moved = {
            index
            for index in now.keys() | self._loaded.keys()
            if now.get(index) is not self._loaded.get(index)
        }
        if moved:
            self._unload(moved & self._loaded.keys())
            for index in sorted(moved & now.keys()):
                if not self.loading.begin(index, now[index].broker_id, now_ms):
                    self._load(now[index], now_ms)
        self._loaded = now

    def is_loading(self, group: str, *, now_ms: int) -> bool:
        """Whether a group's coordinator still reads what it has taken over."""
        if not self.loading:
            return False
        self.expire(now_ms=now_ms)
        return self.topic.partition_of(group) in self.loading

    @property
    def next_due_ms(self) -> int | None:
        """When the next partition is loaded."""
        return self.loading.next_due_ms

    def expire(self, *, now_ms: int) -> None:
        """Take over the groups of partitions that are loaded now."""
        for index in self.loading.take_finished(now_ms):
            self._load(self._loaded[index], now_ms)

    def let_go(self, index: int) -> None:
        """Forget the groups of a partition until `follow`: its log lost some of its end."""
        self._unload({index})
        self._loaded.pop(index, None)

    def _unload(self, indexes: set[int]) -> None:
        for index in indexes:
            self.loading.stop(index)
        groups = (*self.classic_groups, *self.consumer_groups, *self.share_groups)
        names = {one.name for one in groups}
        names |= {*self.offsets.names(), *self.pending.groups(), *self._written}
        for name in names:
            if self.topic.partition_of(name) in indexes:
                self.classic_groups.let_go(name)
                self._forget(name)
                self.pending.forget(name)

    def _forget(self, name: str) -> None:
        self.offsets.forget(name)
        self.classic_groups.delete(name)
        self.consumer_groups.delete(name)
        self.share_groups.unload(name)
        self._written.pop(name, None)

    def _load(self, leader: Replica, now_ms: int) -> None:
        found = replay(leader)
        groups: dict[str, list[GroupRecord]] = {}
        for key, stored in found.latest.items():
            record = _read(key, stored)
            if record is None or record.value is None:
                continue
            if isinstance(record.key, OffsetCommitKey):
                self._load_offset(record.key, record.value, stored.offset)
            elif stored.value is not None:
                name = _group_of(record)
                groups.setdefault(name, []).append(record)
                self._note(name, [Written(key, stored.value)])
        known = {
            name: (topic.topic_id, len(topic.partitions)) for name, topic in self._topics.items()
        }
        for name, records in groups.items():
            first = records[0].value
            if isinstance(first, GroupMetadataValue):
                self.classic_groups.load(name, first, now_ms)
            elif isinstance(first, SHARE_VALUES):
                self.share_groups.load(name, records, known, now_ms)
            else:
                self.consumer_groups.load(name, records, known, now_ms)
        for producer_id, written in found.undecided.items():
            for key, stored in written.items():
                record = _read(key, stored)
                if record is not None and isinstance(record.key, OffsetCommitKey):
                    self._load_offset(record.key, record.value, stored.offset, producer_id)

    def _load_offset(
        self, key: OffsetCommitKey, value: object, stamp: int, producer_id: int | None = None
    ) -> None:
        topic = self._topics.get(key.topic)
        if not isinstance(value, OffsetCommitValue) or topic is None:
            return
        if value.topic_id not in (NO_ID, topic.topic_id):
            return  # of a topic that was deleted, and came again
        offset = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
        )
        if producer_id is None:
            self.offsets.commit(key.group, key.topic, key.partition, offset, stamp)
        else:
            at = {(key.topic, key.partition): offset}
            self.pending.add(producer_id, key.group, at, stamp)


def _offset_tombstones(group: str, partitions: Iterable[tuple[str, int]]) -> list[Written]:
    return [
        encode(GroupRecord(OffsetCommitKey(group=group, topic=topic, partition=index), None))
        for topic, index in partitions
    ]


def _read(key: bytes, stored: Stored) -> GroupRecord | None:
    try:
        return decode(key, stored.value)
    except RemoteProtocolError as error:
        logger.warning(
            "%s has a record at %d that is left out: %s", OFFSETS_TOPIC, stored.offset, error
        )
        return None


def _group_of(record: GroupRecord) -> str:
    key = record.key
    name = key.group if isinstance(key, GroupMetadataKey) else getattr(key, "group_id", "")
    return str(name)
