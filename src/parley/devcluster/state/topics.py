"""Topic names, the placing of replicas, and the topic settings that the broker heeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC_EXCEPTION,
    POLICY_VIOLATION,
)
from parley.types import name_refused

MOST_PARTITIONS = 10_000  # of one topic in one request (KRaft's MAX_PARTITIONS_PER_BATCH)


def check_topic_name(name: str) -> None:
    """Raise Refused (INVALID_TOPIC_EXCEPTION) unless Kafka accepts `name` for a topic."""
    if reason := name_refused(name):
        raise Refused(INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_collisions(name: str, others: Iterable[str]) -> None:
    """Raise Refused (INVALID_TOPIC_EXCEPTION) where another topic has the same name in metrics,
    which write periods as underscores.
    """
    if "." not in name and "_" not in name:
        return
    wanted = name.replace(".", "_")
    for other in others:
        if other.replace(".", "_") == wanted:
            raise Refused(
                INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )


def spread(
    brokers: Sequence[int], partitions: int, replication_factor: int, start: int
) -> list[list[int]]:
    """Return the brokers of each partition's replicas, the first of each leading, shifted in turn.

    Raises Refused (INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR).

    >>> spread([1, 2, 3], 3, 2, 0)
    [[1, 2], [2, 3], [3, 1]]
    """
    if partitions <= 0:
        raise Refused(INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if partitions > MOST_PARTITIONS:
        raise Refused(POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if replication_factor <= 0:
        raise Refused(INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise Refused(
            INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
        )
    count = len(brokers)
    return [
        [brokers[(start + p + r) % count] for r in range(replication_factor)]
        for p in range(partitions)
    ]


def _number(name: str, text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise Refused(
            INVALID_CONFIG,
            f"Invalid value {text} for configuration {name}: a number from {least} up",
        )
    return number


UNCLEAN: Final = "unclean.leader.election.enable"
DIFFERENCE: Final = "message.timestamp.difference.max.ms"
BEFORE: Final = "message.timestamp.before.max.ms"
AFTER: Final = "message.timestamp.after.max.ms"


def _bound(configs: Mapping[str, str], name: str, default: int | None) -> int | None:
    return _number(name, configs[name], 0) if name in configs else default


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic that change what its leader does; Kafka's defaults.

    Other settings that Kafka knows are stored and shown, and have no effect here.
    """

    min_insync_replicas: int = 1
    max_message_bytes: int = 1048588  # 1 MiB and 12 bytes of record overhead, since 0.11
    segment_bytes: int = 1 << 30
    log_append_time: bool = False
    compacted: bool = False  # every record needs a key
    # how far from the leader's time a record's may be; None: the default of the leader's release
    timestamp_difference_max_ms: int | None = None
    timestamp_before_max_ms: int | None = None
    timestamp_after_max_ms: int | None = None
    unclean_leader_election: bool = False

    @classmethod
    def of(cls, configs: Mapping[str, str], default: TopicSettings | None = None) -> TopicSettings:
        """Return a topic's settings: configs over the cluster's, or Refused (INVALID_CONFIG)."""
        for name in configs:
            if name not in TOPIC_CONFIGS:
                raise Refused(INVALID_CONFIG, f"Unknown topic config name: {name}")
        _number("retention.ms", configs.get("retention.ms", "-1"), -1)
        _number("retention.bytes", configs.get("retention.bytes", "-1"), -(2**63))
        default = default or cls()
        stamp = configs.get(
            "message.timestamp.type", "LogAppendTime" if default.log_append_time else "CreateTime"
        ).strip()
        if stamp not in ("CreateTime", "LogAppendTime"):
            raise Refused(
                INVALID_CONFIG, f"Invalid value {stamp} for configuration message.timestamp.type"
            )
        return cls(
            _number(
                "min.insync.replicas",
                configs.get("min.insync.replicas", str(default.min_insync_replicas)),
                1,
            ),
            _number(
                "max.message.bytes",
                configs.get("max.message.bytes", str(default.max_message_bytes)),
                0,
            ),
            _number("segment.bytes", configs.get("segment.bytes", str(default.segment_bytes)), 14),
            stamp == "LogAppendTime",
            "compact" in configs["cleanup.policy"]
            if "cleanup.policy" in configs
            else default.compacted,
            _bound(configs, DIFFERENCE, default.timestamp_difference_max_ms),
            _bound(configs, BEFORE, default.timestamp_before_max_ms),
            _bound(configs, AFTER, default.timestamp_after_max_ms),
            configs[UNCLEAN].strip().lower() == "true"
            if UNCLEAN in configs
            else default.unclean_leader_election,
        )

    def as_configs(self) -> dict[str, str]:
        """Return the settings by their names."""
        bounds = {
            DIFFERENCE: self.timestamp_difference_max_ms,
            BEFORE: self.timestamp_before_max_ms,
            AFTER: self.timestamp_after_max_ms,
        }
        return {
            "min.insync.replicas": str(self.min_insync_replicas),
            "max.message.bytes": str(self.max_message_bytes),
            "segment.bytes": str(self.segment_bytes),
            "cleanup.policy": "compact" if self.compacted else "delete",
            "message.timestamp.type": "LogAppendTime" if self.log_append_time else "CreateTime",
            UNCLEAN: str(self.unclean_leader_election).lower(),
            **{name: str(bound) for name, bound in bounds.items() if bound is not None},
        }


INHERITED: Final = {
    "min.insync.replicas": "min.insync.replicas",
    "max.message.bytes": "message.max.bytes",
    "segment.bytes": "log.segment.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    DIFFERENCE: "log.message.timestamp.difference.max.ms",
    BEFORE: "log.message.timestamp.before.max.ms",
    AFTER: "log.message.timestamp.after.max.ms",
    UNCLEAN: UNCLEAN,
    "cleanup.policy": "log.cleanup.policy",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "segment.ms": "log.roll.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
}
"""The broker's setting that each heeded setting of a topic falls back to."""


def inherited(of_broker: Mapping[str, str]) -> dict[str, str]:
    """Return what brokers' settings mean for topics: those heeded, by the topic's names."""
    return {name: of_broker[source] for name, source in INHERITED.items() if source in of_broker}


TOPIC_CONFIGS = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)
"""Every topic setting that a release up to 4.3.0 knows."""
