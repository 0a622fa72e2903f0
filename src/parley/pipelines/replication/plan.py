"""What a replication would do to the target's topics, and what cannot be. Pure.

Topics that are missing are created, partitions are added, nothing is ever taken away or changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from parley.client import NewTopic
from parley.errors import ConfigError
from parley.pipelines.replication.options import KEEP

TIMESTAMP_TYPE, APPEND_TIME, CREATE_TIME = "message.timestamp.type", "LogAppendTime", "CreateTime"
MIN_INSYNC, RETENTION, CLEANUP = "min.insync.replicas", "retention.ms", "cleanup.policy"
OLDEST_ALLOWED = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
"""How old a timestamp may be: from Kafka 3.6 on (KIP-937), and up to 3.9."""
OF_ONE_CLUSTER = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.format.version",
        "remote.storage.enable",
    }
)
"""Settings that name brokers, releases or storage of the source."""
MOST_REPLICAS = 3
"""Of a topic that is created without another one as its model."""
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Topic:
    """What is known of a topic: `configs` has what is set for it, `effective` all that holds."""

    name: str
    partitions: int
    replication_factor: int = 1
    configs: Mapping[str, str] | None = None
    effective: Mapping[str, str] = field(default_factory=dict)
    oldest_ms: int | None = None
    """The timestamp of its oldest record, -1 where that has none, None where no record was read."""
    has_headers: bool = False
    """Whether one of the records that were looked at has headers."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of the cluster that is written to.

    `defaults` are those of a topic's settings: without a value where only the name is known, None
    where the brokers do not say any.
    """

    brokers: int
    topics: Mapping[str, Topic]
    defaults: Mapping[str, str | None] | None = None
    creates_topics: bool = True
    adds_partitions: bool = True
    has_headers: bool = True
    has_transactions: bool = True
    has_timestamps: bool = True


class Finding(NamedTuple):
    """Something to know before copying; with `stops` nothing is begun unless it is accepted."""

    topic: str | None
    code: str
    stops: bool
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be changed in the target, and what was found."""

    create: tuple[NewTopic, ...] = ()
    add_partitions: Mapping[str, int] = field(default_factory=dict)
    """Topics that get more partitions, with the number that they then have."""
    findings: tuple[Finding, ...] = ()
    rights: tuple[Finding, ...] = ()
    """What users may do with the topics, and what they need and may not."""

    def stopping(self, accepted: Iterable[str] = ()) -> list[Finding]:
        """Return what stands in the way."""
        accepted = set(accepted)
        found = (*self.findings, *self.rights)
        return [one for one in found if one.stops and one.code not in accepted]


def refuse(plan: Plan, accepted: Iterable[str], what: str) -> None:
    """Raise ConfigError where something stands in the way."""
    if stopping := plan.stopping(accepted):
        lines = [f"{one.topic or 'target'}: {one.text} [{one.code}]" for one in stopping]
        raise ConfigError(
            f"nothing was changed, for this cannot be {what} (or name what you accept): "
            + "; ".join(lines)
        )


def is_compacted(effective: Mapping[str, str]) -> bool:
    """Return whether a topic with these settings keeps the latest record of each key, not all.

    >>> is_compacted({"cleanup.policy": "compact,delete"})
    True
    """
    return "compact" in effective.get(CLEANUP, "")


def not_empty(topic: str, offsets: int) -> list[Finding]:
    """Return what is to be known of a topic of the target with records that were not copied."""
    if not offsets:
        return []
    text = f"the target's topic has {offsets} offsets in use that this replication did not write; "
    return [Finding(topic, "not-empty", False, text + "copies come behind them")]


class Copying(Protocol):
    """What has to be known of the options."""

    @property
    def exactly_once(self) -> bool:
        """Whether records are written in transactions."""

    @property
    def headers(self) -> str:
        """Whether headers are kept."""

    @property
    def timestamp_when_missing(self) -> str | int:
        """What records without a timestamp get."""


def plan(source: Iterable[Topic], target: Target, options: Copying, now_ms: int) -> Plan:
    """Return what copying these topics needs."""
    create, added, findings = [], {}, [*_of_clusters(target, options)]
    names = {_collision(name): name for name in target.topics}
    for topic in source:
        there = target.topics.get(topic.name)
        findings += _of_records(topic, there, target, options)
        if there is not None:
            findings += _of_existing(topic, there, now_ms)
            if there.partitions < topic.partitions:
                added[topic.name] = topic.partitions
                if not target.adds_partitions:
                    text = f"{topic.partitions - there.partitions} partitions are missing, and the "
                    text += "target cannot add any (Kafka 1.0)"
                    findings.append(Finding(topic.name, "add-partitions", True, text))
            continue
        if not target.creates_topics:
            text = "it is missing, and the target cannot create topics (Kafka 0.10.1): create it"
            findings.append(Finding(topic.name, "create-topics", True, text))
        if (other := names.get(_collision(topic.name))) is not None:
            text = f'the target has "{other}", which Kafka takes for the same name in metrics'
            findings.append(Finding(topic.name, "name", True, text))
        new, found = _new(topic, target, now_ms)
        create.append(new)
        findings += found
    return Plan(tuple(create), added, tuple(findings))


def _collision(name: str) -> str:
    return name.replace(".", "_")


