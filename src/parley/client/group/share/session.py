"""The share session of one member with one broker: what the broker knows of it. Pure (G64).

1. Epoch 0 opens a session; each request of it, ShareFetch or ShareAcknowledge, has the next epoch;
   -1 ends it, and releases what this member still has at that broker.
2. Acknowledgements need an open session. What a session gave is lost with it.
3. A ShareFetch names the partitions that are new or no longer wanted, and no others.
4. Acknowledgements travel in the next ShareFetch where one is due, unless they renew: a request
   that renews may not ask for records (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Collection, Set as AbstractSet
from enum import Enum
from typing import NamedTuple

from parley.client.group.share.book import AcknowledgeType, Due

OPENING = 0
ENDING = -1
_LAST_EPOCH = 2**31 - 1

TopicIdPartition = tuple[bytes, int]


class Request(Enum):
    """What a member sends to a broker next."""

    FETCH = "ShareFetch"
    ACKNOWLEDGE = "ShareAcknowledge"


class SessionPart(NamedTuple):
    """What a ShareFetch says of its session."""

    epoch: int
    added: tuple[TopicIdPartition, ...] = ()
    forgotten: tuple[TopicIdPartition, ...] = ()


class ShareSession:
    """One session after the other; `number` counts them."""

    def __init__(self) -> None:
        self.epoch = OPENING
        self.number = 0
        self._known: frozenset[TopicIdPartition] = frozenset()

    @property
    def opened(self) -> bool:
        """Whether the broker has a session of this member, as far as is known."""
        return self.epoch != OPENING

    def fetching(self, wanted: AbstractSet[TopicIdPartition]) -> SessionPart:
        """Return what a ShareFetch of these partitions has to say."""
        return SessionPart(
            self.epoch, tuple(sorted(wanted - self._known)), tuple(sorted(self._known - wanted))
        )

    def fetched(self, wanted: AbstractSet[TopicIdPartition]) -> None:
        """Take the answer to such a ShareFetch."""
        self._known = frozenset(wanted)
        self.acknowledged()

    def acknowledged(self) -> None:
        """Take the answer to a ShareAcknowledge."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def lost(self) -> None:
        """Begin again: the broker does not have the session, or it is not known whether it has."""
        self.epoch, self._known = OPENING, frozenset()
        self.number += 1


def next_request(
    session: ShareSession,
    wanted: Collection[TopicIdPartition],
    dues: Collection[Due],
    *,
    fetching: bool,
    hurried: bool,
) -> Request | None:
    """Return what to send to a broker now.

    `fetching`: records are waited for. `hurried`: acknowledgements wait for no ShareFetch.
    """
    fetching = fetching and bool(wanted)
    if dues and session.opened:
        apart = any(
            due.type == AcknowledgeType.RENEW
            or (due.grant.topic_id, due.tp.partition) not in wanted
            for due in dues
        )
        if apart or (hurried and not fetching):
            return Request.ACKNOWLEDGE
    return Request.FETCH if fetching else None
