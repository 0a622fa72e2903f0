"""What keeps a coordinator from answering for a while: its topic is being made, or it still reads
what it has taken over.

Rules of this file:
1. What a broker takes over it loads first: for as long as `LoadingRules` say, and while it is held.
2. What clients ask for is there so many milliseconds after the first question.
3. Nothing here has a clock: who asks says when.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class LoadingRules:
    """How long loading takes, and at which brokers it does not end."""

    takes_ms: int = 0
    held: set[int] = field(default_factory=set)


class Loading(Generic[K]):
    """What is being loaded, and by which broker."""

    def __init__(self, rules: LoadingRules) -> None:
        self._rules = rules
        self._begun: dict[K, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._begun)

    def __contains__(self, what: K) -> bool:
        return what in self._begun

    def begin(self, what: K, broker_id: int, now_ms: int) -> bool:
        """Let a broker load something; return False where that is done at once."""
        if not self._rules.takes_ms and broker_id not in self._rules.held:
            return False
        self._begun[what] = broker_id, now_ms
        return True

    def stop(self, what: K) -> None:
        """Let it be: somebody else has it now, or nobody."""
        self._begun.pop(what, None)

    def at(self, broker_id: int) -> bool:
        """Whether a broker loads anything."""
        return any(broker == broker_id for broker, _ in self._begun.values())

    def take_finished(self, now_ms: int) -> list[K]:
        """Return what is loaded now; it is no longer being loaded."""
        rules = self._rules
        done = [
            what
            for what, (broker, begun_ms) in self._begun.items()
            if broker not in rules.held and begun_ms + rules.takes_ms <= now_ms
        ]
        for what in done:
            del self._begun[what]
        return done

    @property
    def next_due_ms(self) -> int | None:
        """When the next one will be loaded; None where nothing is, or all of it is held."""
        rules = self._rules
        found = (begun for broker, begun in self._begun.values() if broker not in rules.held)
        return min((begun + rules.takes_ms for begun in found), default=None)


class Making(Generic[K]):
    """What clients ask for first, and get some time later."""

    def __init__(self, takes_ms: int) -> None:
        self._takes_ms = takes_ms
        self._asked_ms: dict[K, int] = {}

    def ask(self, what: K, now_ms: int) -> bool:
        """Return whether it is made; the first question begins that."""
        self._asked_ms.setdefault(what, now_ms)
        return self.is_made(what, now_ms)

    def is_made(self, what: K, now_ms: int) -> bool:
        """Whether it is made."""
        asked_ms = self._asked_ms.get(what)
        return not self._takes_ms or (asked_ms is not None and asked_ms + self._takes_ms <= now_ms)

    def finish(self, what: K) -> None:
        """Note that it has been there for long."""
        self._asked_ms[what] = -self._takes_ms
