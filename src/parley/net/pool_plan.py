"""Which connection serves which broker: decisions only, no waiting and no input or output.

Rules:
1. Connections belong to an address and a lane. Long polls have a lane of their own, so that they do
   not hold up the requests behind them; brokers with one address share.
2. At most one connection is being opened per address and lane; everybody else waits for that one.
3. After a failure, or a loss, the next attempt waits: exponentially longer with each failure in a
   row, with jitter from the `rng` that the owner brings.
4. A connection to an address that no broker has any more is closed when nothing is in flight on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from parley.net.address import Address

_JITTER = 0.2  # Kafka's reconnect backoff moves by a fifth in both directions


class Pooled(Protocol):
    """What the plan wants to know of a connection."""

    @property
    def is_closed(self) -> bool:
        """Whether it is of no use any more."""
        ...

    @property
    def in_flight(self) -> int:
        """Requests waiting for their answers."""
        ...

    @property
    def last_used_ms(self) -> int:
        """When it was last opened, used, or lost."""
        ...


C = TypeVar("C", bound=Pooled)


class Lane(NamedTuple):
    """The key of a connection."""

    address: Address
    name: str


@dataclass(frozen=True, slots=True)
class Use(Generic[C]):
    """Use this connection."""

    connection: C


@dataclass(frozen=True, slots=True)
class Open:
    """Open a connection, then say `opened` or `failed`."""


@dataclass(frozen=True, slots=True)
class Join:
    """Wait for the connection that is being opened."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again at this moment: the backoff has not passed."""

    until_ms: int


@dataclass(slots=True)
class _Slot(Generic[C]):
    connection: C | None = None
    opening: bool = False
    failures: int = 0
    not_before_ms: int = 0


class PoolPlan(Generic[C]):
    """The state of a pool. Every method is synchronous; what is to be done is returned."""

    def __init__(
        self, backoff_ms: int, backoff_max_ms: int, max_idle_ms: int, rng: Callable[[], float]
    ) -> None:
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._max_idle_ms = max_idle_ms
        self._rng = rng
        self._slots: dict[Lane, _Slot[C]] = {}

    def step(self, lane: Lane, now_ms: int) -> Use[C] | Open | Join | Wait:
        """Return what to do to get this connection. Mutates: `Open` makes it being opened."""
        slot = self._slots.setdefault(lane, _Slot())
        if slot.opening:
            return Join()
        self._notice_loss(slot)
        if slot.connection is not None:
            return Use(slot.connection)
        if slot.not_before_ms > now_ms:
            return Wait(slot.not_before_ms)
        slot.opening = True
        return Open()

    def opened(self, lane: Lane, connection: C) -> None:
        """Take note of a successful opening."""
        slot = self._slots.setdefault(lane, _Slot())
        slot.connection = connection
        slot.opening = False
        slot.failures = 0

    def failed(self, lane: Lane, now_ms: int) -> None:
        """Take note of a failed opening; the next one waits longer."""
        slot = self._slots.setdefault(lane, _Slot())
        slot.opening = False
        slot.not_before_ms = now_ms + self.backoff_ms(slot.failures)
        slot.failures += 1

    def given_up(self, lane: Lane) -> None:
        """Take note that an opening was cancelled."""
        self._slots.setdefault(lane, _Slot()).opening = False

    def backoff_ms(self, failures: int) -> int:
        """Return the pause after so many earlier failures in a row, shaken."""
        pause_ms = min(self._backoff_max_ms, self._backoff_ms * 2 ** min(failures, 30))
        return int(pause_ms * (1 + _JITTER * (2 * self._rng() - 1)))

    def least_busy(self, addresses: Iterable[Address], lane: str) -> C | None:
        """Return the open connection to any address with the fewest requests in flight."""
        found = []
        for address in addresses:
            slot = self._slots.get(Lane(address, lane))
            if slot is not None and slot.connection is not None and not slot.connection.is_closed:
                found.append(slot.connection)
        return min(found, key=lambda connection: connection.in_flight, default=None)

    def by_promise(self, addresses: Iterable[Address], lane: str) -> list[Address]:
        """Return the addresses, those that failed least first, equals in random order."""
        shaken = [(self._failures(address, lane), self._rng(), address) for address in addresses]
        return [address for _, _, address in sorted(shaken, key=lambda entry: entry[:2])]

    def sweep(self, wanted: frozenset[Address], now_ms: int) -> list[C]:
        """Forget and return, to be closed, connections idle too long or to no wanted address."""
        closing: list[C] = []
        for lane, slot in list(self._slots.items()):
            self._notice_loss(slot)
            connection = slot.connection
            if connection is not None and connection.in_flight == 0:
                idle = 0 <= self._max_idle_ms <= now_ms - connection.last_used_ms
                if idle or lane.address not in wanted:
                    closing.append(connection)
                    slot.connection = None
            if slot.connection is None and not slot.opening and lane.address not in wanted:
                del self._slots[lane]
        return closing

    def connections(self) -> list[C]:
        """Return every connection that is held."""
        return [slot.connection for slot in self._slots.values() if slot.connection is not None]

    def _failures(self, address: Address, lane: str) -> int:
        slot = self._slots.get(Lane(address, lane))
        return 0 if slot is None else slot.failures

    def _notice_loss(self, slot: _Slot[C]) -> None:
        if slot.connection is not None and slot.connection.is_closed:
            slot.not_before_ms = slot.connection.last_used_ms + self.backoff_ms(0)
            slot.connection = None
