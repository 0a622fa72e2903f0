"""Kafka's error codes by name, and an error for each.

`NOT_LEADER_OR_FOLLOWER` is 6; `NotLeaderOrFollowerError` is what a broker's answer with that code
raises. Both are made from codes.txt when first named; type checkers read `codes.pyi`, which
`tools/write_stubs.py` writes.
"""

from __future__ import annotations

from parley.errors.broker import BrokerError, named


def __getattr__(name: str) -> int | type[BrokerError]:
    found = globals()[name] = named(__name__, name)
    return found
