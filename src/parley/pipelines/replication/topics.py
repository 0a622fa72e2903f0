"""Asking both clusters about topics, and creating what a plan names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing

import pyarrow.compute as pc

from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    ClusterMetadata,
    FetchOptions,
    TopicPartition,
    record_shape,
)
from parley.errors import KafkaError, UnsupportedVersionError, broker_error
from parley.errors.codes import INVALID_PARTITIONS, NOT_CONTROLLER
from parley.messages import CreatePartitionsRequest, CreateTopicsRequest, DescribeConfigsRequest
from parley.pipelines.replication.plan import Plan, Target, Topic
from parley.versions import Feature, VersionRange

TOPIC_RESOURCE = 2
SET_FOR_TOPIC, DEFAULT = 1, 5
"""Sources of a setting in DescribeConfigs v1+ and CreateTopics v5+."""
NAMES_DEFAULTS = VersionRange(5, 2**15 - 1)
"""Versions of CreateTopics that say which settings a topic would have (KIP-525)."""
SAMPLED_PARTITIONS, SAMPLE_BYTES = 4, 64 * 1024
ATTEMPTS, PAUSE_S = 50, 0.1
TIMEOUT_MS = 30_000


async def describe_topics(
    client: AsyncClient, metadata: ClusterMetadata, names: Iterable[str], *, sample: bool = False
) -> list[Topic]:
    """Return what a cluster says of some topics; with `sample` of their oldest records, too."""
    names = list(names)
    settings = await _settings(client, names)
    found = []
    for name in names:
        partitions = metadata.topics[name].partitions
        replicas = max((len(one.replicas) for one in partitions.values()), default=1)
        chosen, effective = settings.get(name, (None, {}))
        oldest_ms, headers = None, False
        if sample:
            oldest_ms, headers = await _sample(client, name, sorted(partitions))
        found.append(Topic(name, len(partitions), replicas, chosen, effective, oldest_ms, headers))
    return found


async def describe_target(
    client: AsyncClient, metadata: ClusterMetadata, names: Iterable[str], probe: str
) -> Target:
    """Return what the target says of itself and some topics. `probe` names a topic that it does
    not have, and does not get.
    """
    there = [name for name in names if name in metadata.topics]
    topics = {one.name: one for one in await describe_topics(client, metadata, there)}
    others = {
        name: Topic(name, len(found.partitions))
        for name, found in metadata.topics.items()
        if not found.is_internal
    }
    return Target(
        brokers=len(metadata.brokers),
        topics={**others, **topics},
        defaults=await _defaults(client, metadata, probe),
        creates_topics=await client.supports(Feature.CREATE_TOPICS),
        adds_partitions=await client.supports(Feature.CREATE_PARTITIONS),
        has_headers=await client.supports(Feature.RECORD_HEADERS),
        has_transactions=await client.supports(Feature.IDEMPOTENT_PRODUCER),
        has_timestamps=await client.supports(Feature.RECORD_TIMESTAMPS),
    )


async def offsets_in_use(client: AsyncClient, metadata: ClusterMetadata, topic: str) -> int:
    """Return how many offsets a topic has between its beginnings and ends."""
    wanted = [TopicPartition(topic, index) for index in metadata.topics[topic].partitions]
    begins = await client.list_offsets(dict.fromkeys(wanted, EARLIEST))
    ends = await client.list_offsets(dict.fromkeys(wanted, LATEST))
    return sum(ends[tp].offset - begins[tp].offset for tp in wanted)


async def carry_out(client: AsyncClient, plan: Plan) -> None:
    """Create the topics and partitions of a plan. They can be used on return."""
    if plan.create:
        await client.create_topics(plan.create)
    if plan.add_partitions:
        await _add_partitions(client, plan.add_partitions)


async def _add_partitions(client: AsyncClient, counts: Mapping[str, int]) -> None:
    make = CreatePartitionsRequest.CreatePartitionsTopic
    message = CreatePartitionsRequest(
        topics=[make(name=name, count=count, assignments=None) for name, count in counts.items()],
        timeout_ms=TIMEOUT_MS,
        validate_only=False,
    )
    for attempt in range(ATTEMPTS):
        metadata = await client.metadata(list(counts))
        missing = [name for name, count in counts.items() if not _has(metadata, name, count)]
        if not missing:
            return
        controller = metadata.controller_id if metadata.controller_id >= 0 else None
        reply = await client.request(controller, message, feature=Feature.CREATE_PARTITIONS)
        for found in reply.results:
            # what was asked for already may be known to the controller alone for a moment
            if found.error_code not in (0, NOT_CONTROLLER, INVALID_PARTITIONS) or (
                found.error_code and attempt == ATTEMPTS - 1
            ):
                raise broker_error(
                    found.error_code, found.error_message, topic=found.name, api="CREATE_PARTITIONS"
                )
        await asyncio.sleep(PAUSE_S)
    raise KafkaError(f"the target did not add partitions to {', '.join(missing)}")


def _has(metadata: ClusterMetadata, name: str, count: int) -> bool:
    led = [one for one in metadata.topics[name].partitions.values() if one.leader >= 0]
    return len(led) >= count


# -- settings --------------------------------------------------------------------------------------

Settings = tuple[dict[str, str], dict[str, str]]
"""What is set for a topic or its brokers, and all that holds."""


async def _settings(client: AsyncClient, names: list[str]) -> dict[str, Settings]:
    if not names:
        return {}
    make = DescribeConfigsRequest.DescribeConfigsResource
    message = DescribeConfigsRequest(
        resources=[
            make(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
            for name in names
        ]
    )
    try:
        reply = await client.request(None, message, feature=Feature.DESCRIBE_CONFIGS)
    except UnsupportedVersionError:
        return {}
    found: dict[str, Settings] = {}
    for result in reply.results:
        if result.error_code:
            continue  # not there any more, or not to be seen
        effective = {one.name: one.value for one in result.configs if one.value is not None}
        own = {one.name for one in result.configs if _is_set(one)}
        chosen = {name: value for name, value in effective.items() if name in own}
        found[result.resource_name] = (chosen, effective)
    return found


def _is_set(config: object) -> bool:
    """Whether a setting is no default; version 0 says no more than that."""
    source: int = getattr(config, "config_source", -1)
    return source != DEFAULT if source >= 0 else not getattr(config, "is_default", False)


async def _defaults(
    client: AsyncClient, metadata: ClusterMetadata, probe: str
) -> dict[str, str | None] | None:
    """Return the settings that a new topic gets: asked by a topic that is only checked; or on older
    brokers by any topic that is there.
    """
    message = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=probe, num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=True,
    )
    controller = metadata.controller_id if metadata.controller_id >= 0 else None
    try:
        reply = await client.request(
            controller,
            message,
            feature=Feature.CREATE_TOPICS_VALIDATE_ONLY,
            allowed=NAMES_DEFAULTS,
        )
        configs = reply.topics[0].configs if reply.topics else None
        if configs:
            return {one.name: one.value for one in configs if one.value is not None}
    except UnsupportedVersionError:
        pass
    for name in metadata.topics:
        for chosen, effective in (await _settings(client, [name])).values():
            return {key: None if key in chosen else value for key, value in effective.items()}
    return None


# -- records ---------------------------------------------------------------------------------------


async def _sample(
    client: AsyncClient, topic: str, partitions: list[int]
) -> tuple[int | None, bool]:
    """Return the oldest timestamp of the records that come first, -1 where they have none, None
    where there are no records; and whether any has headers.
    """
    options = FetchOptions(
        max_partition_fetch_bytes=SAMPLE_BYTES,
        max_batch_rows=1_000,
        shape=record_shape(["offset", "timestamp", "timestamp_type", "headers"]),
    )
    oldest: list[int] = []
    headers = False
    for index in partitions[:SAMPLED_PARTITIONS]:
        reading = client.fetch(TopicPartition(topic, index), EARLIEST, LATEST, options)
        async with aclosing(reading) as batches:
            async for batch in batches:
                times = batch.column("timestamp").cast("int64")
                first = pc.min(times.filter(pc.greater_equal(times, 0))).as_py()
                if pc.min(batch.column("timestamp_type")).as_py() < 0:
                    oldest.append(-1)
                elif first is not None:  # a producer may have written -1, which is kept
                    oldest.append(first)
                most = pc.max(pc.list_value_length(batch.column("headers"))).as_py()
                headers = headers or bool(most)
                break
    return min(oldest, default=None), headers
