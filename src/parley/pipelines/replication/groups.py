"""Where groups of the source go on in the target.

A committed offset is the next record that a group reads; it is translated by the map of offsets.
Times are no map. A group is left alone that has members in the target, and no offset goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from parley.client import AsyncClient, TopicPartition
from parley.errors import GroupIdNotFoundError, UnknownMemberIdError, UnsupportedVersionError
from parley.pipelines.replication.runs import PartitionMap

log = logging.getLogger("parley.pipelines")
WRITTEN, BEHIND, UNCHANGED = "written", "behind", "unchanged"
NOT_BACK, MEMBERS, NOTHING_COPIED = "not-back", "has-members", "nothing-copied"


class GroupOffset(NamedTuple):
    """What becomes of a group's offset of one partition.

    `source_offset` is committed in the source, `target_offset` its place in the target (None where
    nothing of the partition was copied), `current` what the group has committed there. `outcome`:
    "written"; "behind", written too, but lower than the group's place, since the map has not got
    there yet: the group will see records again; "unchanged"; "not-back": the group is further in
    the target; "has-members": it is used there already; "nothing-copied".
    """

    group: str
    partition: TopicPartition
    source_offset: int
    target_offset: int | None
    current: int | None
    outcome: str

    @property
    def changes(self) -> bool:
        """Whether the target's offset is to be set."""
        return self.outcome in (WRITTEN, BEHIND)


def translated(
    group: str,
    committed: Mapping[TopicPartition, int],
    current: Mapping[TopicPartition, int],
    maps: Mapping[TopicPartition, PartitionMap],
    *,
    has_members: bool = False,
) -> list[GroupOffset]:
    """Return what becomes of each committed offset. Pure.

    >>> from parley.pipelines.replication.runs import Run
    >>> tp = TopicPartition("flights", 0)
    >>> (found,) = translated("readers", {tp: 7}, {}, {tp: PartitionMap([Run(0, 10, 9)], 9)})
    >>> found.target_offset, found.outcome
    (17, 'written')
    """
    found = []
    for tp in sorted(set(committed) & set(maps)):
        place, before = maps[tp].place(committed[tp]), current.get(tp)
        if place is None:
            outcome = NOTHING_COPIED
        elif has_members:
            outcome = MEMBERS
        elif before is not None and place.offset <= before:
            outcome = UNCHANGED if place.offset == before else NOT_BACK
        else:
            outcome = WRITTEN if place.exact else BEHIND
        target = None if place is None else place.offset
        found.append(GroupOffset(group, tp, committed[tp], target, before, outcome))
    return found


async def groups_of(source: AsyncClient) -> list[str]:
    """Return the consumer groups of a cluster."""
    listed = await source.list_groups()
    return sorted(
        one.group_id for one in listed if one.protocol_type in ("", "consumer") and one.group_id
    )


async def translate(
    source: AsyncClient,
    target: AsyncClient,
    groups: Iterable[str],
    maps: Mapping[TopicPartition, PartitionMap],
    *,
    write: bool,
) -> list[GroupOffset]:
    """Translate what groups have committed, and with `write` commit it in the target."""
    found: list[GroupOffset] = []
    for group in groups:
        committed = await _committed(source, group, maps)
        if not committed:
            continue
        current = await _committed(target, group, maps)
        has_members = await _has_members(target, group)
        moves = translated(group, committed, current, maps, has_members=has_members)
        if write:
            moves = await _written(target, group, moves)
        found += moves
    return found


async def _written(target: AsyncClient, group: str, moves: list[GroupOffset]) -> list[GroupOffset]:
    offsets = {move.partition: move.target_offset for move in moves if move.changes}
    try:
        await target.alter_group_offsets(
            group, {tp: offset for tp, offset in offsets.items() if offset is not None}
        )
    except UnknownMemberIdError:  # somebody has joined it just now
        return [move._replace(outcome=MEMBERS) for move in moves]
    return moves


async def _committed(
    client: AsyncClient, group: str, maps: Mapping[TopicPartition, PartitionMap]
) -> dict[TopicPartition, int]:
    """Return the committed offsets of the partitions that are copied."""
    try:
        found = await client.list_group_offsets(group)
    except UnsupportedVersionError:  # before Kafka 0.10.2 partitions are named
        found = await client.list_group_offsets(group, list(maps))
    return {tp: one.offset for tp, one in found.items() if one is not None and tp in maps}


async def _has_members(client: AsyncClient, group: str) -> bool:
    try:
        return bool((await client.describe_groups([group]))[group].members)
    except GroupIdNotFoundError:
        return False
