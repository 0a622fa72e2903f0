"""Whether the replicas of a cluster agree: what must hold after every scene, whatever was done.

Rules of this file:
1. Only replicas that run and can hear are judged: a stopped or isolated one cannot agree yet, a
   leader that nobody has is no disagreement.
2. In-sync replicas have equal bytes up to the high watermark, and to the end unless they are held
   back. Of a compacted log that counts where both were cleaned together, or not at all.
3. It reads everything and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.image import TopicImage
from parley.devcluster.state.log.replica import Replica, ReplicaKey
from parley.devcluster.state.replication.ledger import LostRecords

MOST_SHOWN = 10


@dataclass(slots=True)
class Agreement:
    """What was compared, what does not agree, and what unclean elections gave up before."""

    partitions: int = 0
    replicas: int = 0
    without_leader: list[str] = field(default_factory=list)
    lost: list[LostRecords] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether nothing was found."""
        return not self.disagreements

    def __str__(self) -> str:
        seen = f"{self.replicas} in-sync replicas of {self.partitions} partitions compared"
        parts = [seen if self.agrees else f"{seen}, {len(self.disagreements)} disagreements"]
        parts += self.disagreements[:MOST_SHOWN]
        if len(self.disagreements) > MOST_SHOWN:
            parts.append(f"and {len(self.disagreements) - MOST_SHOWN} more")
        parts += (
            [f"without a leader: {', '.join(self.without_leader[:MOST_SHOWN])}"]
            if self.without_leader
            else []
        )
        parts += [f"lost by unclean election: {lost}" for lost in self.lost[:MOST_SHOWN]]
        return "\n".join(parts)


def check_agreement(state: ClusterState) -> Agreement:
    """Compare each partition's replicas with the leader, and that with what was acknowledged."""
    found = Agreement(lost=list(state.replication.ledger.lost))
    found.disagreements += state.replication.ledger.conflicts
    for topic in state.image.topics.values():
        for index in range(len(topic.partitions)):
            found.disagreements += _partition(state, topic, index, found)
    return found


def _partition(
    state: ClusterState, topic: TopicImage, index: int, found: Agreement
) -> Iterator[str]:
    name, image = f"{topic.name}-{index}", topic.partitions[index]
    key = ReplicaKey(topic.topic_id, index)
    isolated = state.replication.links.isolated
    found.partitions += 1
    leader = state.replication.leader_of(key)
    if image.leader < 0 or leader is None or leader.broker_id in isolated:
        found.without_leader.append(name)
        return
    if leader.broker_id != image.leader and state.replication.links.hears_controller(image.leader):
        yield f"{name}: broker {leader.broker_id} leads, the controller says {image.leader}"
    found.replicas += 1
    yield from _watermark(name, leader)
    for base in state.replication.ledger.missing(leader):
        yield (
            f"{name}: the acknowledged batch at offset {base} is not on the leader, broker "
            f"{leader.broker_id}"
        )
    for member in image.isr:
        broker = state.replication.brokers.get(member)
        if member == leader.broker_id or broker is None or member in isolated:
            continue
        follower = broker.replicas.get(key)
        if follower is None:
            yield f"{name}: broker {member} is in sync and holds no replica"
            continue
        if not state.replication.links.hears_controller(member):
            continue  # it cannot know yet
        found.replicas += 1
        yield from _watermark(name, follower)
        held = state.replication.links.held_back(leader.broker_id, member) != 0
        yield from _pair(name, leader, follower, held=held)


def _watermark(name: str, replica: Replica) -> Iterator[str]:
    log = replica.log
    if not log.start_offset <= replica.high_watermark <= log.end_offset:
        yield (
            f"{name}: on broker {replica.broker_id} the high watermark {replica.high_watermark} "
            f"lies outside of the log, which has {log.start_offset} to {log.end_offset}"
        )


def _pair(name: str, leader: Replica, follower: Replica, *, held: bool) -> Iterator[str]:
    who = f"{name}: broker {follower.broker_id}"
    end = follower.log.end_offset
    if end > leader.log.end_offset or (end != leader.log.end_offset and not held):
        yield f"{who} ends at {end}, its leader {leader.broker_id} at {leader.log.end_offset}"
    if end < leader.high_watermark:
        yield (
            f"{who} is in sync and ends at {end}, below the high watermark {leader.high_watermark}"
        )
    if follower.high_watermark > leader.high_watermark:
        yield (
            f"{who} has high watermark {follower.high_watermark}, its leader "
            f"{leader.high_watermark}"
        )
    start, stop = (
        max(leader.log.start_offset, follower.log.start_offset),
        min(end, leader.log.end_offset),
    )
    if follower.cleaned.round != leader.cleaned.round:  # each broker compacts its own log
        start = min(stop, max(start, leader.cleaned.below, follower.cleaned.below))
    differs_at = _first_difference(follower, leader, start, stop)
    if differs_at is not None:
        yield (
            f"{who} has other bytes than its leader {leader.broker_id} from offset {differs_at} on"
        )
    # compaction leaves nothing of some epochs, and a log that is read again then lacks them
    start = min(stop, max(start, leader.cleaned.below, follower.cleaned.below))
    mine, theirs = _epochs(follower, start, stop), _epochs(leader, start, stop)
    if mine != theirs:
        yield (
            f"{who} has the epochs {mine} between {start} and {stop}, its leader "
            f"{leader.broker_id} {theirs}"
        )


def _first_difference(one: Replica, other: Replica, start: int, stop: int) -> int | None:
    """Return the base offset of the first batch that differs in the logs, None without one."""
    for mine, theirs in zip_longest(_batches(one, start, stop), _batches(other, start, stop)):
        if mine is None or theirs is None or mine[1] != theirs[1]:
            return min(batch[0] for batch in (mine, theirs) if batch is not None)
    return None


def _batches(replica: Replica, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
    for facts, data in replica.log.batches_from(start) if start < stop else ():
        if facts.last_offset < stop:
            yield facts.base_offset, data


def _epochs(replica: Replica, start: int, stop: int) -> list[tuple[int, int]]:
    """Return epochs and where they begin, as far as they wrote something between two offsets."""
    entries = [
        (epoch, max(begin, start)) for epoch, begin in replica.epochs.entries() if begin < stop
    ]
    ends = [*(begin for _, begin in entries[1:]), stop]
    return [
        entry for entry, end in zip(entries, ends, strict=False) if end > start and entry[1] < end
    ]
