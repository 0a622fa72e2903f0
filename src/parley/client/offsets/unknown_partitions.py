"""Partitions that a group's coordinator does not know: it may be behind, or there are none."""

from __future__ import annotations

from collections.abc import Mapping

from parley.client.cluster.core import Cluster
from parley.client.cluster.overdue import beyond_hope, missing_topic, no_such_partition
from parley.client.cluster.retry import Deadline
from parley.client.cluster.wanted_topics import UNKNOWN_TOPIC_GRACE_MS
from parley.errors import BrokerError, KafkaError
from parley.errors.codes import UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION
from parley.types import TopicPartition

Failures = dict[TopicPartition, KafkaError]


def is_unknown(error: KafkaError) -> bool:
    """Return whether a broker says that it does not know a partition."""
    codes = (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID)
    return isinstance(error, BrokerError) and error.code in codes


class UnknownPartitions:
    """What one commit makes of partitions that its coordinator does not know.

    Metadata is asked for their topics. What no broker knows after a moment counts as missing; where
    others know it the coordinator is only behind.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._until: Deadline | None = None
        self._asked_for: frozenset[str] = frozenset()

    def judge(self, failures: Mapping[TopicPartition, KafkaError]) -> Failures:
        """Return the errors of an answer; those of missing partitions say so, and do not pass."""
        unknown = {tp for tp, error in failures.items() if is_unknown(error)}
        if unknown and self._until is None:
            self._begin({tp.topic for tp in unknown})
        if self._until is None or not self._until.passed(self._cluster.now_ms()):
            return dict(failures)
        return {
            tp: self._missing(tp)
            if tp in unknown and self._cluster.view.partition(tp) is None
            else error
            for tp, error in failures.items()
        }

    def _begin(self, topics: set[str]) -> None:
        cluster = self._cluster
        self._until = Deadline.after(cluster.now_ms(), UNKNOWN_TOPIC_GRACE_MS)
        self._asked_for = frozenset(topics - cluster.schedule.wanted)
        cluster.schedule.want(self._asked_for)

    def _missing(self, tp: TopicPartition) -> KafkaError:
        topic = self._cluster.view.topics.get(tp.topic)
        if topic is not None:
            return no_such_partition(tp, len(topic.partitions))
        if tp.topic in self._asked_for:
            self._cluster.schedule.unwant(tp.topic)
        return beyond_hope(tp, missing_topic((), auto_create=False))
