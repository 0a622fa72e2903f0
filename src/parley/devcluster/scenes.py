"""The scenes that can be made with a running cluster: brokers cut off, followers late, leaders
elected.

`AsyncLocalCluster` has these methods; `LocalCluster` gives them to blocking code, and
`control` to other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.devcluster.broker import Broker
from parley.devcluster.refusals import refusals
from parley.devcluster.state.agreement import Agreement, check_agreement
from parley.devcluster.state.cluster_state import ClusterSettings, ClusterState
from parley.devcluster.state.log.replica import ReplicaKey
from parley.devcluster.state.replication.ledger import LostRecords
from parley.devcluster.state.replication.links import ANY_LEADER, EVERYTHING
from parley.devcluster.state.retention import apply_retention
from parley.devcluster.state.scenes import Scenes
from parley.errors import ConfigError, DataLossError
from parley.net import Clock
from parley.net.clock import TimerHandle
from parley.types import several


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """How a broker is: `isolated` from the others, given no news (`stale`), copying
    late or nothing (`lagging`).
    """

    broker: int
    release: str
    address: str
    running: bool
    isolated: bool
    stale: bool
    lagging: bool


class SceneCalls:
    """The scenes of a cluster. A part of `AsyncLocalCluster`, which has
    brokers, state and clock.
    """

    settings: ClusterSettings
    _clock: Clock
    _scenes_made: Scenes | None = None
    _planned: dict[tuple[str, int], TimerHandle]

    if TYPE_CHECKING:

        @property
        def state(self) -> ClusterState: ...

        @property
        def now_ms(self) -> int: ...

        @property
        def brokers(self) -> Sequence[Broker]: ...

        def broker(self, broker_id: int) -> Broker: ...

        def _running(self, broker_id: int) -> Broker: ...

    @property
    def _scenes(self) -> Scenes:
        if self._scenes_made is None or self._scenes_made.state is not self.state:
            self._scenes_made = Scenes(self.state)
        return self._scenes_made

    def _plan(self, what: str, broker_id: int, delay_ms: int, then: Callable[[], None]) -> None:
        self._call_off(what, broker_id)
        self._planned[what, broker_id] = self._clock.call_at_ms(
            self._clock.now_ms() + delay_ms, then
        )

    def _call_off(self, what: str | None = None, broker_id: int | None = None) -> None:
        for key in list(self._planned):
            if what in (None, key[0]) and broker_id in (None, key[1]):
                self._planned.pop(key).cancel()

    # -- brokers that are cut off --------------------------------------------------------------

    def status(self) -> list[BrokerStatus]:
        """Return how each broker is: its release and address, whether it runs,
        and what was done to it.
        """
        links = self.state.replication.links
        return [
            BrokerStatus(
                one.id,
                one.release,
                str(one.address),
                one.running,
                one.id in links.isolated,
                one.id in links.stale,
                links.is_slow(one.id),
            )
            for one in self.brokers
        ]

    async def isolate(
        self, broker_id: int, *, from_clients: bool = False, noticed: bool = True
    ) -> None:
        """Cut a broker off from the controller and the other brokers; its sockets stay open.

        It goes on with what it knows: it serves old metadata, and takes acks=1 records that are cut
        off again when it heals. `from_clients`: its clients hear nothing either, though their
        connections stay (half-open). The controller notices at once, or without `noticed` after the
        broker's session timeout.
        """
        broker = self._running(broker_id)
        self._scenes.isolate(broker_id)
        if from_clients:
            await broker.freeze()
        if noticed:
            self._scenes.miss(broker_id, now_ms=self.now_ms)
        else:
            delay_ms = self.settings.broker_session_timeout_ms
            self._plan(
                "miss",
                broker_id,
                delay_ms,
                lambda: self._scenes.miss(broker_id, now_ms=self.now_ms),
            )

    async def freeze(self, broker_id: int, *, noticed: bool = False) -> None:
        """Let a broker's process stand still, as SIGSTOP does: connections are accepted, nothing is
        answered.

        The others miss it after its session timeout, or at once if `noticed`.
        """
        await self.isolate(broker_id, from_clients=True, noticed=noticed)

    async def heal(self, broker_id: int | None = None) -> None:
        """End what `isolate` or `freeze` did to a broker, or to all of them: it
        catches up, then serves again.
        """
        cut = sorted(self.state.replication.links.isolated)
        for one in cut if broker_id is None else [self._running(broker_id).id]:
            self._call_off("miss", one)
            self._scenes.heal(one, now_ms=self.now_ms)
            await self.broker(one).thaw()

    async def thaw(self, broker_id: int) -> None:
        """Let a frozen broker run on: it takes the newest image, then answers what has piled up."""
        await self.heal(broker_id)

    def hold_metadata(self, broker_id: int) -> None:
        """Let a broker hear of no change any more: it reports old leaders, and
        believes that it still leads.
        """
        self._running(broker_id)
        self.state.replication.links.stale.add(broker_id)

    def release_metadata(self, broker_id: int | None = None) -> None:
        """Let a broker, or all of them, hear of every change again, and of those it missed."""
        stale = self.state.replication.links.stale
        stale -= set(stale) if broker_id is None else {self.broker(broker_id).id}
        self._scenes.in_step(now_ms=self.now_ms)

    # -- followers that are held back ----------------------------------------------------------

    def lag(
        self,
        broker_id: int,
        records: int | None = None,
        *,
        leader: int | None = None,
        in_sync: bool = True,
    ) -> None:
        """Hold a follower back by so many records, or wholly (None), until `catch_up`; whole
        batches, of course.

        `leader`: only what that broker leads. It stays in sync for replica.lag.time.max.ms of the
        cluster's clock, so that acks=all waits for it; not at all with `in_sync=False`.
        """
        if records is not None and records < 1:
            raise ConfigError(
                f"a lag of {records} records is none; give 1 or more, or leave it out for all"
            )
        self.broker(broker_id)
        if leader is not None and self.broker(leader).id == broker_id:
            raise ConfigError(f"broker {broker_id} cannot lag behind itself; name another leader")
        scenes = self._scenes
        scenes.lag(
            broker_id,
            EVERYTHING if records is None else records,
            ANY_LEADER if leader is None else leader,
        )
        if in_sync:
            delay_ms = self.settings.replica_lag_time_max_ms
            self._plan(
                "drop",
                broker_id,
                delay_ms,
                lambda: scenes.drop_laggards(broker_id, now_ms=self.now_ms),
            )
        else:
            scenes.drop_laggards(broker_id, now_ms=self.now_ms, only_behind=False)

    def catch_up(self, broker_id: int | None = None, *, leader: int | None = None) -> None:
        """End the lag of a follower, or of all, behind one leader or behind all; who has
        caught up is in sync again.
        """
        self._call_off("drop", broker_id)
        self._scenes.catch_up(broker_id, leader, now_ms=self.now_ms)

    def shrink_isr(self, topic: str, partition: int, broker_id: int) -> None:
        """Take a follower that lags out of a partition's in-sync replicas, before its time is up.

        Raises ConfigError when it is not an in-sync follower, or does not lag (it would join again
        at once).
        """
        with refusals():
            self._scenes.leave_isr(topic, partition, broker_id, now_ms=self.now_ms)

    # -- elections -----------------------------------------------------------------------------

    def elect_preferred(
        self, topic: str | None = None, partition: int | None = None
    ) -> list[tuple[str, int]]:
        """Let the first replicas lead where they are alive and in sync; return the partitions whose
        leader changed.

        Of one partition, of a topic's, or of all. Raises ConfigError for an unknown topic or
        partition.
        """
        with refusals():
            return self._scenes.elect_preferred(
                self._partitions(topic, partition), now_ms=self.now_ms
            )

    def elect_unclean(
        self, topic: str, partition: int = 0, to: int | None = None, *, lose: int = 0
    ) -> LostRecords:
        """Let a replica lead that is not in sync, epoch + 1, and return the acknowledged records
        lost by it.

        Without `to` the first one alive that is behind. `lose` first cuts that many records off the
        new leader's log (whole batches: produce in batches that end there for an exact number), and
        takes any follower alive. Who follows it cuts its own log, now or when it returns. Raises
        ConfigError.
        """
        if lose < 0:
            raise ConfigError(
                f"lose={lose} is negative; 0 takes no record off the new leader's log"
            )
        with refusals():
            return self._scenes.elect_unclean(topic, partition, to, lose=lose, now_ms=self.now_ms)

    def isr(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Return the in-sync replicas by partition.

        Raises ConfigError for an unknown topic.
        """
        image = self.state.image.topics.get(topic)
        if image is None:
            raise ConfigError(f'there is no topic "{topic}"; create it first')
        return {index: partition.isr for index, partition in enumerate(image.partitions)}

    def _partitions(self, topic: str | None, partition: int | None) -> list[tuple[str, int]] | None:
        if topic is None:
            if partition is not None:
                raise ConfigError(f"partition {partition} of which topic? name it")
            return None
        indexes: Iterable[int] = self.isr(topic) if partition is None else [partition]
        return [(topic, index) for index in indexes]

    # -- topics and records --------------------------------------------------------------------

    def recreate_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        unaware: Sequence[int] = (),
    ) -> None:
        """Delete a topic and create another of that name, with a new id; what is not given is as
        before.

        Brokers in `unaware` go on serving the old one until `release_metadata`. Raises ConfigError.
        """
        for broker_id in self._known(unaware):
            self.hold_metadata(broker_id)
        with refusals():
            self._scenes.recreate_topic(
                name, partitions, replication_factor, configs, now_ms=self.now_ms
            )

    def add_partitions(self, topic: str, total: int, *, unaware: Sequence[int] = ()) -> None:
        """Give a topic more partitions, up to `total`; brokers in `unaware` hear of it at
        `release_metadata`.

        Raises ConfigError when the topic is unknown or has as many.
        """
        known = self.isr(topic)
        if total <= len(known):
            raise ConfigError(
                f"{topic} has {len(known)} partitions already, {total} are no more; give a "
                "larger total"
            )
        for broker_id in self._known(unaware):
            self.hold_metadata(broker_id)
        factor = len(self.state.image.topics[topic].partitions[0].replicas)
        with refusals():
            assignment = self.state.controller.spread(total - len(known), factor)
            self.state.add_partitions(topic, assignment, now_ms=self.now_ms)

    def _known(self, unaware: Sequence[int]) -> list[int]:
        """Return the ids of brokers that run. Raises ConfigError, before anything is
        done, for one that does not.
        """
        return [
            self._running(broker_id).id for broker_id in several("unaware", unaware, "broker ids")
        ]  # type: ignore[arg-type]

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Delete the records below an offset (-1: the high watermark), and return where the log
        begins now.

        Raises ConfigError when the partition has no leader, or no such offset.
        """
        image = self.state.image.topics.get(topic)
        key = None if image is None else ReplicaKey(image.topic_id, partition)
        leader = None if key is None else self.state.replication.leader_of(key)
        if leader is None:
            raise ConfigError(
                f"{topic}-{partition} does not exist or has no leader; see leaders({topic!r})"
            )
        with refusals():
            return self.state.delete_records(
                leader, leader.high_watermark if before_offset < 0 else before_offset
            )

    def apply_retention(self) -> dict[str, dict[int, int]]:
        """Delete what retention.ms and retention.bytes of the topics no longer keep; return the
        logs' new starts.

        Comes by itself every log.retention.check.interval.ms of the cluster's clock. Where a topic
        sets neither, and nobody altered log.retention.ms or log.retention.bytes of its leader or of
        all brokers, nothing is lost; else only whole segments are.
        """
        return apply_retention(self.state, now_ms=self.now_ms)

    def _plan_retention(self) -> None:
        def check() -> None:
            apply_retention(self.state, now_ms=self.now_ms)
            self._plan_retention()

        self._plan("retention", 0, self.settings.log_retention_check_interval_ms, check)

    # -- the check -----------------------------------------------------------------------------

    def check_replicas(self) -> Agreement:
        """Compare all replicas and what was acknowledged; return the account, whatever it says."""
        return check_agreement(self.state)

    def replicas_agree(self) -> Agreement:
        """Return the account of `check_replicas`. Raises DataLossError, which has it, when they do
        not agree.

        In-sync replicas have equal bytes and leader epochs, no high watermark is above its log's
        end, and every record that acks=all was answered for is there, but for those that an unclean
        election named.
        """
        found = check_agreement(self.state)
        if not found.agrees:
            raise DataLossError(f"the replicas do not agree: {found}")
        return found
