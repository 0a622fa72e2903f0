"""The log cleaner: which logs of compacted topics are cleaned, and when.

Rules of this file:
1. A log is cleaned when the part of it that is new is more than min.cleanable.dirty.ratio of what
   may be cleaned, or when max.compaction.lag.ms is over for some of it: the dirtiest first, looked
   for every log.cleaner.backoff.ms.
2. Nothing falls due before a log has a segment that is not written to any more: a cluster without
   compacted topics never waits for a cleaner.
3. Each broker cleans its own logs by the rules of its release. Those of a partition are cleaned
   together, so that in-sync replicas go on to have equal bytes.
4. Topics of the brokers' own (`__consumer_offsets`) are compacted by who writes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.image import TopicImage
from parley.devcluster.state.log.cleaning import Cleaning, look_at, round_of, shape_of
from parley.devcluster.state.log.compaction import NEWEST_CLEANER, CleanerRules, Round
from parley.devcluster.state.log.replica import Replica, ReplicaKey
from parley.devcluster.state.log_settings import POLICY, LogSettings
from parley.devcluster.state.refused import Refused
from parley.errors.codes import POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION

log = logging.getLogger("parley.devcluster")


class _Dirtiest(NamedTuple):
    """The partition of the dirtiest log, and the part of it that is new."""

    topic: TopicImage
    partition: int
    ratio: float


class LogCleaner:
    """The cleaner of one cluster's brokers. `rules_of` says what a broker's release does."""

    def __init__(self, state: ClusterState, backoff_ms: int, now_ms: int) -> None:
        self._state = state
        self._backoff_ms = backoff_ms
        self.rules_of: Callable[[int], CleanerRules] = lambda broker_id: NEWEST_CLEANER
        self._seen = state.logs.changes.count
        self._looked_ms = now_ms
        self._again_ms: int | None = None

    # -- by time -------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When it looks for something to clean, None while nothing can have become dirty."""
        if self._seen == self._state.logs.changes.count:
            return self._again_ms
        return self._looked_ms + self._backoff_ms

    def expire(self, *, now_ms: int) -> None:
        """Look at all logs, and clean the dirtiest."""
        due_ms = self.next_due_ms
        if due_ms is None or due_ms > now_ms:
            return
        self._looked_ms, self._seen = now_ms, self._state.logs.changes.count
        self._again_ms = None
        found = self._look(now_ms)
        if found is None:
            return
        self._again_ms = now_ms  # there may be another one
        try:
            self._clean(found.topic, found.partition, now_ms)
        except OSError as error:
            name = f"{found.topic.name}-{found.partition}"
            log.warning("the disk refuses what compaction leaves of %s: %s", name, error)
            self._again_ms = now_ms + self._backoff_ms

    def _look(self, now_ms: int) -> _Dirtiest | None:
        """Return what to clean now; else note when there may be something, as far as time says."""
        best: _Dirtiest | None = None
        later: list[int] = []
        for topic in self._compacted():
            for index in range(len(topic.partitions)):
                for replica in self._replicas(topic, index):
                    settings = self._settings(topic, replica)
                    dirt = look_at(replica, settings, now_ms)
                    if dirt.is_due(settings) and (best is None or dirt.ratio > best.ratio):
                        best = _Dirtiest(topic, index, dirt.ratio)
                    if dirt.later_ms is not None:
                        later.append(dirt.later_ms)
                    if dirt.waits:
                        later.append(now_ms)
        if later:
            self._again_ms = max(min(later), now_ms + self._backoff_ms)
        return best

    def _compacted(self) -> Iterator[TopicImage]:
        """Yield the topics of clients that are compacted on any broker."""
        configs = self._state.configs
        inherited = [
            configs.log_settings({}, broker_id) for broker_id in self._state.replication.brokers
        ]
        usual = any(one.compacts for one in inherited)
        for topic in self._state.image.topics.values():
            policy = topic.configs.get(POLICY)
            if (usual if policy is None else "compact" in policy) and not topic.internal:
                yield topic

    def _settings(self, topic: TopicImage, replica: Replica) -> LogSettings:
        return self._state.configs.log_settings(topic.configs, replica.broker_id)

    # -- on command ----------------------------------------------------------------------------

    def compact(self, name: str, *, now_ms: int, roll: bool) -> dict[int, int]:
        """Clean all partitions of a topic, however dirty; return how many records went, by
        partition.

        With `roll` the segments that are written to are closed first. Raises Refused, or OSError.
        """
        topic = self._state.image.topics.get(name)
        if topic is None:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, f'there is no topic "{name}"')
        if not self._state.configs.log_settings(topic.configs).compacts:
            raise Refused(
                POLICY_VIOLATION,
                f"{name} is not compacted; set its cleanup.policy to compact or compact,delete",
            )
        gone: dict[int, int] = {}
        for index in range(len(topic.partitions)):
            key = ReplicaKey(topic.topic_id, index)
            if self._state.replication.leader_of(key) is not None:
                if roll:
                    self._state.replication.begin_segment(key)
                gone[index] = self._clean(topic, index, now_ms, always=True)
        return gone

    # -- one partition -------------------------------------------------------------------------

    def _replicas(self, topic: TopicImage, index: int) -> list[Replica]:
        """Return the replicas on brokers that run, the leader first."""
        key = ReplicaKey(topic.topic_id, index)
        brokers = self._state.replication.brokers.values()
        found = [broker.replicas[key] for broker in brokers if key in broker.replicas]
        leader = self._state.replication.leader_of(key)
        return sorted(found, key=lambda one: one is not leader)

    def _clean(self, topic: TopicImage, index: int, now_ms: int, *, always: bool = False) -> int:
        """Clean the replicas that are due, or all; return how many records went at the leader."""
        gone = 0
        todo = self._replicas(topic, index)
        leader = self._state.replication.leader_of(ReplicaKey(topic.topic_id, index))
        while todo:
            one = todo.pop(0)
            settings = self._settings(topic, one)
            dirt = look_at(one, settings, now_ms)
            if not (always or dirt.is_due(settings)) or not shape_of(one, dirt.bound):
                continue
            planned = round_of(one, dirt, settings, self.rules_of(one.broker_id), now_ms)
            same = [
                other
                for other in todo
                if self._settings(topic, other) == settings and self._is_same(one, other, planned)
            ]
            todo = [other for other in todo if other not in same]
            name = f"{now_ms}-{one.broker_id}-{dirt.bound}"
            self._state.logs.cleaning_begins([one, *same], dirt.bound, name)
            done = Cleaning(one, same, planned, name).run(one.log.segment_bytes)
            self._state.logs.cleaned([one, *same])
            if one is leader:
                self._state.replication.ledger.cleaned(one, dirt.bound, done.untouched)
                gone = done.records_gone
        return gone

    def _is_same(self, one: Replica, other: Replica, planned: Round) -> bool:
        """Whether two logs have equal bytes below the bound, and equal rules."""
        bound = planned.bound
        return (
            other.cleaned == one.cleaned
            and self.rules_of(other.broker_id) == planned.rules
            and other.log.start_offset == one.log.start_offset
            and other.log.end_offset >= bound
            and shape_of(other, bound) == shape_of(one, bound)
            and _epochs(other, bound) == _epochs(one, bound)
        )


def _epochs(replica: Replica, bound: int) -> list[tuple[int, int]]:
    return [entry for entry in replica.epochs.entries() if entry[1] < bound]
