"""What can be done to a running cluster on purpose: brokers cut off, followers late, elections.

`AsyncScenes` is `cluster.scenes`, a part that the cluster owns. What it does to the state is
`state.scenes`; here are the brokers' sockets, and what follows later by the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parley.devcluster.brokers import Brokers
from parley.devcluster.refusals import refusals
from parley.devcluster.state.replication.ledger import LostRecords
from parley.devcluster.state.replication.links import ANY_LEADER, EVERYTHING, Links
from parley.devcluster.state.scenes import SceneState
from parley.devcluster.state.settings import ClusterSettings
from parley.devcluster.timers import Planned
from parley.errors import ConfigError

_MISS, _DROP = "miss", "drop"
"""What is planned: that the others miss a broker, and that a late follower is no longer in sync."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """How a broker is: `isolated`, given no news (`stale`), copying late or not (`lagging`)."""

    broker: int
    release: str
    address: str
    running: bool
    isolated: bool
    stale: bool
    lagging: bool


class AsyncScenes:
    """The scenes of one cluster: `AsyncLocalCluster.scenes`.

    They end with `heal`, `release_metadata`, `release_loading` and `catch_up`. Each raises
    ConfigError for a broker that there is not, or that does not run.
    """

    def __init__(self, brokers: Brokers, settings: ClusterSettings, planned: Planned) -> None:
        self._brokers = brokers
        self._settings = settings
        self._planned = planned
        self._made: SceneState | None = None
        brokers.on_down.append(self._broker_gone)

    @property
    def _scenes(self) -> SceneState:
        if self._made is None or self._made.state is not self._brokers.state:
            self._made = SceneState(self._brokers.state)
        return self._made

    @property
    def _links(self) -> Links:
        return self._brokers.state.replication.links

    def _broker_gone(self, broker_id: int) -> None:
        self._planned.call_off(_MISS, broker_id)
        self._scenes.gone(broker_id)

    # -- brokers that are cut off --------------------------------------------------------------

    async def isolate(
        self, broker_id: int, *, from_clients: bool = False, noticed: bool = True
    ) -> None:
        """Cut a broker off from the controller and the other brokers; its sockets stay open.

        It goes on with what it knows: it serves old metadata, and takes acks=1 records that are cut
        off again when it heals. `from_clients`: its clients hear nothing either, though their
        connections stay (half-open). The controller notices at once, or without `noticed` after the
        broker's session timeout.
        """
        broker = self._brokers.running(broker_id)
        self._scenes.isolate(broker_id)
        if from_clients:
            await broker.freeze()
        if noticed:
            self._miss(broker_id)
        else:
            delay_ms = self._settings.broker_session_timeout_ms
            self._planned.plan(_MISS, delay_ms, lambda: self._miss(broker_id), broker_id=broker_id)

    def _miss(self, broker_id: int) -> None:
        self._scenes.miss(broker_id, now_ms=self._brokers.now_ms)

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
        cut = sorted(self._links.isolated)
        for one in cut if broker_id is None else [self._brokers.running(broker_id).id]:
            self._planned.call_off(_MISS, one)
            self._scenes.heal(one, now_ms=self._brokers.now_ms)
            await self._brokers.find(one).thaw()

    async def thaw(self, broker_id: int) -> None:
        """Let a frozen broker run on: it takes the newest image, then answers what has piled up."""
        await self.heal(broker_id)

    def hold_metadata(self, broker_id: int) -> None:
        """Let a broker hear of no change any more: it reports old leaders, and
        believes that it still leads.
        """
        self._brokers.running(broker_id)
        self._links.stale.add(broker_id)

    def release_metadata(self, broker_id: int | None = None) -> None:
        """Let a broker, or all of them, hear of every change again, and of those it missed."""
        stale = self._links.stale
        stale -= set(stale) if broker_id is None else {self._brokers.find(broker_id).id}
        self._scenes.in_step(now_ms=self._brokers.now_ms)

    # -- coordinators that load ----------------------------------------------------------------

    def hold_loading(self, broker_id: int | None = None) -> None:
        """Let a broker, or all of them, not finish to load the groups and transactional ids that
        come to it: COORDINATOR_LOAD_IN_PROGRESS until `release_loading`.

        They come to it when its coordinator moves or is killed, and to itself when it starts again.
        What it coordinates already it goes on with; so it does with transactional ids that nobody
        has used yet.
        """
        found = self._brokers if broker_id is None else [self._brokers.find(broker_id)]
        self._brokers.state.loading.held.update(one.id for one in found)

    def release_loading(self, broker_id: int | None = None) -> None:
        """Let a broker, or all of them, finish loading what was held."""
        state = self._brokers.state
        held = state.loading.held
        held -= set(held) if broker_id is None else {self._brokers.find(broker_id).id}
        state.finish_loading(now_ms=self._brokers.now_ms)
        self._brokers.arm_timers()

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
        self._brokers.find(broker_id)
        if leader is not None and self._brokers.find(leader).id == broker_id:
            raise ConfigError(f"broker {broker_id} cannot lag behind itself; name another leader")
        behind = ANY_LEADER if leader is None else leader
        self._scenes.lag(broker_id, EVERYTHING if records is None else records, behind)
        if in_sync:
            delay_ms = self._settings.replica_lag_time_max_ms
            self._planned.plan(_DROP, delay_ms, lambda: self._drop(broker_id), broker_id=broker_id)
        else:
            self._drop(broker_id, only_behind=False)

    def _drop(self, broker_id: int, *, only_behind: bool = True) -> None:
        now_ms = self._brokers.now_ms
        self._scenes.drop_laggards(broker_id, now_ms=now_ms, only_behind=only_behind)

    def catch_up(self, broker_id: int | None = None, *, leader: int | None = None) -> None:
        """End the lag of a follower, or of all, behind one leader or behind all; who has
        caught up is in sync again.
        """
        self._planned.call_off(_DROP, broker_id)
        self._scenes.catch_up(broker_id, leader, now_ms=self._brokers.now_ms)

    def shrink_isr(self, topic: str, partition: int, broker_id: int) -> None:
        """Take a follower that lags out of a partition's in-sync replicas, before its time is up.

        Raises ConfigError when it is not an in-sync follower, or does not lag (it would join again
        at once).
        """
        with refusals():
            self._scenes.leave_isr(topic, partition, broker_id, now_ms=self._brokers.now_ms)

    # -- elections -----------------------------------------------------------------------------

    def elect_preferred(
        self, topic: str | None = None, partition: int | None = None
    ) -> list[tuple[str, int]]:
        """Let the first replicas lead where they are alive and in sync; return the partitions whose
        leader changed.

        Of one partition, of a topic's, or of all. Raises ConfigError for an unknown topic or
        partition.
        """
        wanted = self._partitions(topic, partition)
        with refusals():
            return self._scenes.elect_preferred(wanted, now_ms=self._brokers.now_ms)

    def _partitions(self, topic: str | None, partition: int | None) -> list[tuple[str, int]] | None:
        if topic is None:
            if partition is not None:
                raise ConfigError(f"partition {partition} of which topic? name it")
            return None
        if partition is not None:
            return [(topic, partition)]
        image = self._brokers.state.image.topics.get(topic)
        if image is None:
            raise ConfigError(f'there is no topic "{topic}"; create it first')
        return [(topic, index) for index in range(len(image.partitions))]

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
            return self._scenes.elect_unclean(
                topic, partition, to, lose=lose, now_ms=self._brokers.now_ms
            )

    # -- topics --------------------------------------------------------------------------------

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
        for broker_id in self._brokers.all_running("unaware", unaware):
            self.hold_metadata(broker_id)
        now_ms = self._brokers.now_ms
        with refusals():
            self._scenes.recreate_topic(
                name, partitions, replication_factor, configs, now_ms=now_ms
            )
