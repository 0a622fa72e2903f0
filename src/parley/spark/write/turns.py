"""Transactional ids of tasks: a bounded pool in which two attempts never share an id. Pure.

A task attempt that hangs may ask for its producer id (InitProducerId) long after everybody has
forgotten it, and that aborts whatever is open under the id. So no id may ever be known to two
attempts that can still run, whichever driver started them. The broker sees to it:

1. Task number `slot` has an id of its own under which nothing is ever written, `prefix-slot`. Every
   attempt begins with InitProducerId there. The answer, a producer id and an epoch that nobody else
   gets, is the attempt's *turn*; a broker hands turns out in order.
2. The turn names the id that the attempt writes under: `prefix-slot-producerId.epoch`. No other
   attempt makes this name.
3. An attempt whose message the driver got and committed has ended for certain: it asks no broker
   for anything any more. Its id is a *spare* and stands in the intent, with the last turn that was
   recorded.
4. The attempt that takes the very next turn after the recorded one writes under the spare; it alone
   can, for only one attempt gets that turn. Every other attempt (a retry, a speculative copy, one
   of an earlier stage attempt or of another driver) gets a later turn, and with it a name of its
   own.
5. Attempts that got a turn and did not report leave an id behind that nobody uses again. So ids
   grow with failures, not with batches; the coordinator forgets them
   (transactional.id.expiration.ms).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

MOST_EARLIER_TURNS = 64
"""How far back leftovers of a slot without a record are looked for. Older ones
have ended by their time-out.
"""


class Identity(NamedTuple):
    """A producer id with its epoch, as InitProducerId gives them out."""

    producer_id: int
    epoch: int

    def follows(self, other: Identity) -> bool:
        """Return whether nobody can have had an identity between the other and this one."""
        return self.producer_id == other.producer_id and self.epoch == other.epoch + 1


Turn = Identity
"""An identity got under `prefix-slot`: a place in the order of attempts, never written under."""


class Slot(NamedTuple):
    """What is recorded of a task number: the last turn, and the turn of the spare id."""

    turn: Turn
    spare: Turn | None = None


Pool = Mapping[int, Slot]
"""Slots by task number."""


def query_id_name(prefix: str) -> str:
    """Return the transactional id of the query itself, under which its driver writes intents."""
    return f"{prefix}-driver"


def turn_id_name(prefix: str, slot: int) -> str:
    """Return the transactional id at which attempts of a task take turns."""
    return f"{prefix}-{slot}"


def id_name(prefix: str, slot: int, named_after: Turn) -> str:
    """Return a transactional id to write under.

    >>> id_name("q", 3, Turn(1000, 7))
    'q-3-1000.7'
    """
    return f"{prefix}-{slot}-{named_after.producer_id}.{named_after.epoch}"


def choose(recorded: Slot | None, turn: Turn) -> Turn:
    """Return the turn that the id of an attempt is named after: the spare's for the
    next in turn, else its own.
    """
    if recorded is not None and recorded.spare is not None and turn.follows(recorded.turn):
        return recorded.spare
    return turn


def earlier(recorded: Slot | None, turn: Turn) -> Iterator[Turn]:
    """Yield what attempts' ids between record and turn may be named after, latest first.

    The first of them may write under the spare, or under a name of its own if its plan was an older
    one. The id of the attempt that holds the turn is not among them.
    """
    known = recorded is not None and recorded.turn.producer_id == turn.producer_id
    first = recorded.turn.epoch + 1 if known and recorded is not None else 0
    for epoch in range(turn.epoch - 1, max(first, turn.epoch - MOST_EARLIER_TURNS) - 1, -1):
        other = Turn(turn.producer_id, epoch)
        yield other
        if (name := choose(recorded, other)) != other:
            yield name


def after_sweep(recorded: Slot, turn: Turn) -> Slot:
    """Return the record of a slot whose next turn the driver took itself.

    The spare stays one only where no attempt had a turn in between: it would have written under it.
    """
    return Slot(turn, recorded.spare if turn.follows(recorded.turn) else None)
