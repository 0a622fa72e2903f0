"""Options of `parley cluster start` that become a cluster's settings:
server.properties names, racks, broker ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from parley.devcluster import ClusterSettings, TopicSettings
from parley.errors import ConfigError, nearest_hint

SETTINGS = {
    "auto.create.topics.enable": "auto_create_topics",
    "broker.session.timeout.ms": "broker_session_timeout_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "default.replication.factor": "default_replication_factor",
    "log.cleaner.backoff.ms": "log_cleaner_backoff_ms",
    "log.retention.check.interval.ms": "log_retention_check_interval_ms",
    "max.incremental.fetch.session.cache.slots": "max_incremental_fetch_session_cache_slots",
    "num.partitions": "num_partitions",
    "offsets.retention.check.interval.ms": "offsets_retention_check_interval_ms",
    "offsets.retention.minutes": "offsets_retention_minutes",
    "offsets.topic.num.partitions": "offsets_topic_num_partitions",
    "offsets.topic.replication.factor": "offsets_topic_replication_factor",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
    "transaction.max.timeout.ms": "transaction_max_timeout_ms",
    "transactional.id.expiration.ms": "transactional_id_expiration_ms",
}
"""Kafka's name in server.properties -> the field of ClusterSettings."""
TOPIC_SETTINGS = {
    "log.message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "log.message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "log.message.timestamp.difference.max.ms": "timestamp_difference_max_ms",
    "log.message.timestamp.type": "log_append_time",
    "log.segment.bytes": "segment_bytes",
    "message.max.bytes": "max_message_bytes",
    "min.insync.replicas": "min_insync_replicas",
    "unclean.leader.election.enable": "unclean_leader_election",
}
"""Kafka's name in server.properties -> the field of TopicSettings: what topics inherit."""
_BOOLEANS = {"true": True, "false": False}
_TIMESTAMP_TYPES = {"createtime": False, "logappendtime": True}


def cluster_settings(host: str, overrides: Sequence[str], racks: Sequence[str]) -> ClusterSettings:
    """Return the settings that `--override NAME=VALUE` and `--rack ID=RACK` ask for.

    Raises ConfigError for an unknown name, which names the nearest, and for a value that cannot be.

    >>> cluster_settings("127.0.0.1", ["num.partitions=3"], ["1=a"]).num_partitions
    3
    """
    found: dict[str, Any] = {}
    topics: dict[str, Any] = {}
    for entry in overrides:
        name, equals, value = entry.partition("=")
        if not equals:
            raise ConfigError(
                f'--override {entry}: expected NAME=VALUE, as in "--override num.partitions=3"'
            )
        if name in TOPIC_SETTINGS:
            topics[TOPIC_SETTINGS[name]] = _value(entry, name, value)
        elif name in SETTINGS:
            found[SETTINGS[name]] = _value(entry, name, value)
        else:
            known = [*SETTINGS, *TOPIC_SETTINGS]
            raise ConfigError(
                f"--override {entry}: the embedded cluster has no setting {name}."
                f"{nearest_hint(name, known)} It has {', '.join(sorted(known))}; topics take "
                "theirs when they are made"
            )
    return ClusterSettings(
        host=host,
        racks=parse_racks(racks),
        topic_defaults=replace(TopicSettings(), **topics),
        **found,
    )


def parse_racks(entries: Sequence[str]) -> dict[int, str]:
    """Return racks by broker id. Raises ConfigError for what is not ID=RACK."""
    found: dict[int, str] = {}
    for entry in entries:
        number, _, rack = entry.partition("=")
        if not number.isdecimal() or not rack or int(number) in found:
            raise ConfigError(
                f'--rack {entry}: expected ID=RACK once for each broker, as in "--rack 1=eu-1a"'
            )
        found[int(number)] = rack
    return found


def parse_broker_ids(text: str) -> list[int]:
    """Return ids from a list with commas. Raises ConfigError for anything else.

    >>> parse_broker_ids("101,102")
    [101, 102]
    """
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ConfigError(
            f'--broker-ids {text}: expected whole numbers with commas, as in "--broker-ids '
            '101,102,103"'
        )
    return [int(part) for part in parts]


def _value(entry: str, name: str, value: str) -> int | bool:
    named = {
        "auto.create.topics.enable": _BOOLEANS,
        "log.message.timestamp.type": _TIMESTAMP_TYPES,
        "unclean.leader.election.enable": _BOOLEANS,
    }.get(name)
    if named is not None:
        if value.lower() not in named:
            raise ConfigError(f"--override {entry}: the value is one of {', '.join(named)}")
        return named[value.lower()]
    if not value.isdecimal() or int(value) < 1:
        raise ConfigError(f"--override {entry}: the value is a whole number from 1 on")
    return int(value)
