"""The coordinator's side of `group_world`: whose a partition is, what is
committed, what the log says.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from parley.client import TopicPartition
from parley.client.group.formats import decode_assignment
from parley.devcluster import AsyncLocalCluster
from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.membership import check_commit
from parley.devcluster.state.group_coordinator.coordinator import GroupCoordinator
from parley.devcluster.state.group_coordinator.topic import OffsetsTopic, Place
from parley.devcluster.state.groups.classic.persistence import group_record
from parley.devcluster.state.groups.modern.group import ConsumerGroup
from parley.devcluster.state.groups.modern.persistence import group_records
from parley.devcluster.state.groups.pending_offsets import Offsets
from parley.devcluster.state.groups.records import NEWEST, GroupRecord, RecordRules
from parley.messages import GroupMetadataValue

from .group_member import CHECKED, GROUP, PASSING, Flavour, Member


class Coordination:
    """Looks at the coordinator's state directly, and at each commit that it takes."""

    def __init__(self, cluster: AsyncLocalCluster, flavour: Flavour) -> None:
        self.cluster, self.flavour = cluster, flavour
        self.given: dict[TopicPartition, set[int]] = defaultdict(set)
        self.wrong: list[str] = []
        """What was committed and must not be."""
        self._committed: dict[TopicPartition, int] = {}
        self._committer = ""
        coordinator = cluster.state.group_coordinator
        self._commit_offsets = coordinator.commit_offsets
        coordinator.commit_offsets = self._commit  # type: ignore[method-assign]

    def checked_commit(
        self, call: Call, name: str, epoch: int, member_id: str, instance_id: str | None
    ) -> None:
        """Take note of who commits, in the place of the check before each commit."""
        self._committer = member_id
        check_commit(call, name, epoch, member_id, instance_id)

    def _commit(self, group: str, offsets: Offsets, *, now_ms: int) -> Place | None:
        for (topic, index), at in offsets.items():
            tp = TopicPartition(topic, index)
            CHECKED.update(("I2", "I8"))
            owner, before = self.owner(tp), self._committed.get(tp, 0)
            if owner not in (None, self._committer) and not self.is_blind(tp):
                self.wrong.append(f"{tp}: {self._committer} committed what is {owner}'s (I2)")
            if topic == PASSING:
                continue
            missing = set(range(at.offset)) - self.given[tp]
            if at.offset < before:
                self.wrong.append(
                    f"{tp}: the committed offset falls from {before} to {at.offset} (I2)"
                )
            if missing:
                self.wrong.append(
                    f"{tp}: {at.offset} is committed, nobody was given {sorted(missing)[:5]} (I8)"
                )
            self._committed[tp] = at.offset
        return self._commit_offsets(group, offsets, now_ms=now_ms)

    def is_blind(self, tp: TopicPartition) -> bool:
        """Whether a partition's name may stand for two: the coordinator goes by ids,
        and the topic came again.
        """
        return tp.topic == PASSING and self.flavour.protocol == "consumer"

    def owner(self, tp: TopicPartition) -> str | None:
        """Return whose a partition is by the coordinator, None if nobody's."""
        state = self.cluster.state
        if self.flavour.protocol == "consumer":
            group, image = state.consumer_groups.get(GROUP), state.image.topics.get(tp.topic)
            part = None if image is None else (image.topic_id, tp.partition)
            members = [] if group is None else group.members.values()
            return next((one.id for one in members if part in one.assignment.held), None)
        classic = state.classic_groups.get(GROUP)
        for one in () if classic is None else classic.members.values():
            if one.assignment and tp in decode_assignment(one.assignment):
                return one.id
        return None

    def is_held(self, instance_id: str | None) -> bool:
        """Whether an instance id is a member's that the coordinator has not seen leave: others are
        refused until its session ends (KIP-848).
        """
        modern = self.cluster.state.consumer_groups.get(GROUP)
        static = modern and instance_id and modern.static(instance_id)
        return bool(static and not static.is_away)

    @property
    def generation(self) -> int:
        """The generation, or epoch, at the coordinator."""
        state = self.cluster.state
        if self.flavour.protocol == "consumer":
            modern = state.consumer_groups.get(GROUP)
            return 0 if modern is None else modern.epoch
        classic = state.classic_groups.get(GROUP)
        return 0 if classic is None else classic.generation

    def is_out(self, member: Member) -> bool:
        """Whether the coordinator has gone on without a member, which may not know that yet."""
        state, health = self.cluster.state, member.consumer.health()
        if health is None:
            return True
        if self.flavour.protocol == "consumer":
            modern = state.consumer_groups.get(GROUP)
            return (
                modern is None or health.member_id not in modern.members or health.generation <= 0
            )
        classic = state.classic_groups.get(GROUP)
        if classic is None or health.member_id not in classic.members:
            return True
        joins = health.state in ("preparing rebalance", "completing rebalance")
        late = member.instance_id is not None or not joins
        return health.generation != classic.generation and late

    def check_replay(self) -> None:
        """Hold what the log says against what the coordinator knows (I9)."""
        state = self.cluster.state
        settings = state.settings
        topic = OffsetsTopic(state, settings.offsets_topic_num_partitions, 3, state.making)
        found = GroupCoordinator(topic, state, state.new_id, "bidirectional", state.loading)
        found.follow(now_ms=0)
        CHECKED["I9"] += any(True for _ in found.consumer_groups) or any(
            True for _ in found.classic_groups
        )
        for modern in state.consumer_groups:
            again = found.consumer_groups.get(modern.name)
            assert again is not None, "the group is not in the log (I9)"
            rules = replace(NEWEST, writes_assignment_times="4.3" in self.flavour.releases)
            before, after = _records(modern, rules), _records(again, rules)
            assert after == before, f"epochs or assignments differ (I9): {before}, then {after}"
        for group in state.classic_groups:
            if group.state.value in ("Stable", "Empty") and group.generation:
                kept = found.classic_groups.get(group.name)
                assert kept is not None, "the group is not in the log (I9)"
                was, now = group_record(group, 0), group_record(kept, 0)
                if "0.11" in self.flavour.releases:  # it writes no time
                    was, now = map(_timeless, (was, now))
                assert now == was, f"the group is another after a replay (I9): {was}, then {now}"
        for name in state.groups.names():
            assert found.offsets.all_of(name) == state.groups.all_of(name), (
                "the committed offsets are others after a replay (I9)"
            )


def _timeless(record: GroupRecord) -> GroupRecord:
    """Return a record of a classic group as releases before 2.1 write it: not since when."""
    assert isinstance(record.value, GroupMetadataValue)
    record.value.current_state_timestamp = 0
    return record


def _records(group: ConsumerGroup, rules: RecordRules) -> list[GroupRecord]:
    """Return what a log can have of a group: older releases write less than is known."""
    return group_records(group, group.members, rules, 0)
