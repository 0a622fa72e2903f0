"""What is done to the groups of a running cluster: members expired, old offsets dropped."""

from __future__ import annotations

from contextlib import suppress

from parley.devcluster.brokers import Brokers
from parley.devcluster.handlers.coordination import expiry_rules
from parley.devcluster.state.groups.expiry import Expiry
from parley.devcluster.state.retention import expire_offsets
from parley.devcluster.state.settings import ClusterSettings
from parley.errors import ConfigError


class AsyncGroups:
    """The groups of one cluster: `AsyncLocalCluster.groups`."""

    def __init__(self, brokers: Brokers, settings: ClusterSettings) -> None:
        self._brokers = brokers
        self._settings = settings

    def expire_member(self, group: str, member: str) -> None:
        """End a member's session as if it had been silent too long.

        `member` is its id, or its instance id. The others rebalance, and the member finds out with
        its next request. Raises ConfigError for a group or a member that is not there.
        """
        state, now_ms = self._brokers.state, self._brokers.now_ms
        classic, modern = state.classic_groups.live(group), state.consumer_groups.get(group)
        with suppress(OSError):  # the next change that the disk takes has this one with it
            if classic is not None:
                known = {one.id: one.instance_id for one in classic.members.values()}
                classic.expire_member(_named(group, member, known), now_ms)
            elif modern is not None and modern.members:
                known = {one.id: one.subscription.instance_id for one in modern.members.values()}
                state.consumer_groups.expire_member(modern, _named(group, member, known), now_ms)
            else:
                raise ConfigError(
                    f"no group {group!r} has members; `parley groups list` names those that have"
                )
        self._brokers.arm_timers()

    def expire_offsets(self) -> dict[str, dict[str, list[int]]]:
        """Drop committed offsets that are kept no longer; return their partitions by group, topic.

        Comes by itself every offsets.retention.check.interval.ms of the cluster's clock. How long
        they are kept is `offsets.retention.minutes`: a day up to 1.1, seven from 2.0 on; up to 2.0
        from the commit on, later from when the group became Empty (KIP-211). Empty groups without
        offsets go as well.
        """
        return expire_offsets(self._brokers.state, self._expiry_of, now_ms=self._brokers.now_ms)

    def _expiry_of(self, group: str) -> Expiry | None:
        """Return the rules of a group's coordinator, None while it has none."""
        state = self._brokers.state
        at = state.group_coordinator.coordinator_of(group, state.image)
        if at < 0:
            return None
        return expiry_rules(self._settings, self._brokers.find(at).profile.behaviour)


def _named(group: str, member: str, known: dict[str, str | None]) -> str:
    """Return the id of the member that is meant. Raises ConfigError."""
    for member_id, instance_id in known.items():
        if member in (member_id, instance_id):
            return member_id
    raise ConfigError(
        f"group {group!r} has no member {member!r}; it has {', '.join(known) or 'none yet'}"
    )
