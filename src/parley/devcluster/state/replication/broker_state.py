"""What one broker holds: its image of the cluster and its replicas.

Rules of this file:
1. Replicas follow the image: `apply` creates, promotes, demotes and deletes them, nothing else
   does.
2. A image older than the one held is ignored.
"""

from __future__ import annotations

from collections.abc import Callable

from parley.devcluster.state.image import ClusterImage, PartitionImage, TopicImage
from parley.devcluster.state.log.replica import Replica, ReplicaKey
from parley.devcluster.state.refused import Refused
from parley.errors.codes import NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION

MakeReplica = Callable[[TopicImage, ReplicaKey], Replica]


class BrokerState:
    """One broker's replicas, by topic id and partition."""

    def __init__(self, broker_id: int, image: ClusterImage, make_replica: MakeReplica) -> None:
        self.id = broker_id
        self.image = image
        self.replicas: dict[ReplicaKey, Replica] = {}
        self._make_replica = make_replica
        self.watermark_min_isr: Callable[[TopicImage, int], int] = lambda topic, replicas: 1

    def apply(self, image: ClusterImage) -> list[ReplicaKey]:
        """Take a newer image; return the replicas whose leader, epoch or in-sync set changed."""
        if image.epoch <= self.image.epoch and self.image.topics is not image.topics:
            return []
        changed: list[ReplicaKey] = []
        for name, topic in image.topics.items():
            if self.image.topics.get(name) is not topic:
                changed += self._apply_topic(topic)
        if self.image.names is not image.names:
            for key in [key for key in self.replicas if key.topic_id not in image.names]:
                self._remove(key)
        # last: where a disk refuses a new log, the next image is compared with the old one
        self.image = image
        return changed

    def _apply_topic(self, topic: TopicImage) -> list[ReplicaKey]:
        changed = []
        counts = {len(partition.replicas) for partition in topic.partitions}
        min_isr = {count: self.watermark_min_isr(topic, count) for count in counts}
        for index, partition in enumerate(topic.partitions):
            key = ReplicaKey(topic.topic_id, index)
            if self.id not in partition.replicas:
                if key in self.replicas:
                    self._remove(key)
                continue
            replica = self.replicas.get(key)
            if replica is None:
                replica = self.replicas[key] = self._make_replica(topic, key)
            replica.watermark_min_isr = min_isr[len(partition.replicas)]
            if self._apply_partition(replica, partition):
                changed.append(key)
        return changed

    def _apply_partition(self, replica: Replica, partition: PartitionImage) -> bool:
        same = (replica.leader_id, replica.leader_epoch, replica.isr)
        if same == (partition.leader, partition.leader_epoch, partition.isr):
            return False
        if partition.leader == self.id:
            replica.lead(partition.leader_epoch, partition.isr)
        else:
            replica.follow(partition.leader, partition.leader_epoch, partition.isr)
        return True

    def _remove(self, key: ReplicaKey) -> None:
        replica = self.replicas.pop(key)
        replica.follow(-1, replica.leader_epoch, ())
        replica.log.delete()

    def find(self, topic: str, index: int) -> Replica:
        """Return this broker's replica.

        Raises Refused: UNKNOWN_TOPIC_OR_PARTITION when its image has no such partition,
        NOT_LEADER_OR_FOLLOWER when the partition lies on other brokers.
        """
        image = self.image.topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            raise Refused(
                UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
        replica = self.replicas.get(ReplicaKey(image.topic_id, index))
        if replica is None:
            raise Refused(
                NOT_LEADER_OR_FOLLOWER, f"broker {self.id} holds no replica of {topic}-{index}"
            )
        return replica

    def close(self, *, sync: bool = False) -> None:
        """Close the logs' files."""
        for replica in self.replicas.values():
            replica.log.close(sync=sync)
