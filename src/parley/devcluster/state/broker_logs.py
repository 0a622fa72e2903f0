"""How the logs of brokers are made: by which settings, from which disk, and where they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from parley.devcluster.state.controller import Controller
from parley.devcluster.state.dynamic_configs import DynamicConfigs
from parley.devcluster.state.image import ClusterImage, TopicImage
from parley.devcluster.state.keeper import Keeper
from parley.devcluster.state.log.batches import Bytes
from parley.devcluster.state.log.log import Log
from parley.devcluster.state.log.replica import Replica, ReplicaKey
from parley.devcluster.state.replication.broker_state import BrokerState, MakeReplica


class BrokerLogs:
    """The maker of brokers' logs. `starts` says where DeleteRecords let them begin."""

    def __init__(
        self,
        configs: DynamicConfigs,
        keeper: Keeper,
        controller: Controller,
        check_crc: Callable[[Bytes], bool],
    ) -> None:
        self._configs, self._keeper, self._controller = configs, keeper, controller
        self._check_crc = check_crc
        self.starts: dict[tuple[bytes, int], int] = {}

    def make_broker(self, broker_id: int, image: ClusterImage) -> BrokerState:
        """Return the state of a broker that has not registered yet, its logs recovered."""
        state = BrokerState(
            broker_id, ClusterImage(image.cluster_id), self._replica_maker(broker_id)
        )
        state.watermark_min_isr = lambda topic, replicas: self._watermark_min_isr(
            broker_id, topic, replicas
        )
        state.apply(image)
        self._keeper.opened(broker_id)
        return state

    def _replica_maker(self, broker_id: int) -> MakeReplica:
        def make(topic: TopicImage, key: ReplicaKey) -> Replica:
            stores = self._keeper.stores(broker_id, topic.name, key)
            replica = Replica(topic.name, key, broker_id, Log(stores))
            self._apply_settings(replica, topic)
            replica.recover(None if self._keeper.is_clean else self._check_crc)
            self.restart(replica)
            return replica

        return make

    def _watermark_min_isr(self, broker_id: int, topic: TopicImage, replicas: int) -> int:
        rules = self._controller.rules_of(broker_id)
        if not rules.watermark_needs_min_isr:
            return 1
        settings = self._configs.topic_settings(topic.configs, broker_id)
        return rules.min_isr(settings.min_insync_replicas, replicas)

    def _apply_settings(self, replica: Replica, topic: TopicImage) -> None:
        settings = self._configs.topic_settings(topic.configs, replica.broker_id)
        replica.log.segment_bytes = settings.segment_bytes

    def follow_settings(self, brokers: Iterable[BrokerState], topic: TopicImage) -> None:
        """Let the logs of a topic go by its settings of now."""
        for broker in brokers:
            for index in range(len(topic.partitions)):
                replica = broker.replicas.get(ReplicaKey(topic.topic_id, index))
                if replica is not None:
                    self._apply_settings(replica, topic)

    def restart(self, replica: Replica) -> None:
        """Let a log begin where DeleteRecords said, also on a broker that did not run then."""
        replica.log.advance_start(self.starts.get((replica.key.topic_id, replica.key.partition), 0))
        replica.high_watermark = max(replica.high_watermark, replica.log.start_offset)
