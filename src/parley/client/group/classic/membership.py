"""The membership of one consumer in a group, by the classic protocol. Pure: no clock, no socket, no
task.

What the coordinator said and what the application was shown are two things: an assignment that
arrived is shown by the steps of `next_step`, taken when the application polls, so that nothing
changes under its hands. The rules, with the labels under which the tests name them:

 G6   An answer counts for the member and generation that it was asked with; for an older one it is
      ignored.
 G7   Asked for a member id, the member joins at once under the id that the coordinator gives.
 G11  Heartbeats begin with the answer to JoinGroup; REBALANCE_IN_PROGRESS counts for a stable
      member only.
 G12  Polls that stay away longer than the poll interval end the membership; the next poll joins
      again.
 G35  Eager: everything is given up before the member joins again.
 G36  Cooperative: only what another member gets is given up; then the member joins again.
 G37  Without its generation or its id the member has lost its partitions; they are not given up but
      gone.
 G39  An assignment with a topic that is not subscribed to any more is dropped, and the member joins
      again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from parley.client.group.classic.reactions import Reaction, after_join, after_sync_or_heartbeat
from parley.client.group.member import NO_GENERATION, Committing, Identity
from parley.client.group.steps import Assign, GroupStep, Lost, Revoke, in_order
from parley.errors import KafkaError
from parley.types import TopicPartition


class MemberState(Enum):
    """How far a member is, in Java's words."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    """JoinGroup is under way."""
    COMPLETING_REBALANCE = "completing rebalance"
    """JoinGroup was answered, SyncGroup is under way."""
    STABLE = "stable"


