"""Which records are too old or too many: whole segments from the front, as in the log cleaner.

Rules of this file:
1. Nothing is lost unless somebody limited it: the topic by retention.ms or retention.bytes, else
   the leader or all brokers by a dynamic log.retention.ms or log.retention.bytes. Kafka's default
   of seven days would empty a development cluster that was filled with records of last year.
2. Whole segments, by the largest timestamp they hold; the one that is written to as well once all
   of it is too old. Never above the high watermark.
3. Compacted topics (cleanup.policy without delete) keep everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.log.replica import Replica, ReplicaKey
from parley.devcluster.state.topics import inherited

NO_LIMIT = -1


def apply_retention(state: ClusterState, *, now_ms: int) -> dict[str, dict[int, int]]:
    """Delete what is too old or too much; return where logs begin now, by topic and partition."""
    starts: dict[str, dict[int, int]] = {}
    for topic, index, leader in _leaders(state):
        end = min(
            _expired_end(leader, _configs(state, topic, leader), now_ms), leader.high_watermark
        )
        if end > leader.log.start_offset:
            starts.setdefault(topic, {})[index] = state.delete_records(leader, end)
    return starts


def _leaders(state: ClusterState) -> Iterator[tuple[str, int, Replica]]:
    for topic in state.image.topics.values():
        if "delete" not in topic.configs.get("cleanup.policy", "delete"):
            continue
        for index in range(len(topic.partitions)):
            leader = state.replication.leader_of(ReplicaKey(topic.topic_id, index))
            if leader is not None and leader.broker_id not in state.replication.links.isolated:
                yield topic.name, index, leader


def _configs(state: ClusterState, topic: str, leader: Replica) -> dict[str, str]:
    """Return a topic's settings over those of its leader, and these over those of all brokers."""
    of_all, of_leader = state.broker_configs(""), state.broker_configs(str(leader.broker_id))
    return {**inherited(of_all), **inherited(of_leader), **state.image.topics[topic].configs}


def _expired_end(leader: Replica, configs: Mapping[str, str], now_ms: int) -> int:
    kept_ms = int(configs.get("retention.ms", NO_LIMIT))
    most_bytes = int(configs.get("retention.bytes", NO_LIMIT))
    end = leader.log.start_offset
    if kept_ms != NO_LIMIT:
        end = max(end, leader.log.end_of_older_than(now_ms - kept_ms))
    if most_bytes != NO_LIMIT:
        end = max(end, leader.log.end_of_excess(most_bytes))
    return end