def _of_clusters(target: Target, options: Copying) -> Iterable[Finding]:
    if options.exactly_once and not target.has_transactions:
        text = 'the target has no transactions (Kafka 0.11): only delivery="at-least-once" is left'
        yield Finding(None, "exactly-once", True, text)
    if not options.exactly_once:
        text = "at least once: a crash may double the records since the last commit, and nothing "
        yield Finding(None, "at-least-once", False, text + "holds off a second copy of this name")


def _of_records(
    topic: Topic, there: Topic | None, target: Target, options: Copying
) -> Iterable[Finding]:
    if topic.has_headers and not target.has_headers and options.headers == KEEP:
        text = 'records have headers, which the target refuses (Kafka 0.11); headers="drop" cuts '
        yield Finding(topic.name, "headers", True, text + "them off")
    if topic.oldest_ms == -1:
        what = options.timestamp_when_missing
        text = f"records have no timestamps; they get timestamp_when_missing={what}"
        yield Finding(topic.name, "timestamps-missing", False, text)
    if topic.oldest_ms is not None and topic.oldest_ms >= 0 and not target.has_timestamps:
        text = "the target keeps no timestamps (Kafka 0.10)"
        yield Finding(topic.name, "timestamps", False, text)
    if topic.configs is None and there is None:
        text = "the source does not show settings of topics (Kafka 0.11): the target's defaults"
        yield Finding(topic.name, "configs-unknown", False, text + " hold")


def _of_existing(topic: Topic, there: Topic, now_ms: int) -> Iterable[Finding]:
    if there.effective.get(TIMESTAMP_TYPE) == APPEND_TIME:
        text = f"the target's topic has {TIMESTAMP_TYPE}={APPEND_TIME}: it overwrites timestamps; "
        yield Finding(topic.name, "timestamps", True, text + f"set {CREATE_TIME}")
    if there.partitions > topic.partitions:
        text = f"the target has {there.partitions} partitions and the source {topic.partitions}: "
        text += "those above stay empty, and are never taken away"
        yield Finding(topic.name, "more-partitions", False, text)
    for name, value in sorted((topic.configs or {}).items()):
        found = there.effective.get(name)
        if name in OF_ONE_CLUSTER or name == TIMESTAMP_TYPE or found in (None, value):
            continue
        text = f"{name} is {value} in the source and {found} in the target; it stays"
        yield Finding(topic.name, "config-differs", False, text)
    yield from _retention(topic, there.effective, now_ms)


def _new(topic: Topic, target: Target, now_ms: int) -> tuple[NewTopic, list[Finding]]:
    """Return the topic to be created, and what it cannot have."""
    findings = []
    replicas = min(topic.replication_factor, target.brokers)
    if replicas < topic.replication_factor:
        text = f"{replicas} replicas instead of {topic.replication_factor}: the target has so many "
        findings.append(Finding(topic.name, "replicas", False, text + "brokers"))
    configs = {}
    for name, value in sorted((topic.configs or {}).items()):
        if name in OF_ONE_CLUSTER or (target.defaults or {}).get(name) == value:
            continue
        if target.defaults is not None and name not in target.defaults:
            text = f"{name}={value} is left out: the target does not know it"
            findings.append(Finding(topic.name, "config-unknown", False, text))
            continue
        configs[name] = value
    defaults = {name: value for name, value in (target.defaults or {}).items() if value is not None}
    effective = {**defaults, **configs}
    if effective.get(TIMESTAMP_TYPE) == APPEND_TIME:  # it would overwrite what is kept
        configs[TIMESTAMP_TYPE] = CREATE_TIME
        text = f"{TIMESTAMP_TYPE}={APPEND_TIME} becomes {CREATE_TIME}, to keep timestamps; change "
        findings.append(Finding(topic.name, "timestamps", False, text + "it after the cutover"))
    insync = effective.get(MIN_INSYNC, "1")
    if insync.isdigit() and int(insync) > replicas:
        configs[MIN_INSYNC] = str(replicas)
        text = f"{MIN_INSYNC}={insync} becomes {replicas}: the topic has so many replicas"
        findings.append(Finding(topic.name, "min-insync-replicas", False, text))
    findings += _retention(topic, effective, now_ms)
    return NewTopic(topic.name, topic.partitions, replicas, configs), findings


def _retention(topic: Topic, effective: Mapping[str, str], now_ms: int) -> Iterable[Finding]:
    """Say where the target would delete at once what it is given, or refuse it."""
    found, oldest = effective.get(RETENTION, ""), topic.oldest_ms
    policy = effective.get(CLEANUP, "delete")
    if oldest is None or oldest < 0:
        return
    age_ms = now_ms - oldest
    for name in OLDEST_ALLOWED:
        limit = effective.get(name, "")
        if limit.isdigit() and age_ms > int(limit):
            text = f"the oldest record is {age_ms // _DAY_MS} days old, and the target refuses "
            text += f"timestamps that are older than {name}={limit}"
            yield Finding(topic.name, "timestamps-too-old", True, text)
    if found.isdigit() and "delete" in policy and age_ms > int(found):
        text = f"the oldest record is {age_ms // _DAY_MS} days old, and the target deletes what is "
        text += f"older than {RETENTION}={found}"
        yield Finding(topic.name, "retention", False, text)
