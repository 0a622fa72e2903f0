"""Committed offsets of consumer groups, kept by the group's coordinator.

Rules of this file:
1. A commit without membership (generation -1) is accepted for a group that has no members, as
   Kafka's "simple" consumers do; any other is refused here: groups with members look at theirs
   first.
2. Offsets of a deleted topic go with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_MEMBER_ID,
)

LARGEST_METADATA = 4096  # offset.metadata.max.bytes
NO_GENERATION = -1
GROUP, TRANSACTION, SHARE = 0, 1, 2
"""What a coordinator coordinates (FindCoordinator's key types)."""
TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC = "__transaction_state", "__share_group_state"
"""Topics that real brokers have for coordinators, beside that of the groups. Here they are names:
what would stand in them is in the journal.
"""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset to read, and what the consumer said with it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = -1
    expires_at_ms: int = -1
    """When it is kept no longer, -1 where its group decides that (`expiry`)."""


@lru_cache(maxsize=65_536)  # each request asks for that of its group several times
def java_hash(text: str) -> int:
    """Return Java's String.hashCode, by which Kafka places groups.

    >>> java_hash("parley")
    -995417633
    """
    value = 0
    for unit in _utf16(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _utf16(text: str) -> Iterable[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return (raw[at] << 8 | raw[at + 1] for at in range(0, len(raw), 2))


def dashed(random: bytes) -> str:
    """Return 16 bytes as the ids of members have them.

    >>> dashed(bytes(16))
    '00000000-0000-0000-0000-000000000000'
    """
    text = random.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class Coordinators:
    """Which broker coordinates a transactional id, or a partition of a share group: by hash over
    the brokers alive, unless moved. Groups have the leader of their partition.
    """

    def __init__(self) -> None:
        self._moved: dict[tuple[int, str], int] = {}

    def of(self, kind: int, key: str, brokers: Collection[int]) -> int:
        """Return the coordinator among the brokers alive, or -1 when there is none."""
        moved = self._moved.get((kind, key), -1)
        if moved in brokers or not brokers:
            return moved if brokers else -1
        return sorted(brokers)[(java_hash(key) & 0x7FFFFFFF) % len(brokers)]

    def move(self, kind: int, key: str, to: int) -> None:
        """Let a broker coordinate a key for as long as it is alive."""
        self._moved[kind, key] = to


class Groups:
    """The committed offsets of every group."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
        self._stamps: dict[str, dict[tuple[str, int], int]] = {}

    def names(self) -> list[str]:
        """Return the groups that have offsets."""
        return sorted(self._offsets)

    def check_commit(
        self, group: str, generation: int, member: str, *, known_code: int = UNKNOWN_MEMBER_ID
    ) -> None:
        """Raise Refused unless a commit with this membership is allowed (rule 1).

        `known_code` refuses it for a group that has offsets, ILLEGAL_GENERATION for one that has
        none.
        """
        if not group and generation != NO_GENERATION:
            raise Refused(INVALID_GROUP_ID, "a group needs a name")
        if generation != NO_GENERATION or member:
            code = known_code if group in self._offsets else ILLEGAL_GENERATION
            raise Refused(code, f'group "{group}" has no members')

    @staticmethod
    def check_metadata(metadata: str | None) -> None:
        """Raise Refused when the text that goes with an offset is too long."""
        if metadata is not None and len(metadata) > LARGEST_METADATA:
            raise Refused(
                OFFSET_METADATA_TOO_LARGE,
                f"at most {LARGEST_METADATA} characters go with an offset",
            )

    def commit(
        self, group: str, topic: str, partition: int, offset: CommittedOffset, stamp: int
    ) -> None:
        """Keep an offset. `stamp` says where it is written in its log."""
        self._offsets.setdefault(group, {})[topic, partition] = offset
        self._stamps.setdefault(group, {})[topic, partition] = stamp

    def stamp_of(self, group: str, topic: str, partition: int) -> int:
        """Return where an offset is written in its log; -1 when there is none."""
        return self._stamps.get(group, {}).get((topic, partition), -1)

    def committed(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the offset kept, or None."""
        return self._offsets.get(group, {}).get((topic, partition))

    def all_of(self, group: str) -> dict[tuple[str, int], CommittedOffset]:
        """Return every offset of a group, by topic and partition."""
        return dict(sorted(self._offsets.get(group, {}).items()))

    def forget(self, group: str) -> None:
        """Drop a group with its offsets."""
        self._offsets.pop(group, None)
        self._stamps.pop(group, None)

    def forget_offset(self, group: str, topic: str, partition: int) -> None:
        """Drop one offset; a group goes with its last one."""
        offsets = self._offsets.get(group, {})
        offsets.pop((topic, partition), None)
        self._stamps.get(group, {}).pop((topic, partition), None)
        if not offsets:
            self.forget(group)

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of a topic that was deleted."""
        for group in list(self._offsets):
            offsets = self._offsets[group]
            for key in [key for key in offsets if key[0] == topic]:
                del offsets[key]
                self._stamps[group].pop(key, None)
            if not offsets:
                self.forget(group)
