"""The groups of the consumer protocol in a cluster: found by name, written by their coordinators,
expired in time.

Rules of this file:
1. What a heartbeat changed is written before it is answered. Where the log takes nothing, the
   answer is the error: to the member it is as if the answer had been lost.
2. At another coordinator, or after a restart, every member has its epoch and its assignment, and a
   full session timeout (H18).
3. An empty group stays until it is deleted; anybody may join it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from parley.devcluster.state.groups.modern.group import ConsumerGroup, Settings, Topics
from parley.devcluster.state.groups.modern.heartbeats import Heartbeat, HeartbeatAnswer
from parley.devcluster.state.groups.modern.members import LEAVING
from parley.devcluster.state.groups.modern.persistence import (
    expressions_of,
    group_records,
    load,
)
from parley.devcluster.state.groups.record_parts import Topics as KnownTopics
from parley.devcluster.state.groups.records import GroupRecord, RecordRules
from parley.devcluster.state.refused import Refused
from parley.errors.codes import GROUP_ID_NOT_FOUND

Write = Callable[[str, Sequence[GroupRecord], int], None]
"""Writes records of a group, all or none: its name, the records, the time. Raises OSError where
its log takes none.
"""

Downgrade = Callable[[ConsumerGroup, int, int], bool]
"""Makes a group classic that is left to its classic members, and says whether it did.

It is given the epoch that the group had before the others went, which is the classic group's
generation, and the time.
"""


class ConsumerGroups:
    """All groups of the consumer protocol. `rules_of` says what a group's coordinator writes."""

    def __init__(self, write: Write, rules_of: Callable[[str], RecordRules]) -> None:
        self._write, self._rules_of = write, rules_of
        self._groups: dict[str, ConsumerGroup] = {}
        self.downgrade: Downgrade = lambda group, generation, now_ms: False

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter([self._groups[name] for name in sorted(self._groups)])

    def get(self, name: str) -> ConsumerGroup | None:
        """Return a group, None if there is none of this protocol."""
        return self._groups.get(name)

    def heartbeat(
        self, name: str, said: Heartbeat, topics: Topics, settings: Settings, now_ms: int
    ) -> HeartbeatAnswer:
        """Answer a heartbeat; a member that joins may make the group. Raises Refused or OSError."""
        group = self._groups.get(name)
        if group is None:
            if said.epoch != 0:
                raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} not found.")
            group = ConsumerGroup(name, settings)
        group.settings, epoch = settings, group.epoch
        answer = group.heartbeat(said, topics, now_ms)
        self._groups[name] = group
        if said.epoch == LEAVING:
            self._settle(group, epoch, now_ms)
        else:
            self.write(group, now_ms)
        return answer

    def take_out(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, now_ms: int
    ) -> None:
        """Remove a member that LeaveGroup names, its own or an operator's.
        Raises Refused or OSError.
        """
        epoch = group.epoch
        group.take_out(member_id, instance_id)
        self._settle(group, epoch, now_ms)

    def expire_member(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        """Remove a member as if its session had ended. Raises OSError."""
        epoch = group.epoch
        group.remove(member_id)
        self._settle(group, epoch, now_ms)

    def adopt(self, group: ConsumerGroup, before: Sequence[GroupRecord], now_ms: int) -> None:
        """Take a group over that was made elsewhere, and write it behind other records of it.
        Raises OSError.
        """
        self._write_group(group, before, now_ms)
        self._groups[group.name] = group

    def delete(self, name: str) -> None:
        """Forget a group; whoever calls has written that."""
        self._groups.pop(name, None)

    def subscribed(self, name: str) -> Collection[str]:
        """Return the topics that members of a group subscribe to."""
        group = self._groups.get(name)
        return frozenset() if group is None else group.subscribed_topics

    # -- time --------------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When a member will have been silent, or slow, for too long."""
        return min(
            (due for group in self._groups.values() if (due := group.next_due_ms) is not None),
            default=None,
        )

    def expire(self, *, now_ms: int) -> None:
        """Remove the members whose time is over."""
        for group in list(self._groups.values()):
            epoch = group.epoch
            if group.expire(now_ms):
                with suppress(OSError):  # the next change that the disk takes has this one with it
                    self._settle(group, epoch, now_ms)

    # -- coordinators ------------------------------------------------------------------------------

    def _settle(self, group: ConsumerGroup, epoch: int, now_ms: int) -> None:
        """Keep a group that members have left: as it is, or as a classic one."""
        if not (group.is_left_to_classic and self.downgrade(group, epoch, now_ms)):
            self.write(group, now_ms)

    def write(self, group: ConsumerGroup, now_ms: int) -> None:
        """Write what has changed in a group. Raises OSError."""
        if group.changed or group.rose:
            self._write_group(group, (), now_ms)

    def _write_group(
        self, group: ConsumerGroup, before: Sequence[GroupRecord], now_ms: int
    ) -> None:
        rules = self._rules_of(group.name)
        records = group_records(group, group.changed, rules, now_ms)
        self._write(group.name, [*before, *records], now_ms)
        group.changed.clear()
        group.rose = False
        group.kept_expressions = expressions_of(group)

    def load(
        self, name: str, records: Iterable[GroupRecord], known: KnownTopics, now_ms: int
    ) -> None:
        """Take a group over as it was last written, every member with a full session (rule 2)."""
        group = self._groups[name] = ConsumerGroup(name, Settings())
        load(group, records, known)
        group.resume(now_ms)
