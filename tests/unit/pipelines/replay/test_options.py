"""Options of a replay that cannot be used are named before anything is asked."""

from __future__ import annotations

from typing import Any

import pytest

from parley.errors import ConfigError
from parley.pipelines.replay import ReplayedTable, ReplayOptions


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"name": "a b"}, "name="),
        ({"topic": ""}, "topic"),
        ({"topic": None}, "one of topic and table"),
        ({"table": ReplayedTable(delta="t")}, "one of topic and table"),
        ({"to": "n-offsets"}, "n-offsets"),
        ({"to": None}, "give the target's topic"),
        ({"dead_letters": True}, "to='u'"),
        ({"to": None, "dead_letters": True, "headers": "drop"}, "how often"),
        ({"to": None, "dead_letters": True, "max_attempts": 0}, "max_attempts"),
        ({"partition_by": "hash"}, "source, key"),
        ({"partitions": 3}, "partition_by"),
        ({"partition_by": "key", "partitions": 0}, "partitions=0"),
        ({"bytes_per_second": 0}, "bytes_per_second"),
        ({"bytes_per_second": True}, "bytes_per_second"),
        ({"speed": float("nan")}, "speed"),
        ({"speed": "10x"}, "speed"),
        ({"from_timestamp_ms": -1}, "from_timestamp_ms"),
        ({"from_timestamp_ms": 5, "until_timestamp_ms": 5}, "not before"),
        ({"late_ms": -1}, "late_ms"),
        ({"headers": "some"}, "keep, drop"),
        ({"delivery": "maybe"}, "exactly-once, at-least-once"),
        ({"timestamp_when_missing": "never"}, "append, zero"),
        ({"commit_interval_ms": 60_000}, "transaction_timeout_ms"),
        ({"buffer_bytes": 0}, "buffer_bytes"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ReplayOptions(**{"name": "n", "topic": "t", "to": "u", **given})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"delta": None}, "one of delta and iceberg"),
        ({"iceberg": "a.b"}, "one of delta and iceberg"),
        ({"delta": " "}, "delta="),
        ({"catalog": "main"}, "catalog goes with iceberg"),
        ({"where": ""}, "where="),
        ({"order": "time"}, "order"),
        ({"version": -1}, "version=-1"),
        ({"columns": ("a",)}, "columns goes with value_format"),
        ({"register_schemas": True}, "register_schemas goes with value_format"),
        ({"value_format": "xml"}, "value_format='xml'"),
        ({"key": "a", "key_columns": ("b",), "key_format": "avro"}, "one of key and key_columns"),
        ({"key_columns": ("b",)}, "key_columns goes with key_format"),
        ({"key_format": "avro", "key_framing": "confluent-prefix"}, "key_framing=.*give registry"),
        ({"key_subject": "s", "value_format": "json"}, "key_subject goes with key_format"),
        ({"value_format": "avro", "value_framing": "confluent-prefix"}, "give registry"),
    ],
)
def test_a_table_that_cannot_be_is_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ReplayedTable(**{"delta": "t", **given})


@pytest.mark.parametrize(
    "given",
    [{"from_timestamp_ms": 5}, {"until_timestamp_ms": 5}, {"dead_letters": True, "to": None}],
)
def test_what_is_for_topics_is_refused_for_tables(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is for topics"):
        ReplayOptions(**{"name": "n", "table": ReplayedTable(delta="t"), "to": "u", **given})


def test_partitions_of_a_table_are_by_key_and_nothing_shows_its_secrets() -> None:
    table = ReplayedTable(delta="t", settings={"secret": "hunter2"})
    options = ReplayOptions(name="n", table=table, to="u")
    assert options.partition_by == "key"
    assert "hunter2" not in repr(options)
