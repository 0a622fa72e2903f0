"""The whole cluster without sockets, clock or threads: what the handlers of all brokers share.

Rules of this file:
1. Every method is synchronous and takes the time as an argument.
2. What a client is sent has been kept first: topics and producer ids are in the journal before
   the method returns (`keeper`), groups and offsets in their topic (`group_coordinator`); where
   these cannot take them (full disk) nothing is changed. Leaders and in-sync sets change even then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parley.devcluster.state.broker_logs import BrokerLogs
from parley.devcluster.state.controller import Controller
from parley.devcluster.state.dynamic_configs import DynamicConfigs
from parley.devcluster.state.group_coordinator.coordinator import GroupCoordinator
from parley.devcluster.state.group_coordinator.topic import OFFSETS_TOPIC, OffsetsTopic
from parley.devcluster.state.groups.offsets import TRANSACTION, TRANSACTIONS_TOPIC, Coordinators
from parley.devcluster.state.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from parley.devcluster.state.journal import Entry
from parley.devcluster.state.keeper import Keeper
from parley.devcluster.state.loading import LoadingRules, Making
from parley.devcluster.state.log.batches import Bytes
from parley.devcluster.state.log.producers import DEFAULT_RULES, ProducerRules
from parley.devcluster.state.log.replica import Appended, Prepared, Replica, ReplicaKey
from parley.devcluster.state.persistence import (
    Restored,
    producers_entry,
    snapshot,
)
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.replication.broker_state import BrokerState
from parley.devcluster.state.replication.ledger import LostRecords
from parley.devcluster.state.replication.replication import Replication
from parley.devcluster.state.settings import ClusterSettings
from parley.devcluster.state.topics import TopicSettings
from parley.devcluster.state.transactions.coordinator import Transactions
from parley.devcluster.state.transactions.markers import Markers
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity, ProducerIds
from parley.devcluster.state.transactions.transaction import Partition
from parley.errors.codes import INVALID_REPLICA_ASSIGNMENT, OFFSET_OUT_OF_RANGE


class ClusterState:
    """Controller, replicas, groups and producer ids of one cluster."""

    def __init__(
        self,
        *,
        cluster_id: str,
        new_topic_id: Callable[[], bytes],
        check_crc: Callable[[Bytes], bool],
        directory: Path | None = None,
        settings: ClusterSettings | None = None,
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.loading = LoadingRules(self.settings.coordinator_loading_ms)
        self.making: Making[str] = Making(self.settings.coordinator_topics_creation_ms)
        topic = OffsetsTopic(
            self,
            self.settings.offsets_topic_num_partitions,
            self.settings.offsets_topic_replication_factor,
            self.making,
        )
        self.group_coordinator = GroupCoordinator(
            topic,
            self,
            new_topic_id,
            self.settings.group_consumer_migration_policy,
            self.loading,
        )
        self.groups = self.group_coordinator.offsets
        self.pending_offsets = self.group_coordinator.pending
        self.classic_groups = self.group_coordinator.classic_groups
        self.consumer_groups = self.group_coordinator.consumer_groups
        self.mixed_groups = self.group_coordinator.mixed_groups
        self.share_groups = self.group_coordinator.share_groups
        self.coordinators = Coordinators()
        self.producer_ids = ProducerIds()
        self.transactions = Transactions(
            self,
            Markers(self),
            self.producer_ids,
            expiration_ms=self.settings.transactional_id_expiration_ms,
            loading=self.loading,
        )
        self.transactions.coordinator_of = self._transaction_coordinator_of
        self.new_id = new_topic_id
        self.controller = Controller(cluster_id, new_topic_id)
        self.replication = Replication(self.controller)
        self.keeper = Keeper(directory, self._snapshot)
        found = self.keeper.restore(self.share_groups)
        self._administered = found.administered
        self.configs = DynamicConfigs(self.settings.topic_defaults, found.administered, self.keep)
        self.controller.elects_unclean = lambda topic: (
            self.configs.topic_settings(topic.configs).unclean_leader_election
        )
        self.logs = BrokerLogs(
            self.configs, self.keeper, self.controller, check_crc, found.administered
        )
        self.configs.on_broker_altered = self._follow_settings
        self._restore(found)
        self.keeper.begin(self.image)

    @property
    def image(self) -> ClusterImage:
        """The newest image of the cluster; a broker's own may be older."""
        return self.controller.image

    def directory_of(self, broker_id: int) -> Path | None:
        """Return where a broker's logs lie, None when they are in memory."""
        return self.keeper.directory_of(broker_id)

    # -- persistence ---------------------------------------------------------------------------

    def _restore(self, found: Restored) -> None:
        if found.cluster_id is not None:
            self.controller.image = replace(self.controller.image, cluster_id=found.cluster_id)
        self.controller.restore(list(found.topics.values()))
        self.producer_ids.restore(found.next_producer_id)
        self.transactions.restore(found.transactions)
        if found.transactions.by_name:
            self.making.finish(TRANSACTIONS_TOPIC)

    def _snapshot(self, image: ClusterImage) -> Iterator[Entry]:
        yield from snapshot(image, self.producer_ids, self.transactions, self._administered)
        yield from self.share_groups.snapshot()

    def keep(self, *entries: Entry) -> None:
        """Journal entries, all or none. Raises OSError when the disk refuses."""
        self.keeper.keep(*entries)

    def close(self) -> None:
        """Stop for good: everything reaches the disk, and the next start need not check it."""
        for broker in self.replication.brokers.values():
            broker.close(sync=True)
        self.keeper.close()

    # -- brokers -------------------------------------------------------------------------------

    def make_broker(self, broker_id: int) -> BrokerState:
        """Return the state of a broker that has not registered yet, its logs recovered."""
        return self.logs.make_broker(broker_id, self.image)

    def min_isr_of(self, leader: Replica, wanted: int) -> int:
        """Return how many replicas its leader demands in sync; `wanted`: min.insync.replicas."""
        found = self.image.partition(leader.topic, leader.key.partition)
        replicas = wanted if found is None else len(found.replicas)
        return self.controller.rules_of(leader.broker_id).min_isr(wanted, replicas)

    def brokers_up(self, brokers: Mapping[BrokerState, BrokerImage], *, now_ms: int) -> None:
        """Register brokers that begin to run; leaders are elected and followers brought in step."""
        if self.replication.brokers:
            self.transactions.coordinators_changed()
        for state in brokers:
            for replica in state.replicas.values():
                self.logs.restart(replica)
            self.replication.brokers[state.id] = state
            # what was deleted meanwhile goes before anything is read off its logs
            state.apply(self.image)
            self.controller.raise_epochs(
                {
                    (key.topic_id, key.partition): replica.epochs.latest
                    for key, replica in state.replicas.items()
                }
            )
        self.controller.brokers_up(*brokers.values())
        self.publish(now_ms=now_ms)
        self.transactions.follow(now_ms=now_ms)
        self.replication.sync_all(now_ms=now_ms)
        self.keeper.follow(self.image)
        self.transactions.resume(now_ms=now_ms)

    def broker_down(self, broker_id: int, *, now_ms: int, abrupt: bool = False) -> BrokerState:
        """Note that a broker is gone, or died (`abrupt`); what it led is led by others."""
        state = self.replication.brokers.pop(broker_id)
        self.transactions.coordinators_changed()
        self.controller.broker_down(broker_id, abrupt=abrupt)
        self.publish(now_ms=now_ms)
        self.transactions.follow(now_ms=now_ms)
        return state

    def publish(self, *, now_ms: int) -> None:
        """Hand the controller's newest image to the brokers, and journal it."""
        self._follow_unclean_elections()
        self.replication.publish(now_ms=now_ms)
        self.keeper.follow(self.image)
        self.group_coordinator.follow(now_ms=now_ms)
        self.transactions.resume(now_ms=now_ms)

    def _follow_unclean_elections(self) -> None:
        for topic, index in self.controller.take_unclean():
            image = self.image.topics[topic]
            holder = self.replication.brokers[image.partitions[index].leader]
            replica = holder.replicas.get(ReplicaKey(image.topic_id, index))
            if replica is not None:
                self.lead_uncleanly(replica, image.partitions[index])

    def lead_uncleanly(self, replica: Replica, elected: PartitionImage) -> LostRecords:
        """Let the leader of an unclean election lead before the others hear of it.

        What the ledger forgets is what its log lacks at that moment; it is returned.
        """
        replica.lead(elected.leader_epoch, elected.isr)
        lost = self.replication.ledger.lose(replica)
        if replica.topic == OFFSETS_TOPIC:
            self.group_coordinator.let_go(replica.key.partition)
        return lost

    # -- topics --------------------------------------------------------------------------------

    def settings_of(self, name: str) -> TopicSettings:
        """Return the settings that hold for a topic that exists."""
        return self.configs.topic_settings(self.image.topics[name].configs)

    def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        configs: Mapping[str, str],
        *,
        now_ms: int,
    ) -> TopicImage:
        """Create a topic on the given brokers. Raises Refused, or OSError when the disk is full."""
        self.configs.check(configs)
        before = self.controller.image
        topic = self.controller.create_topic(name, assignment, configs)
        self._keep_or_return_to(before)
        try:
            self.publish(now_ms=now_ms)
        except OSError:
            self.delete_topic(name, now_ms=now_ms)
            raise
        return topic

    def delete_topic(self, name: str, *, now_ms: int) -> None:
        """Delete a topic with its records and its committed offsets. Raises Refused or OSError."""
        before = self.controller.image
        self.controller.delete_topic(name)
        self._keep_or_return_to(before)
        self.group_coordinator.forget_topic(name, now_ms=now_ms)
        self.share_groups.forget_topic(before.topics[name].topic_id, now_ms=now_ms)
        self.replication.ledger.forget(set(self.image.names))
        self.publish(now_ms=now_ms)

    def alter_topic(self, name: str, configs: Mapping[str, str], *, now_ms: int) -> None:
        """Replace a topic's settings at once. Raises Refused or OSError, with nothing changed."""
        self.configs.check(configs)
        before = self.controller.image
        self.controller.set_configs(name, configs)
        self._keep_or_return_to(before)
        self.controller.elect_leaderless()
        self.publish(now_ms=now_ms)
        self._follow_settings(name)

    def _follow_settings(self, name: str | None = None) -> None:
        """Let the logs of a topic, or of all, go by their settings of now."""
        topics = self.image.topics
        found = topics.values() if name is None else [topics[name]]
        self.logs.follow_settings(self.replication.brokers.values(), found)

    def add_partitions(
        self, name: str, assignment: Sequence[Sequence[int]], *, now_ms: int
    ) -> None:
        """Give a topic more partitions. Raises Refused or OSError; nothing is changed then."""
        before = self.controller.image
        self.controller.add_partitions(name, assignment)
        self._keep_or_return_to(before)
        self.publish(now_ms=now_ms)

    def _keep_or_return_to(self, before: ClusterImage) -> None:
        try:
            self.keeper.keep_new(self.image)
        except OSError:
            self.controller.image = before
            raise

    def move_leader(self, topic: str, index: int, to: int, *, now_ms: int) -> None:
        """Make broker `to` the leader of a partition, epoch + 1.

        A broker that holds no replica takes the place of the present leader's, with a copy of its
        log. Raises Refused when `to` is not alive, or its replica is not in sync.
        """
        partition = self.image.partition(topic, index)
        if partition is None or to in partition.replicas:
            self.controller.move_leader(topic, index, to)
        elif to not in self.replication.brokers or partition.leader < 0:
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT,
                f"broker {to} is not alive, or {topic}-{index} has no leader",
            )
        else:
            old = partition.leader
            self.controller.add_replica(topic, index, to)
            self.publish(now_ms=now_ms)
            self.controller.move_leader(topic, index, to)
            self.publish(now_ms=now_ms)
            self.controller.remove_replica(topic, index, old)
        self.publish(now_ms=now_ms)

    def move_group_coordinator(self, group: str, to: int, *, now_ms: int) -> None:
        """Let a broker coordinate a group: it leads the group's partition. Raises as `move_leader`,
        or OSError.
        """
        self.group_coordinator.topic.create(now_ms=now_ms)
        topic, index = self.offsets_partition(group)
        partition = self.image.partition(topic, index)
        if partition is None or partition.leader != to:
            self.move_leader(topic, index, to, now_ms=now_ms)

    def move_transaction_coordinator(self, transactional_id: str, to: int, *, now_ms: int) -> None:
        """Let a broker coordinate a transactional id while it is alive."""
        self.coordinators.move(TRANSACTION, transactional_id, to)
        self.transactions.coordinators_changed()
        self.transactions.follow(now_ms=now_ms)

    def _transaction_coordinator_of(self, transactional_id: str) -> int:
        return self.coordinators.of(TRANSACTION, transactional_id, self.image.brokers.keys())

    def finish_loading(self, *, now_ms: int) -> None:
        """Let coordinators go on whose loading nothing holds any more."""
        self.group_coordinator.expire(now_ms=now_ms)
        self.transactions.loading.take_finished(now_ms)

    # -- records, groups, producers ------------------------------------------------------------

    def append(
        self,
        replica: Replica,
        sets: Sequence[Prepared],
        *,
        now_ms: int,
        rules: ProducerRules = DEFAULT_RULES,
    ) -> Appended:
        """Append to a leader's log and its followers'. Raises Refused or OSError (none kept)."""
        appended, stored = replica.append(sets, now_ms=now_ms, rules=rules)
        self.replication.push(replica, stored, appended.base_offset, now_ms=now_ms)
        self.keeper.follow(self.image)
        return appended

    def offsets_partition(self, group: str) -> Partition:
        """Return where a group's offsets are written."""
        return OFFSETS_TOPIC, self.group_coordinator.topic.partition_of(group)

    def transaction_ended(self, partition: Partition, producer_id: int, *, commit: bool) -> None:
        """Let offsets of a transaction count, or drop them, when its marker is on their log."""
        topic, index = partition
        if topic == OFFSETS_TOPIC:
            self.group_coordinator.end_pending(producer_id, index, commit=commit)

    def delete_group(self, group: str, *, now_ms: int) -> None:
        """Drop a group with its offsets. Raises OSError when the disk is full; it stays then."""
        if self.share_groups.get(group) is not None:
            self.keep({"kind": "no-group", "group": group})
            self.share_groups.delete(group)
        self.group_coordinator.delete_group(group, now_ms=now_ms)

    def delete_records(self, leader: Replica, offset: int) -> int:
        """Let a partition begin at `offset`; return the lowest start among its replicas that run.

        Raises Refused (OFFSET_OUT_OF_RANGE), or OSError when the disk is full.
        """
        if not 0 <= offset <= leader.high_watermark:
            raise Refused(
                OFFSET_OUT_OF_RANGE, f"{leader.topic} has no offset {offset} to delete up to"
            )
        key = leader.key
        if offset > leader.log.start_offset:
            self.logs.begin_at(key, offset)
        replicas = [b.replicas[key] for b in self.replication.brokers.values() if key in b.replicas]
        for replica in replicas:
            replica.log.advance_start(offset)
        return min(replica.log.start_offset for replica in replicas)

    def new_producer(self) -> ProducerIdentity:
        """Give a producer without transactional id an identity. Raises OSError for a full disk."""
        identity = ProducerIdentity(self.producer_ids.new(), 0)
        self.keep(producers_entry(self.producer_ids))
        return identity
