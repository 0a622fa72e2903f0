"""Which keys the tables of a pipeline's file have, and how their values are written. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from parley.errors import ConfigError
from parley.pipelines.checks import size

COPY, REPLAY, VERIFY = "copy", "replay", "verify"
KINDS = (COPY, REPLAY, VERIFY)
_EPOCH = datetime.fromtimestamp(0, UTC)


def as_it_is(value: object) -> object:
    """Return the value: whoever takes it checks it."""
    return value


def moment(value: object) -> int:
    """Return milliseconds since 1970 of a date or time, UTC unless it has a zone.

    >>> moment(date(1970, 1, 2)), moment("1970-01-01T01:00:00+01:00")
    (86400000, 0)
    """
    found = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            found = None
    elif isinstance(value, date) and not isinstance(value, datetime):
        found = datetime(value.year, value.month, value.day)
    if isinstance(found, datetime):
        found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        ms = (found - _EPOCH) // timedelta(milliseconds=1)
        if ms >= 0:
            return ms
    raise ConfigError(f'"{value}" is no date and time from 1970 on: give 2026-01-31T23:59:59')


class Key(NamedTuple):
    """The option that a key sets, and what makes its value of what is written."""

    option: str
    read: Callable[[object], object] = as_it_is


Keys = Mapping[str, Key]


def _same(*names: str) -> dict[str, Key]:
    return {name: Key(name.replace("-", "_")) for name in names}


_WRITING = _same(
    "delivery",
    "headers",
    "timestamp-when-missing",
    "accept",
    "commit-interval-ms",
    "transaction-timeout-ms",
    "patience-ms",
) | {"buffer": Key("buffer_bytes", lambda value: int(size(value)))}
PIPELINE = ("name", "state")
FLOW = ("kind", "auto", "from", "to")
FLOW_KEYS: dict[str, Keys] = {
    COPY: _WRITING
    | _same(
        "start", "two-way", "source-id", "target-id", "on-data-loss", "readers",
        "refresh-interval-ms", "groups-interval-ms", "trim-interval-ms",
    ),
    REPLAY: _WRITING
    | _same("speed", "dead-letters", "max-attempts", "late-ms")
    | {"rate": Key("bytes_per_second", size)},
    VERIFY: _same(
        "ignore-timestamps", "latest-per-key", "ignore-tombstones", "from-later-beginning",
        "isolation-level",
    ),
}  # fmt: skip
"""Of each kind, beside `FLOW` and the tables of its two sides."""
SIDE_KEYS: dict[tuple[str, str], Keys] = {
    (COPY, "from"): {"topics": Key("topics")},
    (COPY, "to"): _same("groups", "all-groups"),
    (REPLAY, "from"): {
        "topic": Key("topic"),
        "since": Key("from_timestamp_ms", moment),
        "until": Key("until_timestamp_ms", moment),
    },
    (REPLAY, "to"): {"topic": Key("to")} | _same("partition-by", "partitions", "into-live"),
    (VERIFY, "from"): {"topics": Key("topics")},
    (VERIFY, "to"): {"topics": Key("other"), "flow": Key("flow")},
}
"""Of the tables `from` and `to`, beside `cluster`."""
