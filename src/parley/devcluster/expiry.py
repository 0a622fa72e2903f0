"""Ends transactions that have lasted too long, by the cluster's clock: one timer, set to what is due next."""

from __future__ import annotations

from collections.abc import Callable

from parley.devcluster.state.transactions.coordinator import Transactions
from parley.net import Clock
from parley.net.clock import TimerHandle


class Expiry:
    """The timer of one cluster's coordinators."""

    def __init__(self, transactions: Transactions, clock: Clock, now_ms: Callable[[], int]) -> None:
        self._transactions = transactions
        self._clock = clock
        self._now_ms = now_ms
        self._timer: TimerHandle | None = None
        self._due_ms: int | None = None

    def arm(self) -> None:
        """Set the timer to what is due next; called after whatever may have changed that."""
        due = self._transactions.next_due_ms
        if due == self._due_ms:
            return
        self.cancel()
        self._due_ms = due
        if due is not None:
            wait_ms = max(0, due + 1 - self._now_ms())
            self._timer = self._clock.call_at_ms(self._clock.now_ms() + wait_ms, self._expire)

    def _expire(self) -> None:
        self._due_ms = None
        self._transactions.expire(now_ms=self._now_ms())
        self.arm()

    def cancel(self) -> None:
        """Set no timer."""
        timer, self._timer, self._due_ms = self._timer, None, None
        if timer is not None:
            timer.cancel()
