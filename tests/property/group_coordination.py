"""The coordinator's side of `group_world`: whose a partition is, what is
committed, what the journal says.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from parley.client import TopicPartition
from parley.client.group.formats import decode_assignment
from parley.devcluster import AsyncLocalCluster
from parley.devcluster.handlers.base import Call
from parley.devcluster.handlers.membership import check_commit
from parley.devcluster.state.groups.classic.persistence import KIND, group_entry
from parley.devcluster.state.groups.classic.registry import ClassicGroups
from parley.devcluster.state.groups.modern.persistence import KINDS
from parley.devcluster.state.groups.modern.registry import ConsumerGroups
from parley.devcluster.state.groups.offsets import CommittedOffset
from parley.devcluster.state.journal import Entry

from .group_member import GROUP, PASSING, Flavour, Member


class Coordination:
    """Looks at the coordinator's state directly, and at each commit that it takes."""

    def __init__(self, cluster: AsyncLocalCluster, flavour: Flavour) -> None:
        self.cluster, self.flavour = cluster, flavour
        self.given: dict[TopicPartition, set[int]] = defaultdict(set)
        self.wrong: list[str] = []
        """What was committed and must not be."""
        self._committed: dict[TopicPartition, int] = {}
        self._journal: list[str] = []
        self._committer = ""
        state = cluster.state
        state.classic_groups._keep = state.consumer_groups._keep = self._kept
        self._commit_offsets = state.commit_offsets
        state.commit_offsets = self._commit  # type: ignore[method-assign]

    def _kept(self, *entries: Entry) -> None:
        self._journal += [json.dumps(entry) for entry in entries]
        self.cluster.state.keep(*entries)

    def checked_commit(
        self, call: Call, name: str, epoch: int, member_id: str, instance_id: str | None
    ) -> None:
        """Take note of who commits, in the place of the check before each commit."""
        self._committer = member_id
        check_commit(call, name, epoch, member_id, instance_id)

    def _commit(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], CommittedOffset],
        stamp: int | None = None,
    ) -> None:
        for (topic, index), at in offsets.items():
            tp = TopicPartition(topic, index)
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
        self._commit_offsets(group, offsets, stamp)

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
        state, who = self.cluster.state, member.consumer.group_metadata()
        if self.flavour.protocol == "consumer":
            modern = state.consumer_groups.get(GROUP)
            return modern is None or who.member_id not in modern.members or who.generation_id <= 0
        classic = state.classic_groups.get(GROUP)
        if classic is None or who.member_id not in classic.members:
            return True
        health = member.consumer.health()
        joins = health is not None and health.state in (
            "preparing rebalance",
            "completing rebalance",
        )
        late = member.instance_id is not None or not joins
        return who.generation_id != classic.generation and late

    def check_replay(self) -> None:
        """Hold what the journal says against what the coordinator knows (I9)."""
        classic, modern = ClassicGroups(lambda *_: None, str), ConsumerGroups(lambda *_: None)
        for entry in map(json.loads, self._journal):
            if entry["kind"] == KIND:
                classic.restore(entry)
            elif entry["kind"] in KINDS:
                modern.restore(entry)
        state = self.cluster.state
        assert list(modern.snapshot()) == list(state.consumer_groups.snapshot()), (
            "epochs or assignments differ (I9)"
        )
        for group in state.classic_groups:
            if group.state.value in ("Stable", "Empty") and group.generation:
                kept = classic.get(group.name)
                assert kept is not None, "the group is not in the journal (I9)"
                before, after = group_entry(group), group_entry(kept)
                assert after == before, (
                    f"the group is another after a replay (I9): {before}, then {after}"
                )
