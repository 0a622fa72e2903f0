"""What is known of the topics that are written to: partitions, and what their leaders take."""

from __future__ import annotations

import contextlib

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.wanted_topics import ensure_partitions, ensure_topics
from parley.client.options.client_options import ProduceOptions
from parley.client.produce.rows import TopicPlan
from parley.client.produce.wire import BATCHES_VERSION, ZSTD_VERSION, magic_for
from parley.errors import KafkaError, broker_error
from parley.errors.codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION
from parley.net import BrokerConnection
from parley.schema import ApiKey
from parley.types import TopicPartition
from parley.versions import Feature, VersionRange


class TopicPlans:
    """The topics that one client writes to. Belongs to the event loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._plans: dict[str, TopicPlan] = {}
        self._cares = contextlib.ExitStack()

    async def of(self, topic: str, options: ProduceOptions, highest: int) -> TopicPlan:
        """Return what a topic's leaders take, after asking them where that may have changed, or
        where the partition `highest` is not known. Raises the topic's error, and the partition's:
        one that was just added is asked for again for a moment.
        """
        plan = self._plans.get(topic)
        if plan is None or not self.is_fresh(plan) or highest >= plan.partition_count:
            deadline = self._cluster.deadline(options.max_block_ms)
            await ensure_topics(
                self._cluster, [topic], deadline, auto_create=options.allow_auto_create_topics
            )
            if highest >= 0:
                await ensure_partitions(self._cluster, [TopicPartition(topic, highest)], deadline)
            plan = await self._plan(topic, deadline)
            before, self._plans[topic] = self._plans.get(topic), plan
            self._care_for(plan, 0 if before is None else before.partition_count)
        return plan

    def is_fresh(self, plan: TopicPlan) -> bool:
        """Return whether a plan has all partitions of its topic, each with a leader."""
        topic = self._cluster.view.topics.get(plan.topic)
        if topic is None or len(topic.partitions) != plan.partition_count:
            return False
        return len(plan.available) == plan.partition_count

    def close(self) -> None:
        """Be interested in no partition any more."""
        self._cares.close()

    def _care_for(self, plan: TopicPlan, known: int) -> None:
        """Be interested in all partitions of a topic written to, as KIP-232 asks: in those from
        `known` on, for the others are counted already.
        """
        new = [TopicPartition(plan.topic, index) for index in range(known, plan.partition_count)]
        if new:
            self._cares.enter_context(self._cluster.interested(new))

    async def _plan(self, topic: str, deadline: Deadline) -> TopicPlan:
        """Ask the leaders of a topic what they take."""

        async def attempt() -> TopicPlan:
            found = self._cluster.view.topics.get(topic)
            if found is None:
                raise broker_error(UNKNOWN_TOPIC_OR_PARTITION, topic=topic)
            leaders = {
                index: self._cluster.leader(TopicPartition(topic, index)).node
                for index in found.partitions
            }
            magics: dict[int, int] = {}
            conns: dict[int, BrokerConnection] = {}
            trouble: KafkaError | None = None
            for index, node in sorted(leaders.items()):
                if node is None:
                    continue
                try:
                    if node.id not in conns:
                        conns[node.id] = await self._cluster.connection(node.id)
                    magics[index] = magic_for(conns[node.id].versions)
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    trouble = error
            if not magics:
                raise trouble or broker_error(
                    LEADER_NOT_AVAILABLE, "no partition has a leader", topic=topic
                )
            versions = {
                index: conns[node.id].versions
                for index, node in leaders.items()
                if node and node.id in conns
            }
            return TopicPlan(topic, len(found.partitions), tuple(sorted(magics)), magics, versions)

        return await self._cluster.retrying(f"finding the leaders of {topic}", deadline, attempt)


def check_guarantees(plan: TopicPlan, options: ProduceOptions) -> None:
    """Refuse, before anything is sent, a codec or a guarantee that a leader does not have."""
    for versions in plan.versions.values():
        if options.compression_type == "zstd":
            allowed = VersionRange(ZSTD_VERSION, 2**15 - 1)
            versions.choose(ApiKey.PRODUCE, allowed, feature=Feature.ZSTD)
        if options.enable_idempotence:
            allowed = VersionRange(BATCHES_VERSION, 2**15 - 1)
            versions.choose(ApiKey.PRODUCE, allowed, feature=Feature.IDEMPOTENT_PRODUCER)
            versions.choose(ApiKey.INIT_PRODUCER_ID, feature=Feature.IDEMPOTENT_PRODUCER)
