"""Times and sizes as people write them: `15m`, `90 seconds`, `64m`. Pure; raises ValueError.

Units are those of Spark's own time strings, and their English words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_UNITS_MS = {
    "ms": 1, "millisecond": 1, "milliseconds": 1, "s": 1_000, "sec": 1_000, "second": 1_000,
    "seconds": 1_000, "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000, "d": 86_400_000, "day": 86_400_000,
    "days": 86_400_000, "week": 604_800_000, "weeks": 604_800_000,
}  # fmt: skip
_UNITS_BYTES = {
    "": 1,
    "b": 1,
    "k": 2**10,
    "kb": 2**10,
    "m": 2**20,
    "mb": 2**20,
    "g": 2**30,
    "gb": 2**30,
}
_PART = re.compile(r"\s*([0-9]+)\s*([a-z]*)\s*")
_HIGHEST = 2**63 - 1


class Ago(NamedTuple):
    """A moment so many milliseconds before the query is planned."""

    ms: int


class Back(NamedTuple):
    """A place so many offsets before the end of a partition, or its beginning if that is nearer."""

    offsets: int


def read_duration(text: str) -> int:
    """Return a duration in milliseconds; a bare number is milliseconds, as in Spark.

    >>> read_duration("15m"), read_duration("1 hour 30 minutes"), read_duration("250")
    (900000, 5400000, 250)
    """
    rest, total = text.strip().lower(), 0
    if rest.isascii() and rest.isdigit():
        return int(rest)
    while True:
        found = _PART.match(rest)
        if found is None or found.group(2) not in _UNITS_MS:
            raise ValueError(f"no duration: {text}")
        total += int(found.group(1)) * _UNITS_MS[found.group(2)]
        rest = rest[found.end() :]
        if not rest:
            return total


def read_ago(text: str) -> Ago:
    """Return `-10 minutes` as a moment before now. A bare `-10` is none: it could be anything."""
    text = text.strip()
    if not text.startswith("-") or text[1:].strip().isdigit():
        raise ValueError(f"no time ago: {text}")
    found = read_duration(text[1:])
    if found > _HIGHEST:
        raise ValueError(f"too long ago: {text}")
    return Ago(found)


def read_moment(text: str) -> int | Ago:
    """Return a moment: milliseconds since 1970, or a time ago."""
    return read_ago(text) if text.strip().startswith("-") else int(text)


def read_back(text: str) -> Back:
    """Return `-100 offsets` as a place before the end."""
    found = re.fullmatch(r"-\s*([0-9]{1,18})\s*(offset|record)s?", text.strip().lower())
    if found is None:
        raise ValueError(f"no place before the end: {text}")
    return Back(int(found.group(1)))


def read_bytes(text: str) -> int:
    """Return a number of bytes; k, m and g are powers of 1024, as in Spark.

    >>> read_bytes("64m")
    67108864
    """
    found = _PART.fullmatch(text.lower())
    if found is None or found.group(2) not in _UNITS_BYTES:
        raise ValueError(f"no number of bytes: {text}")
    return int(found.group(1)) * _UNITS_BYTES[found.group(2)]
