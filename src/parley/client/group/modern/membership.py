"""The membership of one consumer in a group, by the consumer protocol (KIP-848). Pure: no clock, no
socket, no task.

The coordinator sends targets; the member goes there one step at a time, in the polls of the
application, and then acknowledges what it owns. The rules, with the labels under which the tests
name them:

 G50  A heartbeat goes at once to join, to acknowledge and when the subscription changes, else at
      the interval. For one and a half of them after it has joined, subscribed to other topics or,
      since then, been given others, a member asks ten times as often: meanwhile the others learn
      what they have to give up, and each partition is without an owner until its next one asks.
      An answer acknowledges what its heartbeat said: one that was on its way before is none.
 G51  A target may name topics that are not known yet: what is known is taken, the rest when it is;
      who has nothing, and knows none of them, waits.
 G52  Partitions are given up before others are taken, and only then the member acknowledges; one
      that joined and was given nothing has nothing to acknowledge.
 G54  Fenced, the member has lost its partitions and joins again.
 G55  Polls that stay away longer than the poll interval end the membership; the next poll joins
      again.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from parley.client.group.member import Committing, Identity
from parley.client.group.modern.heartbeat import JOINING, Said
from parley.client.group.modern.reactions import Reaction, after_heartbeat
from parley.client.group.steps import Assign, GroupStep, Lost, Revoke, in_order
from parley.client.group.topic_names import Names
from parley.errors import BrokerError, KafkaError
from parley.errors.codes import FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID
from parley.types import TopicPartition


class MemberState(Enum):
    """How far a member is, in Java's words."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    """There is something to show to the application."""
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    STALE = "stale"
    """The application stayed away too long."""
    FATAL = "fatal"


