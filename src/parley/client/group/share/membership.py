"""The membership of one consumer in a share group (KIP-932). Pure: no clock, no socket, no task.

G63  The member makes its id and joins with epoch 0. It may read what the coordinator names, at
     once: several members have one partition, and none is ever given up before another has it.
G51  An assignment may name topics that are not known yet: they are read when they are.
G54  Fenced (110), or unknown (25), the member joins again under its id.
G55  Polls that stay away longer than the poll interval end the membership; the next joins again.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from parley.client.group.modern.reactions import Reaction, after_heartbeat
from parley.client.group.share.heartbeat import JOINING
from parley.client.group.topic_names import Names
from parley.errors import KafkaError
from parley.types import TopicPartition


class ShareMemberState(Enum):
    """How far a member is, in Java's words."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    STABLE = "stable"
    STALE = "stale"
    """The application stayed away too long."""
    FATAL = "fatal"


class ShareMembership:
    """What one member knows of itself. Every method mutates."""

    def __init__(self) -> None:
        self.state = ShareMemberState.UNSUBSCRIBED
        self.epoch = JOINING
        self.topics: frozenset[str] | None = None
        self.assigned: dict[TopicPartition, bytes] = {}
        """What may be read now, with the ids of the topics."""
        self.error: KafkaError | None = None
        """Why the membership has ended for good."""
        self.passing_error: KafkaError | None = None
        """What the next poll raises while the membership goes on."""
        self.unresolved = False
        """Whether the assignment names topics that metadata does not have."""
        self._ids: frozenset[tuple[bytes, int]] = frozenset()
        self._known: frozenset[str] | None = None
        self._news = False

    # -- what the application does ----------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Take the topics to read; the coordinator hears of others than before at once."""
        if frozenset(topics) == self.topics:
            return
        self.topics = frozenset(topics)
        if self.state is ShareMemberState.UNSUBSCRIBED:
            self._forget(ShareMemberState.JOINING)
        else:
            self._news = True

    def poll_overdue(self) -> bool:
        """Take note that the application stays away (G55); return whether to leave the group."""
        if self.state not in (ShareMemberState.JOINING, ShareMemberState.STABLE):
            return False
        self._forget(ShareMemberState.STALE)
        return True

    def polled(self) -> bool:
        """Take note that the application is back; return whether it had been given up."""
        if self.state is not ShareMemberState.STALE:
            return False
        self._forget(ShareMemberState.JOINING)
        return True

    def leave(self) -> None:
        """End the membership."""
        self._forget(ShareMemberState.UNSUBSCRIBED)
        self.topics, self.error, self.passing_error = None, None, None

    # -- heartbeats -------------------------------------------------------------------------------

    @property
    def in_group(self) -> bool:
        """Whether the coordinator has this member."""
        return self.epoch > 0

    @property
    def beating(self) -> bool:
        """Whether heartbeats are due."""
        return self.state in (ShareMemberState.JOINING, ShareMemberState.STABLE)

    @property
    def hurried(self) -> bool:
        """Whether the next heartbeat goes at once: to join, and when the topics are others."""
        return self.beating and (self._news or self.state is ShareMemberState.JOINING)

    def to_say(self) -> tuple[int, frozenset[str], frozenset[str] | None]:
        """Return the epoch, the topics, and what the coordinator knows of them already."""
        self._news = False
        return self.epoch, self.topics or frozenset(), self._known

    def answered(
        self,
        asked_with: int,
        said: frozenset[str],
        epoch: int,
        assigned: frozenset[tuple[bytes, int]] | None,
    ) -> None:
        """Take the answer to a heartbeat. One to a heartbeat of another epoch is ignored."""
        if asked_with != self.epoch or not self.beating:
            return
        self.epoch, self._known = epoch, said
        self.state = ShareMemberState.STABLE
        if assigned is not None:
            self._ids = assigned

    def resolve(self, names: Names) -> None:
        """Turn the assignment into names, as far as metadata has them (G51)."""
        found = {(topic, part): names(topic) for topic, part in self._ids}
        self.unresolved = None in found.values()
        self.assigned = {
            TopicPartition(name, part): topic
            for (topic, part), name in found.items()
            if name is not None
        }

    def failed(self, error: KafkaError, asked_with: int) -> Reaction:
        """Take an error in the place of an answer; return what the sender does."""
        reaction = after_heartbeat(error)
        self._known = None  # everything is said again
        if asked_with != self.epoch or not self.beating:
            return Reaction.WAIT
        if reaction is Reaction.FENCED:
            self._forget(ShareMemberState.JOINING)
        elif reaction is Reaction.RAISE:
            self.passing_error = error
        elif reaction in (Reaction.FATAL, Reaction.UNSUPPORTED):
            self._forget(ShareMemberState.FATAL)
            self.error = error
        return reaction

    def fenced(self) -> None:
        """Join again: a broker does not know this member any more (G54)."""
        if self.state is ShareMemberState.STABLE:
            self._forget(ShareMemberState.JOINING)

    def _forget(self, state: ShareMemberState) -> None:
        self.state, self.epoch, self._known, self._news = state, JOINING, None, False
        self._ids, self.unresolved, self.assigned = frozenset(), False, {}
