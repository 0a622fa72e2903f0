"""ShareGroupHeartbeat: what a member says, and what it is given to read (G63)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from parley.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOINING = 0
LEAVING = -1


@dataclass(frozen=True, slots=True)
class ShareStanding:
    """What a member says of itself; it makes its id."""

    group_id: str
    member_id: str
    rack: str = ""


def heartbeat_request(
    who: ShareStanding, epoch: int, topics: Collection[str], before: Collection[str] | None
) -> ShareGroupHeartbeatRequest:
    """Return a heartbeat; `before` is what the coordinator knows of the topics, None: nothing."""
    whole = before is None or epoch == JOINING
    return ShareGroupHeartbeatRequest(
        group_id=who.group_id,
        member_id=who.member_id,
        member_epoch=epoch,
        rack_id=(who.rack or None) if whole else None,
        subscribed_topic_names=sorted(topics) if whole or topics != before else None,
    )


def leaving_request(who: ShareStanding) -> ShareGroupHeartbeatRequest:
    """Return the heartbeat that ends a membership."""
    return ShareGroupHeartbeatRequest(
        group_id=who.group_id, member_id=who.member_id, member_epoch=LEAVING
    )


def assigned_ids(answer: ShareGroupHeartbeatResponse) -> frozenset[tuple[bytes, int]] | None:
    """Return the partitions to read, by topic id; None where nothing is new."""
    if answer.assignment is None:
        return None
    found = answer.assignment.topic_partitions
    return frozenset(
        (bytes(topic.topic_id), part) for topic in found for part in topic.partitions if part >= 0
    )