class Share(NamedTuple):
    """What a member was given in a generation."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


class ClassicMembership:
    """What one member knows of itself. Every method mutates; the rules are those at
    the head of this module.
    """

    def __init__(self, *, cooperative: bool) -> None:
        self.cooperative = cooperative
        self.state = MemberState.UNJOINED
        self.identity = Identity()
        self.protocol: str | None = None
        self.leads = False
        self.topics: frozenset[str] | None = None
        """What is subscribed to; None while the member is not to join."""
        self.owned: frozenset[TopicPartition] = frozenset()
        """What the application was shown and has not given up."""
        self.share = Share()
        """What it was given last, also after giving it up: what the eager sticky
        assignor goes by (G28).
        """
        self.error: KafkaError | None = None
        """Why the membership has ended for good."""
        self.passing_error: KafkaError | None = None
        """What the next poll raises; until then the member does not join."""
        self.reason = ""
        """Why the member joined last, or joins now."""
        self._rejoin: str | None = None
        self._target: tuple[TopicPartition, ...] | None = None
        self._lost = False
        self._away = False
        self._last = Identity()

    # -- what the application wants ----------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Take the topics to read; other ones than before need a rebalance."""
        if frozenset(topics) != self.topics:
            self.topics = frozenset(topics)
            self.request_rejoin("subscription has changed")

    def request_rejoin(self, reason: str) -> None:
        """Let the member join again, as soon as the application has given up what it has to."""
        if self.topics is not None and self._rejoin is None:
            self._rejoin = reason

    @property
    def rejoining(self) -> bool:
        """Whether a rebalance is due or under way."""
        return self._rejoin is not None or self.state in (
            MemberState.PREPARING_REBALANCE,
            MemberState.COMPLETING_REBALANCE,
        )

    @property
    def in_group(self) -> bool:
        """Whether the coordinator has this member in a generation."""
        return self.identity.generation >= 0

    @property
    def read_as(self) -> Identity:
        """Who read what the application has: this member or, while it is in no generation, what
        it was in the last one. Offsets sent as that are refused; as nobody they would be taken.
        """
        return self.identity if self.in_group else self._last

    @property
    def beating(self) -> bool:
        """Whether heartbeats are due (G11)."""
        return self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    # -- what the application is shown -------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether there is a next step."""
        return self._lost or self._target is not None or bool(self._to_give_up())

    def next_step(self) -> GroupStep | None:
        """Return what the application is to be shown next, None where nothing;
        `step_done` follows it.
        """
        if self._lost:
            return Lost(in_order(self.owned))
        if self._target is not None:
            gone = self.owned - set(self._target)
            if gone:
                return Revoke(in_order(gone))
            return Assign(in_order(set(self._target) - self.owned), in_order(self.owned))
        given_up = self._to_give_up()
        return Revoke(in_order(given_up)) if given_up else None

    def step_done(self, step: GroupStep) -> None:
        """Take note that the application has been shown a step."""
        if isinstance(step, Assign):
            self.owned |= set(step.added)
            self._target = None
            return
        self.owned -= set(step.partitions)
        if isinstance(step, Lost) or not self.owned:
            self._lost = False
        if (
            isinstance(step, Revoke) and self._target is not None
        ):  # G36: what was given up can be given to another member now
            self.request_rejoin("need to revoke partitions and re-join")

    def _to_give_up(self) -> Collection[TopicPartition]:
        if self._rejoin is None or self.state not in (MemberState.UNJOINED, MemberState.STABLE):
            return ()
        if not self.cooperative:
            return self.owned
        return [tp for tp in self.owned if tp.topic not in (self.topics or ())]

    # -- joining -----------------------------------------------------------------------------------

    @property
    def may_join(self) -> bool:
        """Whether JoinGroup is to be sent now."""
        if self._rejoin is None or self._away or self.error or self.passing_error:
            return False
        idle = self.state in (MemberState.UNJOINED, MemberState.STABLE)
        return idle and not self._lost and self._target is None and not self._to_give_up()

    def joining(self) -> Identity:
        """Take note that JoinGroup goes out; return as whom."""
        self.reason, self._rejoin = self._rejoin or self.reason, None
        self.state = MemberState.PREPARING_REBALANCE
        return self.identity

    def joined(self, identity: Identity, protocol: str | None, *, leads: bool) -> None:
        """Take the answer to JoinGroup: the member is in a generation."""
        self.identity, self.protocol, self.leads = identity, protocol, leads
        self.state = MemberState.COMPLETING_REBALANCE

    def named(self, member_id: str) -> None:
        """Take the id under which the coordinator wants this member to join (G7)."""
        self.identity = Identity(member_id)
        self._again()

    def join_failed(self, error: KafkaError) -> Reaction:
        """Take an error in the place of an answer to JoinGroup; return what the sender does."""
        return self._failed(after_join(error), error, self.identity)

    def synced(self, assignment: Sequence[TopicPartition]) -> None:
        """Take the answer to SyncGroup: what this member is to read."""
        self.state, self.share = (
            MemberState.STABLE,
            Share(tuple(assignment), self.identity.generation),
        )
        if any(tp.topic not in (self.topics or ()) for tp in assignment):
            self.request_rejoin("subscription has changed")
            return
        self._target = tuple(assignment)

    def sync_failed(self, error: KafkaError) -> Reaction:
        """Take an error in the place of an answer to SyncGroup; return what the sender does."""
        return self._failed(after_sync_or_heartbeat(error), error, self.identity)

    # -- staying -----------------------------------------------------------------------------------

    def beat_failed(self, error: KafkaError, asked_as: Identity) -> Reaction:
        """Take an error in the place of an answer to Heartbeat; return what the
        sender does (G6, G11).
        """
        reaction = after_sync_or_heartbeat(error)
        if reaction is Reaction.REJOIN:
            if self.state is MemberState.STABLE and asked_as == self.identity:
                self.request_rejoin("group is already rebalancing")
            return reaction
        if reaction in (Reaction.FIND, Reaction.WAIT) or asked_as != self.identity:
            return reaction
        if reaction is Reaction.RAISE:  # the coordinator keeps the member for its session
            self.passing_error = error
            return reaction
        return self._failed(reaction, error, asked_as)

    @property
    def committing(self) -> Committing:
        """Whether it may commit: between two generations it may not (G43)."""
        if self.state is MemberState.STABLE:
            return Committing.NOW
        return Committing.AFTER_THE_REBALANCE if self.in_group else Committing.NO_MEMBER

    def commit_refused(self, error: KafkaError, asked_as: Identity) -> bool:
        """Take a refused commit as news about the membership (G6); return False:
        such a one never goes again.
        """
        reaction = after_sync_or_heartbeat(error)
        if asked_as == self.identity and self.state is MemberState.STABLE:
            if reaction is Reaction.REJOIN:
                self.request_rejoin("group is already rebalancing")
            elif reaction in (Reaction.NEW_GENERATION, Reaction.NEW_MEMBER):
                self._failed(reaction, error, asked_as)
        return False

    def poll_overdue(self) -> bool:
        """Take note that the application stays away (G12); return whether the
        member is to leave the group.
        """
        if self._away or self.topics is None:
            return False
        self._away = True
        left = self.in_group or self.rejoining
        self._forget(Identity())
        self._rejoin = "consumer pro-actively leaving the group"
        return left

    def polled(self) -> bool:
        """Take note that the application polls; return whether the member goes on by that: it had
        been given up, or joins again after an error that was raised.
        """
        was, self._away = self._away, False
        return was or self.may_join

    def end(self, error: KafkaError) -> None:
        """End the membership for good: the application is shown what it lost, and then
        the error at every poll.
        """
        self._forget(Identity())
        self.error = error

    def leave(self) -> Identity:
        """End the membership, after its last steps; return as whom to leave.
        `subscribe` may begin another one.
        """
        before = self.identity
        self.identity, self.state, self.protocol, self.leads = (
            Identity(),
            MemberState.UNJOINED,
            None,
            False,
        )
        self.topics, self._rejoin, self._target, self._lost, self._away = (
            None,
            None,
            None,
            False,
            False,
        )
        self.owned, self.share = frozenset(), Share()
        self.error, self.passing_error = None, None
        self._last = Identity()
        return before

    def last_step(self) -> Revoke | Lost | None:
        """Return what the application is shown when the membership ends: its partitions
        are given up, or lost (G13).
        """
        if not self.owned:
            return None
        return (Revoke if self.in_group and not self._lost else Lost)(in_order(self.owned))

    # -- inside ------------------------------------------------------------------------------------

    def _failed(self, reaction: Reaction, error: KafkaError, asked_as: Identity) -> Reaction:
        if reaction is Reaction.FATAL:
            self.end(error)
        elif reaction is Reaction.NEW_GENERATION:
            self._forget(Identity(asked_as.member_id))
            self._rejoin = "the coordinator has another generation"
        elif reaction is Reaction.NEW_MEMBER:
            self._forget(Identity())
            self._rejoin = "the coordinator does not know the member"
        else:
            self.passing_error = error if reaction is Reaction.RAISE else None
            self._again()
        return reaction

    def _again(self) -> None:
        """Join again for the reason that stands, under the same id."""
        self.state = MemberState.UNJOINED
        self._rejoin = self._rejoin or self.reason

    def _forget(self, identity: Identity) -> None:
        self._last = self.read_as
        self.identity, self.state, self.leads = identity, MemberState.UNJOINED, False
        self._target = None
        self._lost = bool(self.owned)
