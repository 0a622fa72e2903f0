"""What a release makes of the settings of a topic: which it knows, which values it takes
[measured], and how far off records may be dated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from parley.devcluster.release.configs import TOPIC, Config, Configs, configs_of
from parley.devcluster.state.log.appending import NO_BOUND
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.topics import TopicSettings
from parley.errors.codes import INVALID_CONFIG
from parley.versions.releases import Release, release_number, releases

Takes = Callable[[str], bool]
"""Whether a value, or an entry of a list, of the right type is taken."""
REMOTE = ("remote.storage.enable", "local.retention.ms", "local.retention.bytes")
"""Taken since 3.0, and described only since 3.6."""


def _among(*values: str) -> Takes:
    return lambda value: value in values


def _within(least: float, most: float = float("inf")) -> Takes:
    return lambda value: least <= float(value) <= most


def _matches(pattern: str) -> Takes:
    return lambda value: re.fullmatch(pattern, value) is not None


REPLICAS = _matches(r"[0-9]+:[0-9]+|\*")
VALUES: tuple[tuple[str, str, Takes], ...] = (
    ("0.9", "cleanup.policy", _among("delete", "compact")),
    ("0.9", "compression.gzip.level", _among("-1", *map(str, range(1, 10)))),
    ("0.9", "compression.lz4.level", _within(1, 17)),
    ("0.9", "compression.type",
     _among("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    ("0.9", "compression.zstd.level", _within(-131_072, 22)),
    ("0.9", "delete.retention.ms", _within(0)),
    ("0.9", "file.delete.delay.ms", _within(0)),
    ("0.9", "flush.messages", _within(0)),
    ("3.3", "flush.messages", _within(1)),
    ("0.9", "flush.ms", _within(0)),
    ("0.9", "follower.replication.throttled.replicas", REPLICAS),
    ("0.9", "index.interval.bytes", _within(0)),
    ("0.9", "leader.replication.throttled.replicas", REPLICAS),
    ("0.9", "local.retention.bytes", _within(-2)),
    ("0.9", "local.retention.ms", _within(-2)),
    ("0.9", "max.compaction.lag.ms", _within(1)),
    ("0.9", "max.message.bytes", _within(0)),
    ("2.1", "message.format.version", _matches(r"\d+\.\d+(\.\d+)?(-IV\d+)?")),
    ("0.9", "message.timestamp.after.max.ms", _within(0)),
    ("0.9", "message.timestamp.before.max.ms", _within(0)),
    ("0.9", "message.timestamp.difference.max.ms", _within(0)),
    ("0.9", "message.timestamp.type", _among("CreateTime", "LogAppendTime")),
    ("0.9", "min.cleanable.dirty.ratio", _within(0, 1)),
    ("0.9", "min.compaction.lag.ms", _within(0)),
    ("0.9", "min.insync.replicas", _within(1)),
    ("3.6", "remote.storage.enable", _among("false")),  # the brokers have no remote storage
    ("2.2", "retention.ms", _within(-1)),
    ("0.9", "segment.bytes", _within(14)),
    ("4.1", "segment.bytes", _within(1 << 20)),
    ("0.9", "segment.index.bytes", _within(0)),
    ("3.3", "segment.index.bytes", _within(4)),
    ("0.9", "segment.jitter.ms", _within(0)),
    ("0.9", "segment.ms", _within(0)),
    ("2.0", "segment.ms", _within(1)),
)  # fmt: skip
"""Which values are taken, from which release on; of a setting the last row that has come."""


def check_topic_configs(release: Release, configs: Mapping[str, str], value_code: int) -> None:
    """Raise Refused when the release has no such setting of topics (INVALID_CONFIG), or not with
    that value (`value_code`).
    """
    known = _known(release)
    for name in configs:
        if name not in known:
            raise Refused(INVALID_CONFIG, f"Unknown topic config name: {name}")
    for name, value in configs.items():
        if not _takes(release, known[name], value):
            raise Refused(value_code, f"Invalid value {value} for configuration {name}")
    least, most = configs.get("min.compaction.lag.ms"), configs.get("max.compaction.lag.ms")
    if least is not None and most is not None and int(least) > int(most):
        raise Refused(
            INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})",
        )


def _known(release: Release) -> Configs:
    described = configs_of(release, TOPIC)
    if not release_number("3.0") <= release.number < release_number("3.6"):
        return described
    later = configs_of(releases()["3.6.2"], TOPIC)
    return {**described, **{name: later[name] for name in REMOTE}}


def _takes(release: Release, config: Config, value: str) -> bool:
    if not config.accepts(value):
        return False
    takes = _values(release.number).get(config.name)
    if takes is None:
        return True
    text = value.strip().lower() if config.type == "boolean" else value.strip()
    if config.type == "list":
        return all(takes(entry.strip()) for entry in text.split(",")) if text else True
    return takes(text) and (config.name != "message.format.version" or _is_past(release, text))


def _is_past(release: Release, version: str) -> bool:
    number = tuple(int(part) for part in version.partition("-")[0].split("."))
    return number <= release.number[: len(number)]


@cache
def _values(number: tuple[int, ...]) -> Mapping[str, Takes]:
    return {name: takes for since, name, takes in VALUES if number >= release_number(since)}


def timestamp_bounds(
    release: Release, settings: TopicSettings, *, own_time: bool = False
) -> tuple[int, int]:
    """Return how many milliseconds before and after the leader's time a record's may be.

    Where a release has the older setting for both, it holds where the newer one is not set. Where
    the cluster has a time of its own (`start_time_ms`) only what is set holds: clients have not.

    >>> from parley.versions import release
    >>> timestamp_bounds(release("4.3"), TopicSettings())[1]
    3600000
    """
    known = configs_of(release, TOPIC)

    def bound(which: str, set_ms: int | None) -> int:
        config = known.get(f"message.timestamp.{which}.max.ms")
        if config is None or (own_time and set_ms is None):
            return NO_BOUND
        return int(config.default or NO_BOUND) if set_ms is None else set_ms

    difference = bound("difference", settings.timestamp_difference_max_ms)
    before = bound("before", settings.timestamp_before_max_ms)
    after = bound("after", settings.timestamp_after_max_ms)
    return (
        difference if before == NO_BOUND else before,
        difference if after == NO_BOUND else after,
    )
