"""What is known of the topics that records are sent to: partitions, leaders, and who is behind."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from parley.client.cluster.core import Cluster
from parley.client.produce.chunk import RecordChunk
from parley.client.produce.partitioners import AdaptiveSticky
from parley.client.produce.producer import Producer
from parley.client.produce.record_batches import BatchPolicy
from parley.client.produce.rows import TopicPlan
from parley.client.produce.state import PartitionLog
from parley.errors import KafkaError
from parley.types import TopicPartition

log = logging.getLogger("parley.client")
RENEWAL_PAUSE_MS = 1_000
"""Between two attempts to learn about partitions that have no leader."""


@dataclass(frozen=True, slots=True)
class RecordPolicy:
    """How records are gathered and spread."""

    batches: BatchPolicy
    linger_ms: int
    adaptive: bool
    availability_timeout_ms: int
    in_loop_only: bool = False
    """Whether chunks may begin in the loop's thread alone."""


@dataclass(slots=True, eq=False)
class TopicRecords:
    """What is known of one topic that records are sent to."""

    topic: str
    sticky: AdaptiveSticky
    plan: TopicPlan | None = None
    checked: list[TopicPlan] = field(default_factory=list)
    closed: deque[RecordChunk] = field(default_factory=deque)
    """Chunks that the sender does not have yet, in order."""
    logs: dict[int, PartitionLog] = field(default_factory=dict)
    """Partitions that records went to."""
    spreads: bool = True
    """Whether the last chunk had records that may go to any partition."""
    leaders: tuple[int, frozenset[int]] = (-1, frozenset())
    """How often metadata had changed, and the brokers that led its partitions then."""
    handing: bool = False
    renewing: bool = False
    renew_after_ms: int = 0
    placing: Lock = field(default_factory=Lock)


class RecordTopics:
    """The topics of one writer."""

    def __init__(
        self, cluster: Cluster, producer: Producer, policy: RecordPolicy, now_ms: Callable[[], int]
    ) -> None:
        self._cluster, self._producer, self._policy = cluster, producer, policy
        self._now_ms = now_ms
        self._topics: dict[str, TopicRecords] = {}

    def all(self) -> list[TopicRecords]:
        """Return every topic that records were sent to."""
        return list(self._topics.values())

    def get(self, topic: str) -> TopicRecords | None:
        """Return a topic that records were sent to."""
        return self._topics.get(topic)

    def of(self, topic: str) -> TopicRecords:
        """Return a topic, a new one where there is none."""
        records = self._topics.get(topic)
        if records is None:
            logs = self._producer.sender.logs

            def load(partition: int) -> int:
                found = logs.get(TopicPartition(topic, partition))
                if found is None:
                    return 0
                return len(found.queue) + len(found.to_retry) + len(found.in_flight)

            sticky = AdaptiveSticky(
                self._cluster.rng, load, self.available, adaptive=self._policy.adaptive
            )
            records = self._topics[topic] = TopicRecords(topic, sticky)
        return records

    async def prepare(self, topic: str, highest: int = -1) -> TopicPlan:
        """Return what is known of a topic, after asking for it, and again where a partition is not
        known. Raises the topic's error.
        """
        records = self.of(topic)
        if records.plan is None or highest >= records.plan.partition_count:
            await self._ask(records, highest)
        assert records.plan is not None
        return records.plan

    def wants_news(self, records: TopicRecords) -> bool:
        """Return whether `renew` should run: partitions or leaders have changed."""
        plan = records.plan
        return (
            plan is not None
            and not records.renewing
            and not self._producer.plans.is_fresh(plan)
            and self._cluster.now_ms() >= records.renew_after_ms
        )

    async def renew(self, records: TopicRecords) -> None:
        """Learn about partitions and leaders that have changed, for the records to come."""
        records.renewing = True
        try:
            await self._ask(records, -1)
        except KafkaError as error:
            log.info("nothing new about %s for now: %s", records.topic, error)
        finally:
            records.renewing = False
            records.renew_after_ms = self._cluster.now_ms() + RENEWAL_PAUSE_MS

    async def _ask(self, records: TopicRecords, highest: int) -> None:
        options = self._policy.batches.options
        records.plan = await self._producer.prepare(
            records.topic, options, highest, records.checked
        )
        del records.checked[:-1]

    def available(self, plan: TopicPlan) -> tuple[int, ...]:
        """Return the partitions that have a leader which takes batches in time."""
        found = []
        limit_ms = self._policy.availability_timeout_ms
        timeout_ms = self._policy.batches.options.delivery_timeout_ms
        for index in range(plan.partition_count):
            tp = TopicPartition(plan.topic, index)
            if self._cluster.leader(tp).node is None:
                continue
            waiting = self._producer.sender.logs.get(tp) if limit_ms else None
            if waiting is not None and waiting.queue:
                began_ms = waiting.queue[0].deadline_ms - timeout_ms
                if self._now_ms() - began_ms > limit_ms:
                    continue
            found.append(index)
        return tuple(found)

    def leaders(self, topic: str) -> frozenset[int]:
        """Return the brokers that lead partitions of a topic."""
        records, changes = self._topics[topic], self._cluster.cache.changes
        if records.leaders[0] != changes:
            count = 0 if records.plan is None else records.plan.partition_count
            found = [self._cluster.leader(TopicPartition(topic, at)).node for at in range(count)]
            records.leaders = changes, frozenset(node.id for node in found if node is not None)
        return records.leaders[1]

    def is_busy(self, topic: str, most: int | None = None) -> bool:
        """Return whether all partitions that a topic's records go to have their requests in flight,
        so that nothing is won by closing a chunk; or `most` of them, where that is given.
        """
        records = self._topics[topic]
        if records.plan is None or records.closed or not records.logs:
            return bool(records.closed)
        if records.spreads and len(records.logs) < records.plan.partition_count:
            return False
        most = self._producer.sender.requests.max_in_flight if most is None else most
        return all(
            log.queue or len(log.in_flight) >= (most if log.confirmed else 1)
            for log in records.logs.values()
        )
