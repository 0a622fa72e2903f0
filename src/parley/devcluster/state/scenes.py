"""What is done to a cluster on purpose: brokers cut off, followers held, elections with loss.

Rules of this file:
1. Every method ends with the images handed out and the followers in step, as far as links let them.
2. Nothing is decided here that a controller decides: who leads stays `controller`'s affair.
3. Time is an argument; when a broker is missed, or a follower falls out of step, is the caller's to
   plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from parley.devcluster.state.cluster_state import ClusterState
from parley.devcluster.state.image import BrokerImage, PartitionImage, TopicImage
from parley.devcluster.state.log.replica import Replica, ReplicaKey
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.replication.ledger import LostRecords
from parley.errors.codes import (
    ELECTION_NOT_NEEDED,
    INVALID_REPLICA_ASSIGNMENT,
    UNKNOWN_TOPIC_OR_PARTITION,
)


class SceneState:
    """What was done to one cluster; `state` is what it changes."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._links = state.replication.links
        self._missed: dict[int, BrokerImage] = {}  # isolated, and the controller has noticed

    # -- brokers that are cut off --------------------------------------------------------------

    def isolate(self, broker_id: int) -> None:
        """Cut a broker off from controller, leaders and followers; it keeps its image."""
        self._links.isolated.add(broker_id)

    def miss(self, broker_id: int, *, now_ms: int) -> None:
        """Let the controller notice an isolated broker's silence: others lead what it led."""
        image = self.state.image.brokers.get(broker_id)
        if broker_id in self._links.isolated and image is not None:
            self._missed[broker_id] = image
            self.state.controller.broker_down(broker_id, abrupt=True)
            self.state.publish(now_ms=now_ms)

    def heal(self, broker_id: int, *, now_ms: int) -> None:
        """Let a broker hear the others: it takes the newest image, cuts its logs, catches up."""
        self._links.isolated.discard(broker_id)
        image = self._missed.pop(broker_id, None)
        running = self.state.replication.brokers.get(broker_id)
        if running is not None and image is not None:
            self.state.brokers_up({running: image}, now_ms=now_ms)
        else:
            self.in_step(now_ms=now_ms)

    def gone(self, broker_id: int) -> None:
        """Forget what was done to a broker that no longer runs."""
        self._links.isolated.discard(broker_id)
        self._links.stale.discard(broker_id)
        self._missed.pop(broker_id, None)

    def in_step(self, *, now_ms: int) -> None:
        """Hand out the newest image; bring the followers in step, as far as links let them."""
        self.state.publish(now_ms=now_ms)
        self.state.replication.sync_all(now_ms=now_ms)
        self.state.publish(now_ms=now_ms)

    # -- followers that are held back ----------------------------------------------------------

    def lag(self, broker_id: int, records: int, leader: int) -> None:
        """Hold a follower back (`links.EVERYTHING`: wholly) behind one leader or `ANY_LEADER`."""
        self._links.hold_back(broker_id, records, leader)

    def catch_up(self, broker_id: int | None, leader: int | None, *, now_ms: int) -> None:
        """End the lag of a follower (None: of all), behind one leader (None: behind all)."""
        self._links.let_go(broker_id, leader)
        self.in_step(now_ms=now_ms)

    def drop_laggards(self, broker_id: int, *, now_ms: int, only_behind: bool = True) -> None:
        """Take a held-back follower out of the in-sync replicas: where it is behind, or all."""
        for topic, index, leader in list(self._leaders()):
            held = self._links.held_back(leader.broker_id, broker_id)
            behind = leader.ends.get(broker_id, -1) < leader.log.end_offset
            if leader.broker_id != broker_id and held and (behind or not only_behind):
                self.state.controller.leave_isr(topic.name, index, broker_id)
        self.state.publish(now_ms=now_ms)

    def leave_isr(self, topic: str, index: int, broker_id: int, *, now_ms: int) -> None:
        """Take a follower out of a partition's in-sync replicas; Refused (3, 39) unless it lags."""
        partition = self._partition(topic, index)
        if broker_id == partition.leader or broker_id not in partition.isr:
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT,
                f"broker {broker_id} is no in-sync follower of {topic}-{index}: in sync are "
                f"{list(partition.isr)}, the leader is {partition.leader}",
            )
        if not self._links.held_back(partition.leader, broker_id):
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT,
                f"broker {broker_id} keeps up with {topic}-{index} and would join "
                "again at once: hold it back with lag first",
            )
        self.state.controller.leave_isr(topic, index, broker_id)
        self.state.publish(now_ms=now_ms)

    def _leaders(self) -> Iterator[tuple[TopicImage, int, Replica]]:
        for topic in self.state.image.topics.values():
            for index in range(len(topic.partitions)):
                leader = self.state.replication.leader_of(ReplicaKey(topic.topic_id, index))
                if leader is not None:
                    yield topic, index, leader

    # -- elections -----------------------------------------------------------------------------

    def elect_preferred(
        self, wanted: Sequence[tuple[str, int]] | None, *, now_ms: int
    ) -> list[tuple[str, int]]:
        """Let the first replicas lead (None: of all partitions) where they can; return where."""
        if wanted is None:
            topics = self.state.image.topics.values()
            wanted = [
                (topic.name, index) for topic in topics for index in range(len(topic.partitions))
            ]
        changed = [
            (topic, index)
            for topic, index in wanted
            if self.state.controller.elect_preferred(topic, index)
        ]
        self.state.publish(now_ms=now_ms)
        return changed

    def elect_unclean(
        self, topic: str, index: int, to: int | None = None, *, lose: int = 0, now_ms: int
    ) -> LostRecords:
        """Let a replica lead that is not in sync; return the acknowledged records lost by it.

        Without `to`, the first one alive that is not in sync, or with `lose` any follower alive.
        `lose` cuts that many records off its log before, whole batches of course. Raises Refused
        (3, 39, 84).
        """
        partition = self._partition(topic, index)
        to = self._unclean_candidate(topic, index, partition, lose) if to is None else to
        key = ReplicaKey(self.state.image.topics[topic].topic_id, index)
        holder = self.state.replication.brokers.get(to)
        replica = None if holder is None else holder.replicas.get(key)
        if replica is None or to in self._links.isolated:
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT,
                f"broker {to} holds no replica of {topic}-{index}, or is not alive",
            )
        if to in partition.isr and not lose:
            raise Refused(
                ELECTION_NOT_NEEDED,
                f"broker {to} is in sync for {topic}-{index}: move_leader makes it the "
                "leader, lose=N takes N records",
            )
        replica.truncate_to(max(replica.log.start_offset, replica.log.end_offset - lose))
        self.state.controller.elect_unclean(topic, index, to)
        lost = self.state.lead_uncleanly(replica, self._partition(topic, index))
        self.state.publish(now_ms=now_ms)
        return lost

    def _unclean_candidate(
        self, topic: str, index: int, partition: PartitionImage, lose: int
    ) -> int:
        alive = [member for member in partition.replicas if member in self.state.image.brokers]
        behind = [member for member in alive if member not in partition.isr]
        followers = [member for member in alive if member != partition.leader]
        found = behind or (followers if lose else [])
        if not found:
            raise Refused(
                ELECTION_NOT_NEEDED,
                f"every replica of {topic}-{index} that is alive is in sync: name one "
                "with lose=N, or hold one back with lag first",
            )
        return found[0]

    def _partition(self, topic: str, index: int) -> PartitionImage:
        found = self.state.image.partition(topic, index)
        if found is None:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
        return found

    # -- topics --------------------------------------------------------------------------------

    def recreate_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        now_ms: int,
    ) -> TopicImage:
        """Delete a topic, create another of that name; None: as before. Raises Refused or OSError.

        The first replica of each partition leads, at epoch 0, as in any new topic.
        """
        old = self.state.image.topics.get(name)
        if old is None:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, f'there is no topic "{name}"')
        count = len(old.partitions) if partitions is None else partitions
        factor = (
            len(old.partitions[0].replicas) if replication_factor is None else replication_factor
        )
        assignment = self.state.controller.spread(count, factor)
        self.state.delete_topic(name, now_ms=now_ms)
        return self.state.create_topic(
            name, assignment, dict(old.configs) if configs is None else configs, now_ms=now_ms
        )
