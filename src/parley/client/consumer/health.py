"""How a member of a group is, for those who look at it."""

from __future__ import annotations

from typing import NamedTuple

from parley.client.group.member import GroupMember
from parley.client.group.pace import Pace
from parley.types import TopicPartition


class GroupHealth(NamedTuple):
    """How a member is: what one looks at first when a group does not read.
    Times are in milliseconds.
    """

    state: str
    """unjoined, preparing rebalance, completing rebalance or stable."""
    generation: int
    member_id: str
    assigned: int
    """Partitions that the application has."""
    rebalances: int
    last_rebalance_reason: str | None
    last_rebalance_ago_ms: int | None
    last_rebalance_took_ms: int | None
    last_poll_ago_ms: int
    last_heartbeat_ago_ms: int | None
    """Since the coordinator answered last."""
    stalled: tuple[TopicPartition, ...]
    """Partitions that cannot be read now: no position, no leader, or an error."""


def health_of(
    member: GroupMember, pace: Pace, stalled: tuple[TopicPartition, ...], now_ms: int
) -> GroupHealth:
    """Return how a member is now."""
    last, answered_ms = pace.last_rebalance, pace.last_beat_answer_ms
    return GroupHealth(
        state=str(member.membership.state.value),
        generation=member.identity.generation,
        member_id=member.identity.member_id,
        assigned=len(member.membership.owned),
        rebalances=pace.rebalances,
        last_rebalance_reason=last.reason if last is not None else None,
        last_rebalance_ago_ms=now_ms - last.ended_at_ms if last is not None else None,
        last_rebalance_took_ms=last.duration_ms if last is not None else None,
        last_poll_ago_ms=0 if pace.polling else pace.away_ms(now_ms),
        last_heartbeat_ago_ms=None if answered_ms is None else now_ms - answered_ms,
        stalled=stalled,
    )
