"""Which records and committed offsets are kept no longer.

Of records whole segments go, from the front, as the log cleaner deletes them.

Rules of this file:
1. Nothing is lost unless somebody limited it: the topic by retention.ms or retention.bytes, else
   the leader or all brokers by a dynamic log.retention.ms or log.retention.bytes. Kafka's default
   of seven days would empty a development cluster that was filled with records of last year.
2. Whole segments, by the largest timestamp they hold; the one that is written to as well once all
   of it is too old. Never above the high watermark.
3. Topics that are only compacted (cleanup.policy without delete) keep everything. Age goes by the
   records' own timestamps, which know nothing of a clock that was moved on.
4. Of offsets go those that `groups.expiry` names, never one that an open transaction would change.
   An Empty group goes with its last offset, or when it is found to have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.groups.expiry import Expiry, expired
from parley.devcluster.state.log.replica import Replica, ReplicaKey

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
        for index in range(len(topic.partitions)):
            leader = state.replication.leader_of(ReplicaKey(topic.topic_id, index))
            if leader is None or leader.broker_id in state.replication.links.isolated:
                continue
            if state.configs.log_settings(topic.configs, leader.broker_id).deletes:
                yield topic.name, index, leader


def _configs(state: ClusterState, topic: str, leader: Replica) -> dict[str, str]:
    """Return a topic's settings over those of its leader, and these over those of all brokers."""
    return {
        **state.configs.inherited_by_topics(leader.broker_id),
        **state.image.topics[topic].configs,
    }


def _expired_end(leader: Replica, configs: Mapping[str, str], now_ms: int) -> int:
    kept_ms = int(configs.get("retention.ms", NO_LIMIT))
    most_bytes = int(configs.get("retention.bytes", NO_LIMIT))
    end = leader.log.start_offset
    if kept_ms != NO_LIMIT:
        end = max(end, leader.log.end_of_older_than(now_ms - kept_ms))
    if most_bytes >= 0:
        end = max(end, leader.log.end_of_excess(most_bytes))
    return end


def expire_offsets(
    state: ClusterState, rules_of: Callable[[str], Expiry | None], *, now_ms: int
) -> dict[str, dict[str, list[int]]]:
    """Drop the offsets that are kept no longer, and Empty groups without any; return what was
    dropped.

    What the disk refuses to note stays until the next time.
    """
    dropped: dict[str, dict[str, list[int]]] = {}
    with_members = [one.name for one in (*state.classic_groups, *state.consumer_groups)]
    for name in sorted({*state.groups.names(), *with_members}):
        rules = rules_of(name)
        if rules is None:
            continue
        with suppress(OSError):
            gone = _expire_group(state, name, rules, now_ms)
            for topic, partition in gone:
                dropped.setdefault(name, {}).setdefault(topic, []).append(partition)
    return dropped


def _expire_group(
    state: ClusterState, name: str, rules: Expiry, now_ms: int
) -> list[tuple[str, int]]:
    modern, pending = state.consumer_groups.get(name), state.pending_offsets
    found = expired(
        state.groups.all_of(name), rules, state.classic_groups.get(name), modern, now_ms
    )
    gone = [at for at in found if not pending.is_pending(name, *at)]
    if gone:
        state.group_coordinator.delete_offsets(name, gone, now_ms=now_ms)
    is_live = state.classic_groups.live(name) is not None or (
        modern is not None and bool(modern.members)
    )
    if not (is_live or state.groups.all_of(name) or pending.has(name)):
        state.delete_group(name, now_ms=now_ms)
    return gone
