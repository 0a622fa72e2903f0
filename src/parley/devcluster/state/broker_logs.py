"""How the logs of brokers are made: by which settings, from which disk, and where they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from parley.devcluster.state.controller import Controller
from parley.devcluster.state.dynamic_configs import DynamicConfigs
from parley.devcluster.state.image import ClusterImage, TopicImage
from parley.devcluster.state.keeper import Keeper
from parley.devcluster.state.log.batches import Bytes
from parley.devcluster.state.log.log import Changes, Log
from parley.devcluster.state.log.replica import NEVER_CLEANED, Cleaned, Replica, ReplicaKey
from parley.devcluster.state.persistence import Administered, cleaned_entry, start_entry
from parley.devcluster.state.replication.broker_state import BrokerState, MakeReplica


class BrokerLogs:
    """The maker of brokers' logs.

    `administered` has where DeleteRecords lets logs begin, and how far brokers have cleaned theirs.
    `changes` counts what may have given the cleaner something to do.
    """

    def __init__(
        self,
        configs: DynamicConfigs,
        keeper: Keeper,
        controller: Controller,
        check_crc: Callable[[Bytes], bool],
        administered: Administered,
    ) -> None:
        self._configs, self._keeper, self._controller = configs, keeper, controller
        self._check_crc = check_crc
        self._administered = administered
        self.changes = Changes()

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
            replica.log.changes = self.changes
            replica.recover(None if self._keeper.is_clean else self._check_crc)
            replica.cleaned = self._administered.cleaned.get((broker_id, *key), NEVER_CLEANED)
            self.restart(replica)
            return replica

        return make

    def _watermark_min_isr(self, broker_id: int, topic: TopicImage, replicas: int) -> int:
        rules = self._controller.rules_of(broker_id)
        if not rules.watermark_needs_min_isr:
            return 1
        settings = self._configs.topic_settings(topic.configs, broker_id)
        return rules.min_isr(settings.min_insync_replicas, replicas)

    # -- settings ------------------------------------------------------------------------------

    def _apply_settings(self, replica: Replica, topic: TopicImage) -> None:
        settings = self._configs.topic_settings(topic.configs, replica.broker_id)
        replica.log.segment_bytes = settings.segment_bytes
        replica.log.segment_ms = self._configs.log_settings(
            topic.configs, replica.broker_id
        ).roll_ms

    def follow_settings(self, brokers: Iterable[BrokerState], topics: Iterable[TopicImage]) -> None:
        """Let the logs of topics go by their settings of now."""
        self.changes.count += 1
        for topic in topics:
            for broker in brokers:
                for index in range(len(topic.partitions)):
                    replica = broker.replicas.get(ReplicaKey(topic.topic_id, index))
                    if replica is not None:
                        self._apply_settings(replica, topic)

    # -- where they begin ----------------------------------------------------------------------

    def begin_at(self, key: ReplicaKey, offset: int) -> None:
        """Keep where the logs of a partition begin. Raises OSError, with nothing changed."""
        self._keeper.keep(start_entry(key.topic_id, key.partition, offset))
        self._administered.starts[key.topic_id, key.partition] = offset

    def restart(self, replica: Replica) -> None:
        """Let a log begin where DeleteRecords said, also on a broker that did not run then."""
        key = replica.key
        replica.log.advance_start(self._administered.starts.get((key.topic_id, key.partition), 0))
        replica.high_watermark = max(replica.high_watermark, replica.log.start_offset)

    # -- how far they are clean ----------------------------------------------------------------

    def cleaning_begins(self, replicas: Sequence[Replica], bound: int, name: str) -> None:
        """Keep that logs may have changed below `bound`. Raises OSError, with nothing changed."""
        self._keep_cleaned(
            {one: one.cleaned.differing(bound, f"{name}/{one.broker_id}") for one in replicas}
        )

    def cleaned(self, replicas: Sequence[Replica]) -> None:
        """Keep how far logs are clean; if the disk refuses, they are cleaned again some time."""
        with suppress(OSError):
            self._keep_cleaned({one: one.cleaned for one in replicas})

    def _keep_cleaned(self, found: Mapping[Replica, Cleaned]) -> None:
        self._keeper.keep(
            *(cleaned_entry(one.broker_id, one.key, cleaned) for one, cleaned in found.items())
        )
        for one, cleaned in found.items():
            self._administered.cleaned[one.broker_id, *one.key] = cleaned