class ModernMembership:
    """What one member knows of itself. Every method mutates; the rules are those at
    the head of this module.
    """

    def __init__(self) -> None:
        self.state = MemberState.UNSUBSCRIBED
        self.epoch = JOINING
        self.topics: frozenset[str] | None = None
        self.owned: frozenset[TopicPartition] = frozenset()
        self.topic_ids: dict[str, bytes] = {}
        """Of the topics in targets, as they were named last."""
        self.error: KafkaError | None = None
        """Why the membership has ended for good."""
        self.passing_error: KafkaError | None = None
        """What the next poll raises while the membership goes on."""
        self.unresolved = False
        """Whether the target names topics that metadata does not have."""
        self._ids: frozenset[tuple[bytes, int]] = frozenset()
        self._target: frozenset[TopicPartition] | None = None
        self._known: Said | None = None
        self._lost = False
        self._shown = False
        self._news = False
        self._last_epoch = JOINING

    # -- what the application wants ----------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Take the topics to read; the coordinator hears of others than before at once."""
        if frozenset(topics) == self.topics:
            return
        self.topics = frozenset(topics)
        if self.state is MemberState.UNSUBSCRIBED:
            self._join()
        else:
            self._news = True

    @property
    def in_group(self) -> bool:
        """Whether the coordinator has this member."""
        return self.epoch > 0

    @property
    def has_nothing(self) -> bool:
        """Whether the application has seen that the coordinator gives it nothing yet."""
        shown = self.state is MemberState.STABLE and self._shown
        return shown and not self.owned and not self.unresolved

    @property
    def read_in(self) -> int:
        """The epoch in which the application got what it has: that of now or, outside of the
        group, the last one. Offsets sent with that are refused.
        """
        return self.epoch if self.in_group else self._last_epoch

    @property
    def beating(self) -> bool:
        """Whether heartbeats are due."""
        return self.state in (
            MemberState.JOINING, MemberState.RECONCILING, MemberState.ACKNOWLEDGING,
            MemberState.STABLE
        ) and not self._lost  # fmt: skip

    @property
    def hurried(self) -> bool:
        """Whether the next heartbeat goes at once (G50)."""
        return self.beating and (
            self._news or self.state in (MemberState.JOINING, MemberState.ACKNOWLEDGING)
        )

    # -- what the application is shown -------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether there is a next step."""
        return self._lost or self._target is not None

    def next_step(self) -> GroupStep | None:
        """Return what the application is to be shown next, None where nothing;
        `step_done` follows it.
        """
        if self._lost:
            return Lost(in_order(self.owned))
        if self._target is None:
            return None
        gone = self.owned - self._target
        if gone:
            return Revoke(in_order(gone))
        return Assign(in_order(self._target - self.owned), in_order(self.owned))

    def step_done(self, step: GroupStep) -> None:
        """Take note that the application has been shown a step."""
        if isinstance(step, Assign):
            self.owned |= set(step.added)
            self._shown = True
            if self._target is not None and self.owned == self._target:
                self._target = None
                nothing = not self.owned and self._known is not None and not self._known.owned
                self.state = MemberState.STABLE if nothing else MemberState.ACKNOWLEDGING
            return
        self.owned -= set(step.partitions)
        if isinstance(step, Lost) or not self.owned:
            self._lost = False

    def last_step(self) -> Revoke | Lost | None:
        """Return what the application is shown when the membership ends."""
        if not self.owned:
            return None
        return (Revoke if self.in_group and not self._lost else Lost)(in_order(self.owned))

    # -- heartbeats --------------------------------------------------------------------------------

    def to_say(self) -> tuple[int, Said, Said | None]:
        """Return the epoch, what the coordinator is to know, and what it knows already."""
        self._news = False
        owned = frozenset[TopicPartition]() if self.epoch == JOINING else self.owned
        return self.epoch, Said(self.topics or frozenset(), owned), self._known

    def answered(
        self, asked_with: int, said: Said, epoch: int, target: frozenset[tuple[bytes, int]] | None
    ) -> None:
        """Take the answer to a heartbeat. One to a heartbeat of another
        epoch than now is ignored.
        """
        if asked_with != self.epoch or not self.beating:
            return
        self.epoch, self._known = epoch, said
        if target is not None:
            self._ids = target
        acknowledged = self.state is MemberState.ACKNOWLEDGING and said.owned == self.owned
        if self.state is MemberState.JOINING or acknowledged:
            self.state = MemberState.STABLE

    def resolve(self, names: Names) -> None:
        """Turn the target into names, as far as metadata has them (G51); a target
        that is new begins a step.
        """
        found = {(topic, part): names(topic) for topic, part in self._ids}
        self.unresolved = None in found.values()
        target = frozenset(
            TopicPartition(name, part) for (_, part), name in found.items() if name is not None
        )
        self.topic_ids |= {name: topic for (topic, _), name in found.items() if name is not None}
        waits = self.unresolved and not target  # to be given nothing would be no news
        if self.state is MemberState.STABLE and (
            target != self.owned or not (self._shown or waits)
        ):
            self._target, self.state = target, MemberState.RECONCILING
        elif self.state is MemberState.RECONCILING and not self.owned - target:
            self._target = target  # what was begun goes on; what is to be taken is the newest

    def failed(self, error: KafkaError, asked_with: int) -> Reaction:
        """Take an error in the place of an answer; return what the sender does."""
        reaction = after_heartbeat(error)
        self._known = None  # everything is said again
        if asked_with != self.epoch or not self.beating:
            return Reaction.WAIT
        if reaction is Reaction.FENCED:
            self._fence()
        elif reaction is Reaction.RAISE:
            self.passing_error = error
        elif reaction in (Reaction.FATAL, Reaction.UNSUPPORTED):
            self.end(error)
        return reaction

    @property
    def committing(self) -> Committing:
        """Whether it may commit: with any epoch, also while it goes to another target."""
        return Committing.NOW if self.in_group and not self._lost else Committing.NO_MEMBER

    def request_rejoin(self, reason: str) -> None:
        """Do nothing: in this protocol the coordinator alone decides when the
        group rebalances (G60).
        """

    def commit_refused(self, error: KafkaError, asked_as: Identity) -> bool:
        """Take a refused commit as news; return whether it may go again with
        the epoch of now (G57).
        """
        code = error.code if isinstance(error, BrokerError) else 0
        if (
            code in (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH)
            and asked_as.generation == self.epoch
            and self.in_group
        ):
            self._fence()
        return code == STALE_MEMBER_EPOCH and self.in_group

    # -- coming and going --------------------------------------------------------------------------

    def poll_overdue(self) -> bool:
        """Take note that the application stays away (G55); return whether the
        member is to leave the group.
        """
        if self.state in (MemberState.UNSUBSCRIBED, MemberState.STALE, MemberState.FATAL):
            return False
        self._forget(MemberState.STALE)
        return True

    def polled(self) -> bool:
        """Take note that the application is back; return whether it had been given up."""
        if self.state is not MemberState.STALE:
            return False
        self._join()
        return True

    def end(self, error: KafkaError) -> None:
        """End the membership for good: the application is shown what it lost, and then
        the error at every poll.
        """
        self._forget(MemberState.FATAL)
        self.error = error

    def leave(self) -> None:
        """End the membership, after its last steps."""
        self._forget(MemberState.UNSUBSCRIBED)
        self.topics, self.error, self.passing_error = None, None, None
        self.owned, self._lost = frozenset(), False
        self._last_epoch = JOINING

    # -- inside ------------------------------------------------------------------------------------

    def _join(self) -> None:
        self.state, self.epoch, self._known, self._shown = MemberState.JOINING, JOINING, None, False

    def _fence(self) -> None:
        self._forget(MemberState.JOINING)

    def _forget(self, state: MemberState) -> None:
        self._last_epoch = self.read_in
        self._join()
        self.state = state
        self._ids, self._target, self.unresolved = frozenset(), None, False
        self._lost = bool(self.owned)
