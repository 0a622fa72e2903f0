"""The classic groups of a cluster: found by name, kept in the journal, moved with their
coordinators.

Rules of this file:
1. A group is in the journal when it becomes Stable or Empty, and when a static member is replaced.
   What was not written yet is lost with its coordinator, and the members join again (H18, H19).
2. A group belongs to the broker that coordinates it. When another one does, those who wait are
   answered NOT_COORDINATOR, and the group is as it was last written, every member with a full
   session.
3. In releases before 0.10.1 a group without members does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from parley.devcluster.state.groups.classic.group import ClassicGroup, GroupState, Rules
from parley.devcluster.state.groups.classic.persistence import NO_KIND, group_entry, group_of
from parley.devcluster.state.journal import Entry

Keep = Callable[..., None]
"""Puts entries into the journal. Raises OSError when the disk refuses."""


class ClassicGroups:
    """All groups of the classic protocol. `new_id` makes the random part of member ids."""

    def __init__(self, keep: Keep, new_id: Callable[[], str]) -> None:
        self._keep, self._new_id = keep, new_id
        self._groups: dict[str, ClassicGroup] = {}
        self._written: dict[str, Entry] = {}
        self._at: dict[str, int] = {}

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter([self._groups[name] for name in sorted(self._groups)])

    def get(self, name: str) -> ClassicGroup | None:
        """Return a group, None if there is none of this protocol."""
        return self._groups.get(name)

    def live(self, name: str) -> ClassicGroup | None:
        """Return a group that has members, or will have: newcomers have their ids already."""
        group = self._groups.get(name)
        return group if group is not None and (group.members or group.pending) else None

    def made(self, name: str, rules: Rules, broker_id: int) -> ClassicGroup:
        """Return a group at its coordinator, a new one if there is none."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = ClassicGroup(name, self._write, self._new_id)
        group.rules = rules
        self._at[name] = broker_id
        return group

    def begun(self, name: str) -> ClassicGroup:
        """Return a new group, which is none of these before `adopt`."""
        return ClassicGroup(name, self._write, self._new_id)

    def adopt(self, group: ClassicGroup, *entries: Entry) -> None:
        """Take a group over that was filled elsewhere, and journal it with these
        entries. Raises OSError.
        """
        entry = group_entry(group)
        self._keep(*entries, entry)
        self._written[group.name], self._groups[group.name] = entry, group

    def delete(self, name: str) -> None:
        """Forget a group; whoever calls has it in the journal."""
        for known in (self._groups, self._written, self._at):
            known.pop(name, None)

    def drop_if_unused(self, name: str) -> None:
        """Forget a group in which nobody is, and nobody was."""
        group = self._groups.get(name)
        if group is not None and not group.generation and not group.members and not group.pending:
            self.delete(name)

    # -- time, moves -------------------------------------------------------------------------------

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
            # an empty group that the disk did not take is written with its next change
            with suppress(OSError):
                group.expire(now_ms)

    def moved(self, coordinator_of: Callable[[str], int], now_ms: int) -> None:
        """Let groups go on at the brokers that coordinate them now (rule 2)."""
        for name, group in list(self._groups.items()):
            at = coordinator_of(name)
            if at == self._at.get(name, at):
                continue
            self._at[name] = at
            group.let_go()
            written = self._written.get(name)
            if written is None:
                self.delete(name)
            else:
                self._groups[name] = self._resumed(written, group.rules, now_ms)

    def _resumed(self, written: Entry, rules: Rules, now_ms: int) -> ClassicGroup:
        group = group_of(written, self._write, self._new_id)
        group.rules = rules
        for member in group.members.values():
            member.beat(now_ms)
        return group

    # -- persistence -------------------------------------------------------------------------------

    def _write(self, group: ClassicGroup) -> None:
        entry = group_entry(group)
        self._keep(entry)
        self._written[group.name] = entry

    def snapshot(self) -> Iterator[Entry]:
        """Yield the entries that say everything."""
        yield from self._written.values()

    def restore(self, entry: Entry) -> None:
        """Take over an entry of the journal."""
        name = entry["group"]
        if entry["kind"] == NO_KIND:
            self.delete(name)
            return
        self._written[name] = entry
        self._groups[name] = group_of(entry, self._write, self._new_id)

    def resume(self, now_ms: int) -> None:
        """Give every member a full session after the journal was read."""
        for group in self._groups.values():
            if group.state is GroupState.STABLE:
                for member in group.members.values():
                    member.due_ms = member.due_ms or now_ms + member.session_timeout_ms
