"""Which keys the tables of a pipeline's file have, and how their values are written. Pure, but for
what references to secrets point to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from parley.errors import ConfigError
from parley.pipelines.checks import size
from parley.pipelines.declared.secrets import handed_on

COPY, REPLAY, VERIFY = "copy", "replay", "verify"
INGEST, SQL = "ingest", "sql"
KINDS = (COPY, INGEST, SQL, REPLAY, VERIFY)
QUERIES = (INGEST, SQL)
"""Kinds that are Spark's streaming queries."""
TABLES = ("delta", "iceberg")
"""Keys that name a table of a lake."""
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
    """The option that a key sets, what makes its value of what is written, and, where that is a
    table, its keys; `is_table` says that nothing else may stand there.
    """

    option: str
    read: Callable[[object], object] = as_it_is
    table: Mapping[str, Key] | None = None
    is_table: bool = True


Keys = Mapping[str, Key]


def _same(*names: str, read: Callable[[object], object] = as_it_is) -> dict[str, Key]:
    return {name: Key(name.replace("-", "_"), read) for name in names}


def one_text(value: object) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{value!r} cannot be used: one text is expected")
    return value


def names_in_text(value: object) -> str:
    """Return a text, or the names of a list with commas."""
    return ",".join(map(one_text, value)) if isinstance(value, list) else one_text(value)


def query_text(value: object) -> str:
    """Return a whole query."""
    if isinstance(value, list):
        raise ConfigError("sql is one query: give a text, which may have several lines")
    return sql_text(value)


def sql_text(value: object) -> str:
    """Return a text of SQL, or those of a list with commas."""
    return ", ".join(_sql_texts(value))


def condition(value: object) -> str:
    """Return a condition, or that all of a list hold.

    >>> condition(["a > 1", "b > 2 or c"])
    '(a > 1) and (b > 2 or c)'
    """
    texts = _sql_texts(value)
    return texts[0] if len(texts) == 1 else " and ".join(f"({one})" for one in texts)


def _sql_texts(value: object) -> list[str]:
    given = value if isinstance(value, list) else [value]
    texts = [one for one in given if isinstance(one, str) and one.strip()]
    if not texts or len(texts) < len(given):
        raise ConfigError(f"{value!r} is no SQL: give a text, or a list of texts")
    return texts


_WRITING = _same(
    "delivery",
    "headers",
    "timestamp-when-missing",
    "accept",
    "commit-interval-ms",
    "transaction-timeout-ms",
    "patience-ms",
) | {"buffer": Key("buffer_bytes", lambda value: int(size(value)))}
_SCHEMAS = _same(
    "format", "registry", "schema", "subject", "message", "framing", read=one_text
)  # fmt: skip
_DECODED = _SCHEMAS | {"columns": Key("columns", names_in_text)}
_ENCODED = _SCHEMAS | _same("register")
_QUERY = _same("trigger", "output-mode") | {
    "transform": Key("transform", one_text),
    "watermark": Key("watermark", table=_same("column", "delay")),
    "errors": Key(
        "errors", table=_same("mode", "max-per-task") | {"topic": Key("topic", one_text)}
    ),
}
_READING = {
    "topics": Key("topics"),
    "value": Key("from_value", table=_DECODED),
    "key": Key("from_key", table=_DECODED),
} | _same(
    "start", "headers", "on-data-loss", "max-offsets-per-trigger", "max-bytes-per-trigger",
    "min-partitions", "isolation-level", "envelope",
)  # fmt: skip
_TO_TOPIC = {
    "topic": Key("topic", one_text),
    "key": Key("to_key", sql_text),
    "value": Key("to_value", table=_ENCODED),
} | _same("delivery", "partitions")
_TABLE = _same(*TABLES, read=one_text) | {
    "catalog": Key("catalog", handed_on),
    "storage": Key("storage", handed_on),
}
_TO_TABLE = (
    _TABLE
    | _same("evolve", "compact-every", "target-file-size")
    | {"partition-by": Key("partition_by", names_in_text)}
)
PIPELINE = ("name", "state")
FLOW = ("kind", "auto", "from", "to", "test")
TEST: Keys = {"given": Key("given"), "expect": Key("expect"), "schemas": Key("schemas")}
"""Of a flow's table `test`."""
FLOW_KEYS: dict[str, Keys] = {
    COPY: _WRITING
    | _same(
        "start", "two-way", "source-id", "target-id", "on-data-loss", "readers",
        "refresh-interval-ms", "groups-interval-ms", "trim-interval-ms",
    ),
    REPLAY: _WRITING
    | _same("speed", "dead-letters", "max-attempts", "late-ms", "order")
    | {"rate": Key("bytes_per_second", size)},
    INGEST: _QUERY | {"select": Key("select", sql_text), "where": Key("where", condition)},
    SQL: _QUERY | {"sql": Key("sql", query_text)},
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
    }
    | _TABLE
    | _same("version")
    | {"where": Key("where", condition)},
    (REPLAY, "to"): {
        "topic": Key("to"),
        "value": Key("to_value", table=_ENCODED | _same("columns")),
        "key": Key("to_key", table=_ENCODED | _same("column", "columns"), is_table=False),
    }
    | _same("partition-by", "partitions", "into-live", "timestamp"),
    (INGEST, "from"): _READING,
    (INGEST, "to"): _TO_TOPIC | _TO_TABLE,
    (SQL, "from"): _READING,
    (SQL, "to"): _TO_TOPIC | _TO_TABLE,
    (VERIFY, "from"): {"topics": Key("topics")},
    (VERIFY, "to"): {"topics": Key("other"), "flow": Key("flow", one_text)},
}
"""Of the tables `from` and `to`, beside `cluster`."""
