"""What to ask for next, of which broker, and when to look again: decided, nothing is sent.

1. A partition waits for one answer at a time. One that waits, that is done, or that has no position
   is left alone.
2. A position is held against the leader before anything is asked with it: under another epoch it is
   validated first (KIP-320), and nothing is asked while another topic may stand under the name
   (KIP-516).
3. A follower is read from only while it is online and its lease lasts (KIP-392).
4. A partition that failed waits for its backoff, or for another leader epoch (K5).

The plan changes what the partitions know of themselves; asking, counting failures and dropping what
was fetched for another history are the fetcher's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.fetch.positions import Stage
from parley.client.fetch.recreation import ROUND_MS, rewound
from parley.client.fetch.state import PartitionFetch
from parley.types import ZERO_UUID


class Moment(NamedTuple):
    """What a plan depends on beside the partitions and the metadata."""

    now_ms: int
    metadata_due_ms: int
    """When Metadata is refreshed anyway."""
    refreshes: int
    """Metadata answers so far."""
    refreshing: bool
    """Whether the fetcher waits for one."""
    full: bool
    """Whether as many bytes wait to be taken as may wait, so that nothing more is fetched."""
    state: tuple[int, int] = (-1, -1)
    """Changes whenever partitions do not stand on what they stood on."""


@dataclass(slots=True)
class Plan:
    """What follows from the state of all partitions."""

    fetches: dict[int, list[PartitionFetch]] = field(default_factory=dict)
    """To read from, by broker."""
    validations: dict[int, list[PartitionFetch]] = field(default_factory=dict)
    """Whose positions a leader is to validate, by broker."""
    resets: list[PartitionFetch] = field(default_factory=list)
    """Whose positions are to be looked up."""
    leaderless: list[PartitionFetch] = field(default_factory=list)
    """That nobody leads: a failure of the attempt that would be due."""
    recreated: list[PartitionFetch] = field(default_factory=list)
    """Whose topic turned out to be another one: what was fetched of the former is dropped."""
    needs_metadata: bool = False
    """Whether only a new Metadata answer can say which topic stands under a name."""
    look_again_ms: int = 0
    """When something may be due that is not due now."""


def make_plan(parts: Iterable[PartitionFetch], cache: MetadataCache, moment: Moment) -> Plan:
    """Return what is to be asked now."""
    # Paused partitions have leaders too: they are looked
    # at again although nothing of them is fetched.
    plan = Plan(look_again_ms=max(moment.metadata_due_ms, moment.now_ms + ROUND_MS))
    for part in parts:
        if part.positions.stage in (Stage.UNSET, Stage.STOPPED) or part.busy or part.done:
            continue
        if part.settled is not None and _is_settled(part, *part.settled, moment.state):
            _fetch(plan, part, part.settled[1], moment)
            continue
        again_ms = _plan_one(plan, part, cache, moment)
        if again_ms is not None:
            plan.look_again_ms = min(plan.look_again_ms, again_ms)
    return plan


def _is_settled(
    part: PartitionFetch, under: tuple[int, int], node_id: int, state: tuple[int, int]
) -> bool:
    """Return whether the leader that it was last planned for is right without another look: with
    thousands of partitions these are most of a plan.
    """
    positions = part.positions
    return (
        under == state
        and positions.stage is Stage.FETCHING
        and positions.fetch.leader_id == node_id
        and part.preferred is None
        and not part.not_before_ms
    )


def _fetch(plan: Plan, part: PartitionFetch, node_id: int, moment: Moment) -> None:
    if not (moment.full or part.paused or part.held):
        plan.fetches.setdefault(node_id, []).append(part)


def _plan_one(plan: Plan, part: PartitionFetch, cache: MetadataCache, moment: Moment) -> int | None:
    """Plan one partition; return when to look at it again, None if its answer will say so."""
    now_ms = moment.now_ms
    if _is_in_doubt(plan, part, cache, moment):
        return now_ms + ROUND_MS
    if part.positions.stage is Stage.AWAIT_RESET:
        if part.not_before_ms > now_ms:
            return part.not_before_ms
        plan.resets.append(part)
        return None
    node_id = _source(plan, part, cache, now_ms)
    if node_id is None or part.must_wait(now_ms, part.positions.fetch.leader_epoch):
        return max(part.not_before_ms, now_ms + 1)
    if part.positions.stage is Stage.AWAIT_VALIDATION:
        plan.validations.setdefault(node_id, []).append(part)
        return None
    doubtless = part.preferred is None and not part.topic.in_doubt
    part.settled = (moment.state, node_id) if doubtless else None
    _fetch(plan, part, node_id, moment)
    return None


def _is_in_doubt(plan: Plan, part: PartitionFetch, cache: MetadataCache, moment: Moment) -> bool:
    """Return whether nothing may be asked: another topic may have the name (KIP-516)."""
    topic, named = part.topic, cache.snapshot.topic_id(part.tp.topic)
    by_wire = part.by_wire and not part.paused and part.positions.stage is Stage.FETCHING
    if topic.observe(named, moment.refreshes, moment.now_ms, by_wire=by_wire):
        part.positions.recreated(*topic.accept(moment.now_ms))
        _note_recreation(plan, part)
    if not topic.in_doubt:
        return False
    if topic.asks and not (moment.refreshing or plan.needs_metadata):
        plan.needs_metadata = True
        topic.rounds += 1
    return not by_wire


def _source(plan: Plan, part: PartitionFetch, cache: MetadataCache, now_ms: int) -> int | None:
    """Return the broker to ask, None if there is none; hold the position against the leader."""
    leader = cache.current_leader(part.tp)
    if leader.node is None:
        if part.not_before_ms <= now_ms:
            plan.leaderless.append(part)
        return None
    if part.topic.held == ZERO_UUID and rewound(part.positions.fetch.leader_epoch, leader.epoch):
        part.positions.recreated(ZERO_UUID, ZERO_UUID)
        _note_recreation(plan, part)
    if part.topic.in_doubt:
        # what metadata says may be of another topic: only a fetch by id shows it
        return leader.node.id
    stage = part.positions.meet(leader.node.id, leader.epoch)
    if part.preferred is not None and stage is Stage.FETCHING:
        node_id, until_ms = part.preferred
        if now_ms < until_ms and cache.online_replica(part.tp, node_id) is not None:
            return node_id
        part.preferred = None
    return leader.node.id if stage in (Stage.FETCHING, Stage.AWAIT_VALIDATION) else None


def _note_recreation(plan: Plan, part: PartitionFetch) -> None:
    part.follow_place()
    plan.recreated.append(part)
