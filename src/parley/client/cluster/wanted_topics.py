"""Topics and partitions that a call needs: asked for until they are there or count as missing.

1. A topic that was just created, and a partition that was just added, may be unknown to the broker
   that is asked: for a moment they are asked for again.
2. That moment begins with the first answer. While no broker can be reached nothing is said about
   topics.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from parley.client.cluster.core import Cluster
from parley.client.cluster.metadata_source import creating_request
from parley.client.cluster.overdue import beyond_hope, missing_topic, no_such_partition
from parley.client.cluster.retry import Deadline, Reaction, classify
from parley.client.cluster.topic_merger import UNKNOWN_TOPIC_OR_PARTITION
from parley.client.cluster.view import ClusterMetadata
from parley.errors import KafkaError, broker_error
from parley.types import TopicPartition

UNKNOWN_TOPIC_GRACE_MS = 2_000
"""How long a topic may be unknown before it counts as missing."""


async def ensure_topics(
    cluster: Cluster, topics: Iterable[str], deadline: Deadline, *, auto_create: bool = False
) -> ClusterMetadata:
    """Return metadata in which all these topics stand.

    Raises the topic's error (missing: UNKNOWN_TOPIC_OR_PARTITION, not authorized, bad name); a
    missing one is asked for again for a moment first, since a new topic takes time to be known.
    That moment begins with the first answer: while no broker can be reached nothing is said about
    topics.
    """
    names = set(topics)
    if not cluster.schedule.want(names) and any(name not in cluster.view.topics for name in names):
        cluster.schedule.request_full()
    answered: Deadline | None = None
    attempt, asked = 0, dict[str, None]()
    while missing := [name for name in sorted(names) if name not in cluster.view.topics]:
        said = missing_topic(asked, auto_create=auto_create)
        if attempt:
            _raise_topic_errors(
                cluster,
                missing,
                said,
                final=answered is not None and answered.passed(cluster.now_ms()),
            )
            if auto_create:
                await _create_by_asking(cluster, missing, deadline)
            await cluster.pause(attempt - 1, answered or deadline)
            cluster.schedule.request_full()
        try:
            await cluster.join_refresh(deadline)
            asked[str(cluster.asked)] = None
            grace_ms = UNKNOWN_TOPIC_GRACE_MS * (10 if auto_create else 1)
            answered = answered or deadline.earlier(cluster.now_ms(), grace_ms)
        except KafkaError as error:
            if asked and deadline.passed(cluster.now_ms()):
                _raise_topic_errors(cluster, missing, said, final=True)
            if classify(error) is Reaction.FAIL or deadline.passed(cluster.now_ms()):
                raise
        attempt += 1
    return cluster.view


async def ensure_partitions(
    cluster: Cluster, partitions: Iterable[TopicPartition], deadline: Deadline
) -> ClusterMetadata:
    """Return metadata with all these partitions; asks for a moment. Raises as `ensure_topics`."""
    wanted = list(partitions)
    await ensure_topics(cluster, {tp.topic for tp in wanted}, deadline)
    answered: Deadline | None = None
    attempt = 0
    while missing := [tp for tp in wanted if cluster.view.partition(tp) is None]:
        if answered is not None:
            if answered.passed(cluster.now_ms()):
                break
            # A partition that was just added may be unknown to the broker that is asked.
            await cluster.pause(attempt - 1, answered)
        attempt += 1
        cluster.schedule.hurry()
        try:
            await cluster.refresh_until(deadline)
        except KafkaError:
            if answered is None or not deadline.passed(cluster.now_ms()):
                raise
            break  # the answer before stands
        answered = answered or deadline.earlier(cluster.now_ms(), UNKNOWN_TOPIC_GRACE_MS)
    for tp in missing:
        topic = cluster.view.topics.get(tp.topic)
        count = len(topic.partitions) if topic is not None else 0
        raise no_such_partition(tp, count)
    return cluster.view


async def _create_by_asking(cluster: Cluster, names: list[str], deadline: Deadline) -> None:
    """Ask for topics by name so that a broker may create them; a refresh shows what came of it."""
    with contextlib.suppress(KafkaError):
        conn = await cluster.connection(None)
        await cluster.ask(conn, creating_request(names), cluster.request_timeout_ms(deadline))


def _raise_topic_errors(cluster: Cluster, names: Iterable[str], said: str, *, final: bool) -> None:
    for name in names:
        code = cluster.cache.topic_error(name)
        error = broker_error(code, topic=name, api="METADATA") if code else None
        if error is not None and classify(error) is Reaction.FAIL:
            cluster.schedule.unwant(name)
            raise error
        if final:
            cluster.schedule.unwant(name)
            missing = code in (0, UNKNOWN_TOPIC_OR_PARTITION)
            raise beyond_hope(
                TopicPartition(name, -1),
                said if missing else None,
                code or UNKNOWN_TOPIC_OR_PARTITION,
            )
