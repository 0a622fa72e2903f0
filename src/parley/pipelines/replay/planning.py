"""What a replay would do to the target, and what cannot be."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from parley.client import AsyncClient, ClusterMetadata, TopicPartition
from parley.pipelines.replay.options import SOURCE_PARTITION, ReplayOptions
from parley.pipelines.replication.plan import Finding, Plan, Topic, plan
from parley.pipelines.replication.topics import describe_target, describe_topics, offsets_in_use
from parley.pipelines.rights import READING, WRITING, rights_of, rights_on
from parley.versions import Feature


@dataclass(frozen=True, slots=True)
class ReplayPlan(Plan):
    """What would be changed in the target, what was found, and which offsets are read."""

    ranges: Mapping[TopicPartition, tuple[int, int]] | None = None
    """First and last offset, not included, of each partition."""


async def plan_replay(
    source: AsyncClient,
    target: AsyncClient,
    metadata: tuple[ClusterMetadata, ClusterMetadata],
    options: ReplayOptions,
    topic: str,
    *,
    has_begun: bool,
) -> Plan:
    """Return what a replay needs in the target. Changes nothing."""
    to = options.to
    reads = {topic: READING}
    if to is None:
        found = await _plan_return(target, options)
        return replace(found, rights=await rights_of(source, reads))
    (known,) = await describe_topics(source, metadata[0], [topic], sample=True)
    wanted = replace(known, name=to)
    if options.partition_by != SOURCE_PARTITION:
        held = metadata[1].topics.get(to)
        count = len(held.partitions) if held is not None else options.partitions
        wanted = replace(wanted, partitions=count or known.partitions)
    found = await plan_target(target, metadata[1], options, wanted, has_begun=has_begun)
    findings = (*found.findings, *_of_times(topic, known.oldest_ms, options))
    rights = (*await rights_of(source, reads), *found.rights)
    return replace(found, findings=findings, rights=rights)


async def plan_target(
    target: AsyncClient,
    there: ClusterMetadata,
    options: ReplayOptions,
    wanted: Topic,
    *,
    has_begun: bool,
) -> Plan:
    """Return what a topic needs in the target. Changes nothing."""
    to = wanted.name
    held = await describe_target(target, there, [to], f"{options.name}-plan")
    found = plan([wanted], held, options, time.time_ns() // 1_000_000)
    findings = list(found.findings)
    if to in there.topics and not has_begun and not options.into_live:
        findings += await _of_rows(target, there, to)
    rights = await rights_on("target", target, {to: WRITING}) if to in there.topics else ()
    return replace(found, findings=tuple(findings), rights=rights)


async def _plan_return(target: AsyncClient, options: ReplayOptions) -> Plan:
    """Return what is in the way of dead letters: where they go is only known when they are read."""
    if options.exactly_once and not await target.supports(Feature.IDEMPOTENT_PRODUCER):
        text = 'the target has no transactions (Kafka 0.11): only delivery="at-least-once" is left'
        return Plan(findings=(Finding(None, "exactly-once", True, text),))
    return Plan()


def _of_times(topic: str, oldest_ms: int | None, options: ReplayOptions) -> Iterable[Finding]:
    if oldest_ms == -1 and options.needs_times:
        text = "records have no timestamps (Kafka 0.9): times and speed cannot be used"
        yield Finding(topic, "times", True, text)


async def _of_rows(target: AsyncClient, there: ClusterMetadata, to: str) -> list[Finding]:
    held = await offsets_in_use(target, there, to)
    if not held:
        return []
    text = f"the target's topic has {held} offsets in use, and would have the replayed records "
    return [Finding(to, "not-empty", True, text + "between others; into_live writes there")]
