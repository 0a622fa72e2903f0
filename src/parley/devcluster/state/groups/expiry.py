"""Which committed offsets are kept no longer (`offsets.retention.minutes`, H20).

Rules of this file:
1. Before 2.1 each offset has a time of its own, also while its group has members.
2. From 2.1 on (KIP-211) the group decides: an Empty classic group's offsets expire when it has been
   Empty for so long. Elsewhere time counts from the commit: in groups that never had members, in
   Empty ones of the consumer protocol, and in live ones for topics that no member subscribes to.
3. A time that the commit asked for itself (OffsetCommit v2 to v4) holds in every release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parley.devcluster.state.groups.classic.group import ClassicGroup, GroupState
from parley.devcluster.state.groups.mixed.formats import CONSUMER_PROTOCOL, subscribes
from parley.devcluster.state.groups.modern.group import ConsumerGroup
from parley.devcluster.state.groups.offsets import CommittedOffset

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Expiry:
    """What the release of a group's coordinator, and the cluster, say of its offsets."""

    retention_ms: int
    by_group: bool
    """Whether the group decides (2.1, KIP-211)."""

    def times_of(self, now_ms: int, said_ms: int = -1, kept_ms: int = -1) -> tuple[int, int]:
        """Return when an offset counts as committed, and when it expires, -1 where the group
        decides.

        `said_ms` is the time that the commit gives (OffsetCommit v1), `kept_ms` how long it asks
        for (v2 to v4).
        """
        committed_ms = now_ms if said_ms < 0 else said_ms
        if self.by_group:
            return committed_ms, -1 if kept_ms < 0 else now_ms + kept_ms
        return now_ms, committed_ms + (self.retention_ms if kept_ms < 0 else kept_ms)


def expired(
    offsets: Mapping[tuple[str, int], CommittedOffset],
    rules: Expiry,
    classic: ClassicGroup | None,
    modern: ConsumerGroup | None,
    now_ms: int,
) -> list[tuple[str, int]]:
    """Return the partitions whose offsets of one group are kept no longer."""
    found = []
    for (topic, partition), offset in offsets.items():
        since_ms = offset.committed_at_ms
        if rules.by_group:
            since_ms = _counted_from(topic, since_ms, classic, modern)
        due_ms = since_ms + rules.retention_ms
        if since_ms >= 0 and offset.expires_at_ms >= 0:
            due_ms = offset.expires_at_ms
        if since_ms >= 0 and due_ms <= now_ms:
            found.append((topic, partition))
    return found


def _counted_from(
    topic: str, committed_ms: int, classic: ClassicGroup | None, modern: ConsumerGroup | None
) -> int:
    """Return from when on the time of an offset counts, -1 where it does not pass."""
    if modern is not None and modern.members:
        return -1 if topic in modern.subscribed_topics else committed_ms
    if classic is None or (classic.state is GroupState.EMPTY and classic.empty_since_ms < 0):
        return committed_ms
    if classic.state is GroupState.EMPTY:
        return classic.empty_since_ms
    is_known = classic.state is GroupState.STABLE and classic.protocol_type == CONSUMER_PROTOCOL
    return committed_ms if is_known and not subscribes(classic, topic) else -1
