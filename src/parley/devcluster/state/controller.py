"""The controller: every decision about brokers, topics, leaders and in-sync replicas.

Rules of this file:
1. A method decides, records the decision in a new image and returns nothing else: whoever calls
   publishes the image to the brokers (style rule 12).
2. Each change of leader raises the leader epoch by one; each change of a partition its partition
   epoch.
3. A leader comes from the in-sync replicas that are alive; if there is none the partition has no
   leader, and its last in-sync replicas are remembered until one of them returns. Where a topic
   allows unclean elections, any replica alive leads instead (`take_unclean`).
4. A topic id is never given twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from parley.devcluster.state import topics as naming
from parley.devcluster.state.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.rules import ElectionRules
from parley.errors.codes import (
    INVALID_REPLICA_ASSIGNMENT,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)


class Join(NamedTuple):
    """A follower that has caught up."""

    topic: str
    partition: int
    member: int


class Controller:
    """The one writer of the cluster's metadata; `image` is the newest image."""

    def __init__(self, cluster_id: str, new_topic_id: Callable[[], bytes]) -> None:
        self.image = ClusterImage(cluster_id)
        self.rules_of: Callable[[int], ElectionRules] = lambda broker_id: ElectionRules()
        self.elects_unclean: Callable[[TopicImage], bool] = lambda topic: False
        self._unclean: list[tuple[str, int]] = []
        self._new_topic_id = new_topic_id
        self._next_start = 0  # where the next topic's first replica goes, so that leaders spread

    def restore(self, topics: Sequence[TopicImage]) -> None:
        """Take over the topics of an earlier life. No broker is alive yet, so none has a leader."""
        for topic in topics:
            partitions = tuple(replace(p, leader=NO_LEADER) for p in topic.partitions)
            self._put_topic(replace(topic, partitions=partitions))
            self._next_start += 0 if topic.internal else len(partitions)

    def raise_epochs(self, seen: Mapping[tuple[bytes, int], int]) -> None:
        """Take over epochs that logs have seen and the image not (an unjournaled election)."""
        changed: dict[tuple[str, int], PartitionImage] = {}
        for (topic_id, index), epoch in seen.items():
            name = self.image.names[topic_id]
            partition = self._partition(name, index)
            if epoch > partition.leader_epoch:
                changed[name, index] = replace(partition, leader_epoch=epoch)
        self._put_partitions(changed)

    # -- brokers -------------------------------------------------------------------------------

    def brokers_up(self, *brokers: BrokerImage) -> None:
        """Note brokers that registered, and let them lead partitions that wait for them."""
        self._publish(brokers={**self.image.brokers, **{broker.id: broker for broker in brokers}})
        self.elect_leaderless()

    def elect_leaderless(self) -> None:
        """Let partitions without a leader have one where they can."""
        self._update_partitions(
            lambda p, unclean: self._elect(p, unclean=unclean) if p.leader == NO_LEADER else p
        )

    def take_unclean(self) -> list[tuple[str, int]]:
        """Return the partitions that unclean elections gave a leader since the last call."""
        taken, self._unclean = self._unclean, []
        return taken

    def broker_down(self, broker_id: int, *, abrupt: bool = False) -> None:
        """Note a broker that is gone: it leaves in-sync replicas; what it led is led by others.

        `abrupt`: it died, instead of leaving in order; who is the controller then sees to it.
        """
        if broker_id not in self.image.brokers:
            return
        failover = abrupt and self.image.controller_id == broker_id
        self._publish(
            brokers={key: value for key, value in self.image.brokers.items() if key != broker_id}
        )
        rules = self.rules_of(self.image.controller_id)
        more = int(failover and rules.epoch_per_failover)
        self._update_partitions(
            lambda p, unclean: self._without(p, broker_id, rules, more, unclean=unclean)
        )

    def _without(
        self,
        partition: PartitionImage,
        broker_id: int,
        rules: ElectionRules,
        more_epochs: int,
        *,
        unclean: bool,
    ) -> PartitionImage:
        if broker_id not in partition.isr:
            return partition
        isr = tuple(member for member in partition.isr if member != broker_id)
        if not isr:  # rule 3: the last one keeps its place, it alone has every acknowledged record
            elected = self._elect(partition, unclean=unclean)
            return (
                self._lead(partition, NO_LEADER, partition.isr) if elected is partition else elected
            )
        if partition.leader != broker_id:
            if rules.epoch_per_removal:
                return self._lead(partition, partition.leader, isr)
            return replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)
        led = self._lead(partition, self._first_alive(partition.replicas, isr), isr)
        return replace(led, leader_epoch=led.leader_epoch + more_epochs)

    def _elect(self, partition: PartitionImage, *, unclean: bool) -> PartitionImage:
        leader = self._first_alive(partition.replicas, partition.isr)
        if leader == NO_LEADER:
            if unclean:
                leader = self._first_alive(partition.replicas, partition.replicas)
            return partition if leader == NO_LEADER else self._lead(partition, leader, (leader,))
        # Members that are still away cannot follow: they come back through `join_isr`.
        isr = tuple(member for member in partition.isr if member in self.image.brokers)
        return self._lead(partition, leader, isr)

    def _first_alive(self, replicas: Sequence[int], among: Sequence[int]) -> int:
        return next((r for r in replicas if r in among and r in self.image.brokers), NO_LEADER)

    @staticmethod
    def _lead(partition: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
        return replace(
            partition,
            leader=leader,
            isr=isr,
            leader_epoch=partition.leader_epoch + 1,
            partition_epoch=partition.partition_epoch + 1,
        )

    # -- topics --------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        configs: Mapping[str, str] | None = None,
    ) -> TopicImage:
        """Add a topic with partitions on the given brokers. Raises Refused as `check_new_topic`."""
        self.check_new_topic(name, assignment)
        partitions = tuple(PartitionImage(tuple(r), tuple(r), r[0], 0) for r in assignment)
        topic = TopicImage(name, self._new_topic_id(), partitions, dict(configs or {}))
        self._put_topic(topic)
        if not topic.internal:  # where others go does not depend on when a group was first used
            self._next_start += len(partitions)
        return topic

    def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace a topic's settings. Raises Refused (3) when there is none of that name."""
        self._put_topic(replace(self._topic(name), configs=dict(configs)))

    def add_partitions(self, name: str, assignment: Sequence[Sequence[int]]) -> None:
        """Give a topic more partitions, on the given brokers. Raises Refused (3, 39)."""
        topic = self._topic(name)
        self.check_assignment(assignment)
        added = tuple(PartitionImage(tuple(r), tuple(r), r[0], 0) for r in assignment)
        self._put_topic(replace(topic, partitions=(*topic.partitions, *added)))
        self._next_start += len(added)

    def _topic(self, name: str) -> TopicImage:
        topic = self.image.topics.get(name)
        if topic is None:
            raise Refused(
                UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
        return topic

    def check_new_topic(self, name: str, assignment: Sequence[Sequence[int]]) -> None:
        """Raise Refused (17, 36, 39) when such a topic cannot be created."""
        naming.check_topic_name(name)
        if name in self.image.topics:
            raise Refused(TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        naming.check_collisions(name, self.image.topics)
        self.check_assignment(assignment)

    def check_assignment(self, assignment: Sequence[Sequence[int]]) -> None:
        """Raise Refused (39) when partitions cannot lie on these brokers."""
        for replicas in assignment:
            unknown = [broker for broker in replicas if broker not in self.image.brokers]
            if unknown or len(set(replicas)) != len(replicas) or not replicas:
                raise Refused(
                    INVALID_REPLICA_ASSIGNMENT,
                    f"replicas {list(replicas)} are not distinct brokers alive",
                )

    def spread(
        self, partitions: int, replication_factor: int, *, start: int | None = None
    ) -> list[list[int]]:
        """Return an assignment over the brokers alive, leaders in turn. Raises Refused (37, 38)."""
        first = self._next_start if start is None else start
        return naming.spread(sorted(self.image.brokers), partitions, replication_factor, first)

    def delete_topic(self, name: str) -> None:
        """Remove a topic. Raises Refused (3) when there is none of that name."""
        topic = self._topic(name)
        topics = {key: value for key, value in self.image.topics.items() if key != name}
        names = {key: value for key, value in self.image.names.items() if key != topic.topic_id}
        self._publish(topics=topics, names=names)

    # -- partitions ----------------------------------------------------------------------------

    def move_leader(self, topic: str, index: int, to: int) -> None:
        """Make `to` the leader, epoch + 1. Raises Refused unless it is in sync and alive."""
        partition = self._partition(topic, index)
        if to not in partition.isr or to not in self.image.brokers:
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT,
                f"broker {to} is not an in-sync replica of {topic}-{index} alive",
            )
        self._put_partition(topic, index, self._lead(partition, to, partition.isr))

    def elect_preferred(self, topic: str, index: int) -> bool:
        """Let the first replica lead if alive and in sync; return whether the leader changed."""
        partition = self._partition(topic, index)
        first = partition.replicas[0]
        if (
            first == partition.leader
            or first not in partition.isr
            or first not in self.image.brokers
        ):
            return False
        self._put_partition(topic, index, self._lead(partition, first, partition.isr))
        return True

    def elect_unclean(self, topic: str, index: int, to: int) -> None:
        """Let a replica lead that need not be in sync, as the only one in sync, epoch + 1.

        Raises Refused when `to` holds no replica or is not alive.
        """
        partition = self._partition(topic, index)
        if to not in partition.replicas or to not in self.image.brokers:
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT,
                f"broker {to} holds no replica of {topic}-{index}, or is not alive",
            )
        self._put_partition(topic, index, self._lead(partition, to, (to,)))

    def add_replica(self, topic: str, index: int, member: int) -> None:
        """Let one more broker hold the partition; it is in sync once it has caught up."""
        partition = self._partition(topic, index)
        replicas = (*partition.replicas, member)
        added = replace(partition, replicas=replicas, partition_epoch=partition.partition_epoch + 1)
        self._put_partition(topic, index, added)

    def remove_replica(self, topic: str, index: int, member: int) -> None:
        """Take the partition away from a broker that does not lead it."""
        partition = self._partition(topic, index)
        removed = replace(
            partition,
            replicas=tuple(r for r in partition.replicas if r != member),
            isr=tuple(r for r in partition.isr if r != member),
            partition_epoch=partition.partition_epoch + 1,
        )
        self._put_partition(topic, index, removed)

    def join_isr(self, joins: Iterable[Join]) -> None:
        """Add followers that have caught up to the in-sync replicas, at once; epochs stay."""
        changed: dict[tuple[str, int], PartitionImage] = {}
        for topic, index, member in joins:
            partition = changed.get((topic, index)) or self._partition(topic, index)
            if member in partition.replicas and member not in partition.isr:
                isr = tuple(r for r in partition.replicas if r in partition.isr or r == member)
                changed[topic, index] = replace(
                    partition, isr=isr, partition_epoch=partition.partition_epoch + 1
                )
        self._put_partitions(changed)

    def leave_isr(self, topic: str, index: int, member: int) -> None:
        """Take a follower that lags or lost its disk out of the in-sync replicas; epochs stay."""
        partition = self._partition(topic, index)
        if member not in partition.isr or member == partition.leader:
            return
        isr = tuple(r for r in partition.isr if r != member)
        left = replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)
        self._put_partition(topic, index, left)

    # -- images ------------------------------------------------------------------------------

    def _partition(self, topic: str, index: int) -> PartitionImage:
        found = self.image.partition(topic, index)
        if found is None:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
        return found

    def _put_partition(self, topic: str, index: int, partition: PartitionImage) -> None:
        self._put_partitions({(topic, index): partition})

    def _put_partitions(self, changed: Mapping[tuple[str, int], PartitionImage]) -> None:
        """Replace partitions in one image: one by one, an image each, would be quadratic."""
        by_topic: dict[str, list[PartitionImage]] = {}
        for (name, index), partition in changed.items():
            if name not in by_topic:
                by_topic[name] = list(self.image.topics[name].partitions)
            by_topic[name][index] = partition
        if by_topic:
            topics = dict(self.image.topics)
            for name, partitions in by_topic.items():
                topics[name] = replace(topics[name], partitions=tuple(partitions))
            self._publish(topics=topics)

    def _put_topic(self, topic: TopicImage) -> None:
        self._publish(
            topics={**self.image.topics, topic.name: topic},
            names={**self.image.names, topic.topic_id: topic.name},
        )

    def _update_partitions(self, change: Callable[[PartitionImage, bool], PartitionImage]) -> None:
        """Replace partitions; `change` learns whether their topic allows unclean elections."""
        topics = dict(self.image.topics)
        for name, topic in topics.items():
            unclean = self.elects_unclean(topic)
            partitions = tuple(change(partition, unclean) for partition in topic.partitions)
            if partitions != topic.partitions:
                self._unclean += [
                    (name, index)
                    for index, (old, new) in enumerate(
                        zip(topic.partitions, partitions, strict=True)
                    )
                    if new.leader not in (NO_LEADER, *old.isr)
                ]
                topics[name] = replace(topic, partitions=partitions)
        self._publish(topics=topics)

    def _publish(
        self,
        *,
        brokers: Mapping[int, BrokerImage] | None = None,
        topics: Mapping[str, TopicImage] | None = None,
        names: Mapping[bytes, str] | None = None,
    ) -> None:
        old = self.image
        self.image = ClusterImage(
            old.cluster_id,
            old.epoch + 1,
            old.brokers if brokers is None else brokers,
            old.topics if topics is None else topics,
            old.names if names is None else names,
        )
