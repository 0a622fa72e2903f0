"""Leads a member from what it owns to its target: give up, then take over what is free (KIP-848,
H22).

Rules of this file:
1. A member is asked to give partitions up at its old epoch, and gets the target's epoch with the
   heartbeat that says it did.
2. A partition is given only when no other member holds it: owns it, or has not given it up yet.
3. A member that needs nothing more from others is stable; one that does gets what comes free,
   heartbeat by heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.members import Assignment, MemberState

Held = Callable[[Part], bool]
"""Whether another member holds a partition."""


def next_assignment(
    now: Assignment,
    target: frozenset[Part],
    target_epoch: int,
    *,
    reported: Collection[Part] | None,
    held: Held,
) -> Assignment:
    """Return the assignment that follows, the same one if nothing can be done yet.

    `reported` is what the member says it owns, None if its heartbeat does not say.
    """
    if now.state is MemberState.UNREVOKED_PARTITIONS:
        if reported is None or not now.revoking.isdisjoint(reported):
            return now
    elif now.state is MemberState.STABLE and now.epoch == target_epoch:
        return now
    return _towards(now, target, target_epoch, reported, held)


def _towards(
    now: Assignment,
    target: frozenset[Part],
    target_epoch: int,
    reported: Collection[Part] | None,
    held: Held,
) -> Assignment:
    kept, surplus = now.owned & target, now.owned - target
    if surplus and (reported is None or not surplus.isdisjoint(reported)):
        return Assignment(now.epoch, now.epoch, MemberState.UNREVOKED_PARTITIONS, kept, surplus)
    missing = target - kept
    free = frozenset(part for part in missing if not held(part))
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    return Assignment(target_epoch, now.epoch, state, kept | free)
