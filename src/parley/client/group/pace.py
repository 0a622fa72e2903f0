"""A member's two clocks: the session, which heartbeats keep up, and the poll
interval. Pure; times are passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from parley.client.options.client_options import ClientOptions

TIMES_AS_OFTEN = 10
"""How much more often heartbeats come while more partitions are expected."""


class Rebalance(NamedTuple):
    """A rebalance that this member took part in."""

    reason: str
    ended_at_ms: int
    duration_ms: int
    """From this member's JoinGroup to its share."""


@dataclass(slots=True)
class Pace:
    """When a member has to do something without being asked."""

    heartbeat_interval_ms: int
    session_timeout_ms: int
    max_poll_interval_ms: int
    last_poll_ms: int = 0
    last_beat_answer_ms: int | None = None
    last_rebalance: Rebalance | None = None
    rebalances: int = 0
    polling: bool = False
    """Whether a poll waits now."""
    _waiting_for_poll: bool = False
    _next_beat_ms: int = 0
    _expecting_until_ms: int = 0
    _rebalancing: tuple[int, str] | None = None

    # -- heartbeats --------------------------------------------------------------------------------

    def due_ms(self, now_ms: int, *, beating: bool) -> int | None:
        """Return when to look again, None where only news matter. Polls need not be
        announced: they only move it on.
        """
        due = [self._next_beat_ms] if beating else []
        if not self._waiting_for_poll:
            due.append((now_ms if self.polling else self.last_poll_ms) + self.max_poll_interval_ms)
        return min(due, default=None)

    def beat_due(self, now_ms: int) -> bool:
        """Return whether a heartbeat is due."""
        return now_ms >= self._next_beat_ms

    def beat_sent(self, now_ms: int) -> None:
        """Count the interval from now on."""
        self._next_beat_ms = now_ms + self.heartbeat_interval_ms

    def beat_answered(self, now_ms: int) -> None:
        """Take note that the coordinator answered: the session is as long again."""
        self.last_beat_answer_ms = now_ms
        self._next_beat_ms = max(self._next_beat_ms, now_ms + self.heartbeat_interval_ms)

    def beat_again(self, at_ms: int) -> None:
        """Send the next heartbeat earlier: the last one failed."""
        self._next_beat_ms = min(self._next_beat_ms, at_ms)

    def expect_more(self, now_ms: int) -> None:
        """Expect partitions that others have to give up: they learn of it within one interval, and
        half of another is for a coordinator that waits before it shares out, and for their polls.
        """
        self._expecting_until_ms = now_ms + self.heartbeat_interval_ms * 3 // 2

    def expecting(self, now_ms: int) -> bool:
        """Return whether partitions are expected that others have to give up."""
        return now_ms < self._expecting_until_ms

    def beat_often(self, now_ms: int, least_ms: int) -> None:
        """Send the next heartbeat earlier, but not before `least_ms` have passed."""
        self.beat_again(now_ms + max(self.heartbeat_interval_ms // TIMES_AS_OFTEN, least_ms))

    def beat_timeout_ms(self, options: ClientOptions) -> int:
        """Return how long a heartbeat may take: no longer than the session that it keeps up."""
        return min(options.request_timeout_ms, self.session_timeout_ms)

    # -- polls -------------------------------------------------------------------------------------

    def polled(self, now_ms: int) -> None:
        """Take note that the application polls."""
        self.last_poll_ms, self._waiting_for_poll = now_ms, False

    def poll_begins(self, now_ms: int) -> None:
        """Take note that a poll waits: while it does the application is not away."""
        self.polled(now_ms)
        self.polling = True

    def poll_ends(self, now_ms: int) -> None:
        """Count the poll interval from now on."""
        self.last_poll_ms, self.polling = now_ms, False

    def poll_overdue(self, now_ms: int) -> bool:
        """Return whether the application has stayed away too long."""
        idle = not self.polling and not self._waiting_for_poll
        return idle and self.away_ms(now_ms) >= self.max_poll_interval_ms

    def away_ms(self, now_ms: int) -> int:
        """Return how long ago the application polled."""
        return now_ms - self.last_poll_ms

    def wait_for_poll(self) -> None:
        """Stop counting until the application polls again."""
        self._waiting_for_poll = True

    # -- rebalances --------------------------------------------------------------------------------

    @property
    def rebalancing(self) -> bool:
        """Whether a rebalance has begun and not ended."""
        return self._rebalancing is not None

    def rebalance_began(self, now_ms: int, reason: str) -> None:
        """Take note of the first JoinGroup of a rebalance; what repeats it belongs to it."""
        if self._rebalancing is None:
            self._rebalancing = now_ms, reason

    def rebalance_ended(self, now_ms: int) -> int:
        """Take note that the member has its share; return how long the rebalance took."""
        began_ms, reason = self._rebalancing or (now_ms, "")
        self._rebalancing = None
        self.last_rebalance = Rebalance(reason, now_ms, now_ms - began_ms)
        self.rebalances += 1
        return now_ms - began_ms
