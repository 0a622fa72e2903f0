"""When metadata is asked for again, and for which topics: pure, the time is an argument.

M12 A topic wanted while an answer is under way is still needed afterwards. A full request wins over
    a partial one, and a partial one becomes full when the metadata's age is over.
M15 The pause grows exponentially, with jitter, after failures and also after answers that bring
    nothing new: no refresh storm, whoever asks. A topic that was never asked for is asked for at
    once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from parley.client.cluster.retry import Backoff
from parley.client.cluster.view import Applied


@dataclass(frozen=True, slots=True)
class RefreshRequest:
    """What one Metadata request asks for; hand it back to `finished` or `failed`."""

    topics: frozenset[str]
    full: bool
    version: int


QUIET_PAUSES = 2
"""After this many of the longest pauses without a request the backoff starts again: what was
fruitless then says nothing about what has happened since (a leader move must not wait for
yesterday's pauses).
"""


class RefreshSchedule:
    """The need for metadata and the pauses between requests for it."""

    def __init__(self, backoff: Backoff, max_age_ms: int, rng: Callable[[], float]) -> None:
        self._backoff = backoff
        self._max_age_ms = max_age_ms
        self._rng = rng
        self._wanted: set[str] = set()
        self._fresh: set[str] = set()
        self._needs_full = True
        self._version = 0
        self._last_success_ms: int | None = None
        self._not_before_ms = 0
        self._fruitless = 0
        self._last_end_ms = 0
        self.refreshes = 0
        """Requests finished so far, for accounts and tests."""

    @property
    def wanted(self) -> frozenset[str]:
        """The topics that a full request asks for."""
        return frozenset(self._wanted)

    def want(self, topics: Iterable[str]) -> bool:
        """Add topics to those kept up to date; return whether any is new and must be asked for."""
        new = set(topics) - self._wanted
        if new:
            self._wanted |= new
            self._fresh |= new
            self._version += 1
            self._not_before_ms = self._fruitless = 0
        return bool(new)

    def unwant(self, topic: str) -> None:
        """Stop keeping a topic up to date."""
        self._wanted.discard(topic)
        self._fresh.discard(topic)

    def request_full(self) -> None:
        """Ask for all wanted topics as soon as the pause allows it."""
        self._needs_full = True

    def moved(self) -> None:
        """Note that a leader was found by a hint: an answer that confirms it is not fruitless."""
        self._fruitless = 0

    def hurry(self) -> None:
        """Let the next request go out at once: somebody asked a question and waits for its answer.

        The pause keeps refreshes that nobody asked for from becoming a storm; it must not hold up
        those.
        """
        self._not_before_ms = 0

    def needed(self, now_ms: int) -> bool:
        """Return whether anything must be asked for."""
        return self._needs_full or bool(self._fresh) or self._too_old(now_ms)

    def due_in_ms(self, now_ms: int) -> int:
        """Return the time until the next request may, or must, be sent; 0 for now."""
        pause = max(0, self._not_before_ms - now_ms)
        if self.needed(now_ms) or self._last_success_ms is None:
            return pause
        return max(pause, self._last_success_ms + self._max_age_ms - now_ms)

    def begin(self, now_ms: int) -> RefreshRequest:
        """Return what to ask for now."""
        if now_ms - self._last_end_ms > QUIET_PAUSES * self._backoff.max_ms:
            self._fruitless = 0
        full = self._needs_full or self._too_old(now_ms)
        return RefreshRequest(frozenset(self._wanted if full else self._fresh), full, self._version)

    def finished(self, request: RefreshRequest, applied: Applied, now_ms: int) -> None:
        """Take note of an answer: what is still needed, and the pause before the next request."""
        self.refreshes += 1
        if request.full:
            self._needs_full = False
            self._last_success_ms = now_ms
        if request.version == self._version:
            self._fresh.clear()
        else:
            self._fresh -= request.topics
        if applied.outdated or applied.incomplete:
            self._needs_full = True
        fruitless = applied.equivalent or bool(applied.outdated)
        self._pause(now_ms, self._fruitless + 1 if fruitless else 0)

    def failed(self, now_ms: int) -> None:
        """Take note of a request that got no usable answer."""
        self._pause(now_ms, self._fruitless + 1)

    def _pause(self, now_ms: int, fruitless: int) -> None:
        self._fruitless, self._last_end_ms = fruitless, now_ms
        delay = self._backoff.delay_ms(fruitless - 1, self._rng) if fruitless else 0
        self._not_before_ms = now_ms + delay

    def _too_old(self, now_ms: int) -> bool:
        return self._last_success_ms is None or now_ms - self._last_success_ms >= self._max_age_ms
