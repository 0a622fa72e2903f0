"""The scenes of a cluster for blocking code: `scenes.SceneCalls`, method by method."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from parley.devcluster.scenes import BrokerStatus, SceneCalls
from parley.devcluster.state.agreement import Agreement
from parley.devcluster.state.ledger import LostRecords

T = TypeVar("T")


class BlockingScenes:
    """A part of `LocalCluster`."""

    _cluster: SceneCalls

    if TYPE_CHECKING:

        def _run(self, work: Coroutine[Any, Any, T]) -> T: ...

        def _call(self, function: Callable[..., T], *arguments: Any, **keywords: Any) -> T: ...

    # -- brokers that are cut off --------------------------------------------------------------

    def status(self) -> list[BrokerStatus]:
        """Return how each broker is: its release and address, whether it runs, and what was done to it."""
        return self._call(self._cluster.status)

    def isolate(self, broker_id: int, *, from_clients: bool = False, noticed: bool = True) -> None:
        """Cut a broker off from the controller and the other brokers; its sockets stay open.

        It goes on with what it knows: it serves old metadata, and takes acks=1 records that are cut off
        again when it heals. `from_clients`: its clients hear nothing either, though their connections stay
        (half-open). The controller notices at once, or without `noticed` after the broker's session timeout.
        """
        self._run(self._cluster.isolate(broker_id, from_clients=from_clients, noticed=noticed))

    def freeze(self, broker_id: int, *, noticed: bool = False) -> None:
        """Let a broker's process stand still, as SIGSTOP does: connections are accepted, nothing is answered.

        The others miss it after its session timeout, or at once if `noticed`.
        """
        self._run(self._cluster.freeze(broker_id, noticed=noticed))

    def heal(self, broker_id: int | None = None) -> None:
        """End what `isolate` or `freeze` did to a broker, or to all of them: it catches up, then serves again."""
        self._run(self._cluster.heal(broker_id))

    def thaw(self, broker_id: int) -> None:
        """Let a frozen broker run on: it takes the newest picture, then answers what has piled up."""
        self._run(self._cluster.thaw(broker_id))

    def hold_metadata(self, broker_id: int) -> None:
        """Let a broker hear of no change any more: it tells old leaders, and believes that it still leads."""
        self._call(self._cluster.hold_metadata, broker_id)

    def release_metadata(self, broker_id: int | None = None) -> None:
        """Let a broker, or all of them, hear of every change again, and of those it missed."""
        self._call(self._cluster.release_metadata, broker_id)

    # -- followers that are held back ----------------------------------------------------------

    def lag(
        self, broker_id: int, records: int | None = None, *, leader: int | None = None, in_sync: bool = True
    ) -> None:
        """Hold a follower back by so many records, or wholly (None), until `catch_up`; whole batches, of course.

        `leader`: only what that broker leads. It stays in sync for replica.lag.time.max.ms of the
        cluster's clock, so that acks=all waits for it; not at all with `in_sync=False`.
        """
        self._call(self._cluster.lag, broker_id, records, leader=leader, in_sync=in_sync)

    def catch_up(self, broker_id: int | None = None, *, leader: int | None = None) -> None:
        """End the lag of a follower, or of all, behind one leader or behind all; who has caught up is in sync again."""
        self._call(self._cluster.catch_up, broker_id, leader=leader)

    def shrink_isr(self, topic: str, partition: int, broker_id: int) -> None:
        """Take a follower that lags out of a partition's in-sync replicas, before its time is up.

        Raises ConfigError when it is not an in-sync follower, or does not lag (it would join again at once).
        """
        self._call(self._cluster.shrink_isr, topic, partition, broker_id)

    # -- elections -----------------------------------------------------------------------------

    def elect_preferred(self, topic: str | None = None, partition: int | None = None) -> list[tuple[str, int]]:
        """Let the first replicas lead where they are alive and in sync; return the partitions whose leader changed.

        Of one partition, of a topic's, or of all. Raises ConfigError for an unknown topic or partition.
        """
        return self._call(self._cluster.elect_preferred, topic, partition)

    def elect_unclean(self, topic: str, partition: int = 0, to: int | None = None, *, lose: int = 0) -> LostRecords:
        """Let a replica lead that is not in sync, epoch + 1, and return the acknowledged records lost by it.

        Without `to` the first one alive that is behind. `lose` first cuts that many records off the new
        leader's log (whole batches: produce in batches that end there for an exact number), and takes any
        follower alive. Who follows it cuts its own log, now or when it returns. Raises ConfigError.
        """
        return self._call(self._cluster.elect_unclean, topic, partition, to, lose=lose)

    def isr(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Return the in-sync replicas by partition. Raises ConfigError for an unknown topic."""
        return self._call(self._cluster.isr, topic)

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
        """Delete a topic and create another of that name, with a new id; what is not given is as before.

        Brokers in `unaware` go on serving the old one until `release_metadata`. Raises ConfigError.
        """
        self._call(self._cluster.recreate_topic, name, partitions, replication_factor, configs, unaware=unaware)

    def add_partitions(self, topic: str, total: int, *, unaware: Sequence[int] = ()) -> None:
        """Give a topic more partitions, up to `total`; brokers in `unaware` hear of it at `release_metadata`.

        Raises ConfigError when the topic is unknown or has as many.
        """
        self._call(self._cluster.add_partitions, topic, total, unaware=unaware)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Delete the records below an offset (-1: the high watermark), and return where the log begins now.

        Raises ConfigError when the partition has no leader, or no such offset.
        """
        return self._call(self._cluster.delete_records, topic, partition, before_offset)

    def apply_retention(self) -> dict[str, dict[int, int]]:
        """Delete what retention.ms and retention.bytes of the topics no longer keep; return the logs' new starts.

        Comes by itself every log.retention.check.interval.ms of the cluster's clock. Only topics that set one
        of the two lose anything, and only whole segments.
        """
        return self._call(self._cluster.apply_retention)

    # -- the check -----------------------------------------------------------------------------

    def check_replicas(self) -> Agreement:
        """Compare all replicas and what was acknowledged; return the account, whatever it says."""
        return self._call(self._cluster.check_replicas)

    def replicas_agree(self) -> Agreement:
        """Return the account of `check_replicas`. Raises DataLossError, which tells it, when they do not agree.

        In-sync replicas have equal bytes and leader epochs, no high watermark is above its log's end, and
        every record that acks=all was answered for is there, but for those that an unclean election named.
        """
        return self._call(self._cluster.replicas_agree)
