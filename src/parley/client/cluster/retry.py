"""When to try again, how long to wait first, when to stop: pure, no clock and no randomness.

1. A call has one deadline; every attempt and every pause stays inside it.
2. The pause grows exponentially from `retry_backoff_ms` to `retry_backoff_max_ms`, with 20 % jitter
   (KIP-580), and goes on growing whoever is asked next.
3. Whether an error may be retried stands in the error (`retriable`, `refresh_metadata`), not in a
   list here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from parley.errors import BrokerError, BrokersUnreachable, KafkaError
from parley.errors.codes import CONCURRENT_TRANSACTIONS

JITTER = 0.2
"""Kafka's CommonClientConfigs.RETRY_BACKOFF_JITTER."""


class Reaction(Enum):
    """What a caller does after an error."""

    FAIL = "fail"
    RETRY = "retry"
    REFRESH = "refresh"
    """Ask for metadata again, then retry."""


def classify(error: BaseException) -> Reaction:
    """Return what to do after an error. Anything that parley did not raise fails at once."""
    if not isinstance(error, KafkaError) or not error.retriable:
        # STALE broker knowledge is the one thing that a refresh cures although Kafka's table does
        # not call the code retriable (UNKNOWN_TOPIC_ID and its kin are retriable there already).
        return Reaction.FAIL
    return Reaction.REFRESH if error.refresh_metadata else Reaction.RETRY


def raise_first(errors: Sequence[KafkaError]) -> None:
    """Raise one error for all, if any: one that will not pass first; the others are notes."""
    if errors:
        first, *others = sorted(errors, key=lambda error: classify(error) is not Reaction.FAIL)
        for other in dict.fromkeys(map(str, others)):
            if other != str(first):
                first.add_note(f"also: {other}")
        raise first


def nowhere(error: KafkaError) -> bool:
    """Return whether no address has a name that resolves: they are misspelt, not away."""
    failures = error.failures.values() if isinstance(error, BrokersUnreachable) else ()
    return bool(failures) and all(getattr(one, "stage", None) == "name lookup" for one in failures)


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause before the n-th retry.

    `rng` gives numbers from 0 to 1; 0.5 is no jitter at all.

    >>> [Backoff(100, 1000).delay_ms(n, lambda: 0.5) for n in range(6)]
    [100, 200, 400, 800, 1000, 1000]
    """

    initial_ms: int
    max_ms: int

    def delay_ms(self, attempt: int, rng: Callable[[], float]) -> int:
        """Return the pause before retry number `attempt`, counted from 0."""
        base = min(float(self.max_ms), self.initial_ms * 2.0 ** min(attempt, 40))
        return min(round(base * (1 + JITTER * (2 * rng() - 1))), max(self.max_ms, self.initial_ms))


_SOON = Backoff(20, 250)
"""Java's producer begins with 20 ms too."""


def backoff_after(error: KafkaError, usual: Backoff) -> Backoff:
    """Return the pauses after an error: the usual ones, or shorter ones for what is soon over."""
    # The markers of the transaction before are still being written: that is soon over.
    soon = isinstance(error, BrokerError) and error.code == CONCURRENT_TRANSACTIONS
    return _SOON if soon else usual


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment after which a call gives up.

    >>> Deadline.after(now_ms=1000, timeout_ms=50).remaining_ms(1030)
    20
    """

    at_ms: int

    @classmethod
    def after(cls, now_ms: int, timeout_ms: int) -> Deadline:
        """Return the deadline `timeout_ms` from now."""
        return cls(now_ms + timeout_ms)

    def remaining_ms(self, now_ms: int) -> int:
        """Return the time left, 0 when it is over."""
        return max(0, self.at_ms - now_ms)

    def passed(self, now_ms: int) -> bool:
        """Return whether no time is left."""
        return now_ms >= self.at_ms

    def earlier(self, now_ms: int, timeout_ms: int) -> Deadline:
        """Return this deadline, or the one `timeout_ms` from now if that comes first."""
        return Deadline(min(self.at_ms, now_ms + timeout_ms))
