"""The classic groups of a cluster: found by name, written by their coordinators, read by the next.

Rules of this file:
1. A group is written when it becomes Stable or Empty, and when a static member is replaced.
   What was not written yet is lost with its coordinator, and the members join again (H18, H19).
2. When another broker coordinates a group, or none, those who wait are answered NOT_COORDINATOR
   (`let_go`). The next one has the group as it was last written, every member with a full session.
3. In releases before 0.10.1 a group without members does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from parley.devcluster.state.groups.classic.group import ClassicGroup, Rules
from parley.devcluster.state.groups.classic.persistence import (
    group_of,
    group_record,
    has_members_or_had,
)
from parley.devcluster.state.groups.records import GroupRecord
from parley.messages import GroupMetadataValue

Write = Callable[[str, Sequence[GroupRecord], int], None]
"""Writes records of a group, all or none: its name, the records, the time. Raises OSError where
its log takes none.
"""


class ClassicGroups:
    """All groups of the classic protocol. `new_id` makes the random part of member ids."""

    def __init__(self, write: Write, new_id: Callable[[], str]) -> None:
        self._write, self._new_id = write, new_id
        self._groups: dict[str, ClassicGroup] = {}

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter([self._groups[name] for name in sorted(self._groups)])

    def get(self, name: str) -> ClassicGroup | None:
        """Return a group, None if there is none of this protocol."""
        return self._groups.get(name)

    def live(self, name: str) -> ClassicGroup | None:
        """Return a group that has members, or will have: newcomers have their ids already."""
        group = self._groups.get(name)
        return group if group is not None and (group.members or group.pending) else None

    def made(self, name: str, rules: Rules) -> ClassicGroup:
        """Return a group at its coordinator, a new one if there is none."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = self.begun(name)
        group.rules = rules
        return group

    def begun(self, name: str) -> ClassicGroup:
        """Return a new group, which is none of these before `adopt`."""
        return ClassicGroup(name, self._keep, self._new_id)

    def adopt(self, group: ClassicGroup, before: Sequence[GroupRecord], now_ms: int) -> None:
        """Take a group over that was filled elsewhere, and write it behind other records of it.
        Raises OSError.
        """
        self._write(group.name, [*before, group_record(group, now_ms)], now_ms)
        self._groups[group.name] = group

    def delete(self, name: str) -> None:
        """Forget a group; whoever calls has written that."""
        self._groups.pop(name, None)

    def drop_if_unused(self, name: str) -> None:
        """Forget a group in which nobody is, and nobody was."""
        group = self._groups.get(name)
        if group is not None and not group.generation and not group.members and not group.pending:
            self.delete(name)

    # -- time --------------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When a session, a phase or a pending id of some group is over."""
        return min(
            (due for group in self._groups.values() if (due := group.next_due_ms) is not None),
            default=None,
        )

    def expire(self, *, now_ms: int) -> None:
        """Do what is due in every group."""
        for group in list(self._groups.values()):
            # an empty group that its log did not take is written with its next change
            with suppress(OSError):
                group.expire(now_ms)

    # -- coordinators ------------------------------------------------------------------------------

    def _keep(self, group: ClassicGroup, now_ms: int) -> None:
        self._write(group.name, [group_record(group, now_ms)], now_ms)

    def let_go(self, name: str) -> None:
        """Forget a group that is coordinated elsewhere; who waits hears that (rule 2)."""
        group = self._groups.pop(name, None)
        if group is not None:
            group.let_go()

    def load(self, name: str, value: GroupMetadataValue, now_ms: int) -> None:
        """Take a group over as it was last written, every member with a full session."""
        if not has_members_or_had(value):
            return
        group = self._groups[name] = group_of(name, value, self._keep, self._new_id)
        for member in group.members.values():
            member.beat(now_ms)
