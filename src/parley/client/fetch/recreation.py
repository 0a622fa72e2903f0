"""Is it another topic under the name? Evidence by what the release reports (KIP-516). Pure.

1. Topics fetched by id (3.1 and later): a broker that refuses the held id, while metadata names
   another.
2. Ids in metadata only (2.8 to 3.0), or a partition that is not fetched now: two answers in a row
   that agree on another id, or one where the id was held for more than a minute.
3. No ids (before 2.8): a leader epoch that falls by 3 or more to that of a nearly new topic (2 or
   less); any other step back is judged as a truncation.
4. Ids are never used again: a change back to an id held before is stale metadata, and only a broker
   that refuses the id held now confirms it.
5. While it is open, metadata is asked for every 250 ms, in at most 8 rounds; then the change that
   only old answers claim is left alone until the next answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.types import ZERO_UUID

LONG_HELD_MS = 60_000
ROUND_MS, ROUNDS = 250, 8
LEAST_REWIND, NEARLY_NEW_EPOCH = 3, 2
AGREEING = 2


@dataclass(slots=True)
class Incarnation:
    """Which incarnation of a topic a reader holds, and the evidence that there is a newer one."""

    held: bytes = ZERO_UUID
    held_since_ms: int = 0
    past: frozenset[bytes] = frozenset()
    candidate: bytes = ZERO_UUID
    rounds: int = 0
    _agreed: int = 0
    _answer: int = -1
    _refused: bool = False

    @property
    def in_doubt(self) -> bool:
        """Whether metadata names another topic and nothing has confirmed it yet."""
        return self.candidate != ZERO_UUID

    def is_other(self, named: bytes) -> bool:
        """Return whether metadata names another topic than the held one: a newer one (rule 4)."""
        return ZERO_UUID not in (named, self.held) and named not in {self.held, *self.past}

    @property
    def asks(self) -> bool:
        """Whether another round of metadata is due for this doubt."""
        return self.in_doubt and self.rounds < ROUNDS

    @property
    def is_refused(self) -> bool:
        """Whether a broker did not know the held id, and none has given records for it since."""
        return self._refused

    def refused(self) -> None:
        """Take note that a broker does not know the held id."""
        self._refused = True

    def served(self) -> None:
        """Take note that a broker gave records for the held id."""
        self._refused = False

    def observe(self, topic_id: bytes, answer: int, now_ms: int, *, by_wire: bool) -> bool:
        """Take the id that metadata names; return whether another topic is confirmed by now.

        `answer` counts the metadata answers, so that one is not taken for two; `by_wire` says that
        the partition is fetched by id, so that a broker will refuse or confirm the held one.
        """
        if topic_id == ZERO_UUID:
            return False
        if self.held == ZERO_UUID:
            self.held, self.held_since_ms = topic_id, now_ms
            return False
        if topic_id == self.held:
            self.candidate, self._agreed, self.rounds = ZERO_UUID, 0, 0
            return False
        if topic_id != self.candidate:
            self.candidate, self._agreed, self._answer, self.rounds = topic_id, 0, -1, 0
        if answer != self._answer:
            self._answer, self._agreed = answer, self._agreed + 1
        if self._refused:
            return True
        if by_wire or topic_id in self.past:
            return False
        return self._agreed >= AGREEING or now_ms - self.held_since_ms > LONG_HELD_MS

    def accept(self, now_ms: int) -> tuple[bytes, bytes]:
        """Hold the confirmed incarnation from now on; return the ids of the old and the new one."""
        old, self.held = self.held, self.candidate
        self.past |= {old}
        self.held_since_ms, self.candidate = now_ms, ZERO_UUID
        self.rounds, self._agreed, self._answer, self._refused = 0, 0, -1, False
        return old, self.held


def rewound(held_epoch: int, found_epoch: int) -> bool:
    """Return whether a leader epoch, where there are no ids, means another topic (rule 3).

    >>> rewound(7, 1), rewound(4, 2), rewound(9, 5), rewound(2, -1)
    (True, False, False, False)
    """
    return 0 <= found_epoch <= NEARLY_NEW_EPOCH and held_epoch - found_epoch >= LEAST_REWIND
