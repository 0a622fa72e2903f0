"""What is remembered about addresses, so that old brokers are not probed again and again.

A probe makes a 0.9 broker drop requests of *other* connections: it is found out
once and believed for a while. A broker that answered ApiVersions needs no canary next time either.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from parley.net.address import Address

_MAX_ADDRESSES = 10_000


class ProbeOutcome(enum.Enum):
    """What a broker turned out to be."""

    ANSWERS = "answers ApiVersions"
    SILENT = "older than 0.10"


@dataclass(slots=True)
class _Entry:
    outcome: ProbeOutcome
    until_ms: int


class ProbeOutcomes:
    """Outcomes by address; each expires, because brokers are upgraded."""

    def __init__(self, ttl_ms: int = 20 * 60 * 1000) -> None:
        self._ttl_ms = ttl_ms
        self._entries: dict[Address, _Entry] = {}

    def get(self, address: Address, now_ms: int) -> ProbeOutcome | None:
        """Return what is known about an address, None when nothing is (any more)."""
        entry = self._entries.get(address)
        if entry is None or entry.until_ms <= now_ms:
            return None
        return entry.outcome

    def put(self, address: Address, outcome: ProbeOutcome, now_ms: int) -> None:
        """Remember an outcome. The oldest one makes room when there are very many."""
        self._entries.pop(address, None)
        if len(self._entries) >= _MAX_ADDRESSES:
            self._entries.pop(next(iter(self._entries)))
        self._entries[address] = _Entry(outcome, now_ms + self._ttl_ms)

    def forget(self, address: Address) -> None:
        """Forget an address: what is there now behaves differently."""
        self._entries.pop(address, None)
