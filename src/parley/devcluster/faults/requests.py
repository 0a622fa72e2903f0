"""The journal of requests: what clients asked, in which versions, and what was refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from parley.devcluster.faults.asked import Asked, asked_about
from parley.devcluster.faults.faults import api_name, api_number
from parley.messages import Message

KEPT_REQUESTS = 10_000

VersionsUsed = dict[int, dict[str, dict[str, tuple[int, ...]]]]
"""Broker id → client id → API name → versions, ascending."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One request. `message` is None where it was refused before it was read; `refused` says why.

    `size_bytes` is the length of its frame. Record bytes are not kept: a Produce request's
    `records` are None here.
    """

    at_ms: int
    broker: int
    api: str
    version: int
    client_id: str | None = None
    correlation_id: int = -1
    message: Message | None = None
    refused: str | None = None
    size_bytes: int = 0

    def asked(self, names: Mapping[bytes, str] | None = None) -> Asked:
        """Return the topics and partitions that it asks about; `names` are
        the topics by their ids.
        """
        return {} if self.message is None else asked_about(self.message, names or {})


class Requests:
    """The last requests of all brokers, and the versions seen since the start."""

    def __init__(self, kept: int = KEPT_REQUESTS) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=kept)
        self._versions: dict[tuple[int, str, str], set[int]] = {}
        self.total = 0

    def note(self, entry: JournalEntry) -> None:
        """Add a request."""
        self.total += 1
        self._entries.append(entry)
        if entry.refused is None:
            self._versions.setdefault((entry.broker, entry.client_id or "", entry.api), set()).add(
                entry.version
            )

    def select(
        self, api: str | int | None = None, broker: int | None = None, client_id: str | None = None
    ) -> list[JournalEntry]:
        """Return the requests kept, oldest first, of one API, broker or client if named."""
        name = None if api is None else api_name(api_number(api))
        return [
            entry
            for entry in self._entries
            if name in (None, entry.api)
            and broker in (None, entry.broker)
            and client_id in (None, entry.client_id)
        ]

    def versions_used(self) -> VersionsUsed:
        """Return every version that was asked for and not refused."""
        used: VersionsUsed = {}
        for (broker, client, api), versions in sorted(self._versions.items()):
            used.setdefault(broker, {}).setdefault(client, {})[api] = tuple(sorted(versions))
        return used

    def clear(self) -> None:
        """Forget the requests; the versions seen stay."""
        self._entries.clear()
