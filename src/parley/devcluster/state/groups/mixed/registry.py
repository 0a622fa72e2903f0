"""Which protocol a group has, and its change from one to the other while its members live (H24).

Rules of this file:
1. A group is one of `ClassicGroups` or one of `ConsumerGroups`. What makes it one of the other
   takes it out here, in one batch of its records.
2. A live classic group that a member of the consumer protocol joins is upgraded; a group whose last
   such member is gone is downgraded. `group.consumer.migration.policy` says which of the two is
   done. An empty group becomes what its next member speaks, whatever the policy.
3. A member of the classic protocol may always join a group of the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parley.devcluster.state.groups.classic.members import Join, JoinAnswer, SyncAnswer
from parley.devcluster.state.groups.classic.persistence import no_group_record
from parley.devcluster.state.groups.classic.registry import ClassicGroups
from parley.devcluster.state.groups.mixed import members
from parley.devcluster.state.groups.mixed.conversion import downgrade, upgraded
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Settings, Topics
from parley.devcluster.state.groups.modern.heartbeats import Heartbeat, HeartbeatAnswer
from parley.devcluster.state.groups.modern.members import JOINING
from parley.devcluster.state.groups.modern.persistence import no_group_records
from parley.devcluster.state.groups.modern.registry import ConsumerGroups, Write
from parley.devcluster.state.refused import Refused
from parley.errors import ConfigError
from parley.errors.codes import GROUP_ID_NOT_FOUND, REBALANCE_IN_PROGRESS

UPGRADE, DOWNGRADE = "upgrade", "downgrade"
POLICIES: Mapping[str, frozenset[str]] = {
    "bidirectional": frozenset({UPGRADE, DOWNGRADE}),
    UPGRADE: frozenset({UPGRADE}),
    DOWNGRADE: frozenset({DOWNGRADE}),
    "disabled": frozenset(),
}
"""What each value of `group.consumer.migration.policy` allows."""


class MixedGroups:
    """The groups of both protocols. `new_id` makes the ids of classic members in
    groups of the consumer protocol.
    """

    def __init__(
        self,
        write: Write,
        classic: ClassicGroups,
        modern: ConsumerGroups,
        new_id: Callable[[], str],
        policy: str = "bidirectional",
    ) -> None:
        if policy.lower() not in POLICIES:
            raise ConfigError(
                f"group.consumer.migration.policy {policy!r} is none of "
                f"{', '.join(POLICIES)}; choose one of these"
            )
        self._write, self._new_id = write, new_id
        self._classic, self._modern = classic, modern
        self._allowed = POLICIES[policy.lower()]
        modern.downgrade = self._downgrade

    # -- the consumer protocol ---------------------------------------------------------------------

    def heartbeat(
        self, name: str, said: Heartbeat, topics: Topics, settings: Settings, now_ms: int
    ) -> HeartbeatAnswer:
        """Answer a heartbeat of the consumer protocol; who joins a classic group upgrades it.

        Raises Refused or OSError, after which the group is as it was.
        """
        old = self._classic.get(name)
        if old is None:
            return self._modern.heartbeat(name, said, topics, settings, now_ms)
        if said.epoch != JOINING or (old.members and UPGRADE not in self._allowed):
            raise Refused(GROUP_ID_NOT_FOUND, f"Group {name} is not a consumer group.")
        group = (
            upgraded(old, settings, topics.known) if old.members else ConsumerGroup(name, settings)
        )
        answer = group.heartbeat(said, topics, now_ms)
        group.resume(now_ms)
        self._modern.adopt(group, [no_group_record(name)], now_ms)
        self._classic.delete(name)
        old.let_go(REBALANCE_IN_PROGRESS)
        return answer

    # -- the classic protocol ----------------------------------------------------------------------

    def join(
        self, group: ConsumerGroup, said: Join, topics: Topics, settings: Settings, now_ms: int
    ) -> JoinAnswer:
        """Let a classic member join a group of the consumer protocol. Raises Refused or OSError."""
        group.settings = settings
        before = group.is_left_to_classic
        answer = members.join(group, said, topics, self._new_id, now_ms)
        replaced_the_last = group.is_left_to_classic and not before
        if not (replaced_the_last and self._change_back(group, group.epoch, now_ms)):
            self._modern.write(group, now_ms)
        return answer

    def sync(
        self,
        group: ConsumerGroup,
        member: tuple[str, str | None, int],
        named: tuple[str | None, str | None],
        names: Mapping[bytes, str],
        now_ms: int,
    ) -> SyncAnswer:
        """Answer what a classic member, given by id, instance id and
        generation, owns. Raises Refused.
        """
        return members.sync(group, members.find(group, *member), named, names, now_ms)

    def beat(self, group: ConsumerGroup, member: tuple[str, str | None, int], now_ms: int) -> int:
        """Let a classic member live on; return the code of its heartbeat. Raises Refused."""
        return members.heartbeat(group, members.find(group, *member), now_ms)

    def make_room_for_classic(self, name: str, now_ms: int) -> None:
        """Forget an empty group of the consumer protocol, which becomes a
        classic one. Raises OSError.
        """
        group = self._modern.get(name)
        if group is not None and not group.members:
            self._write(name, no_group_records(group), now_ms)
            self._modern.delete(name)

    # -- back --------------------------------------------------------------------------------------

    def _downgrade(self, group: ConsumerGroup, generation: int, now_ms: int) -> bool:
        """Make a group classic that its last member of the consumer protocol has left; return
        whether that was done.

        Its members rebalance. Raises OSError.
        """
        changed = self._change_back(group, generation, now_ms)
        if changed:
            made = self._classic.get(group.name)
            assert made is not None
            made.rebalance(now_ms)
        return changed

    def _change_back(self, old: ConsumerGroup, generation: int, now_ms: int) -> bool:
        if DOWNGRADE not in self._allowed or len(old.members) > old.settings.max_size:
            return False
        group = self._classic.begun(old.name)
        downgrade(old, group, generation, now_ms)
        self._classic.adopt(group, no_group_records(old), now_ms)
        self._modern.delete(old.name)
        return True
