"""What becomes of partitions that could not be asked for, or were refused: each is tried again,
after a pause and at the leader that metadata has by then, or ends with its error.
"""

from __future__ import annotations

from collections.abc import Iterable

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Reaction, classify
from parley.client.fetch.answers import Asked
from parley.client.fetch.incremental import SESSION_ERRORS
from parley.client.fetch.state import PartitionFetch, retry_delay
from parley.client.fetch.tasks import Tasks
from parley.errors import KafkaError, NetworkError, broker_error
from parley.errors.codes import FETCH_SESSION_TOPIC_ID_ERROR, LEADER_NOT_AVAILABLE


class Troubles:
    """The failed attempts of one fetcher. Belongs to the event loop.

    With `patience_ms` a partition ends where it fails for so long.
    """

    def __init__(self, cluster: Cluster, patience_ms: int | None, tasks: Tasks) -> None:
        self._cluster, self._patience_ms, self._tasks = cluster, patience_ms, tasks
        self.refreshing = False
        """Whether metadata is being asked for because of them."""

    def leaderless(self, part: PartitionFetch) -> None:
        """Count an attempt at a partition that nobody leads as failed."""
        topic, partition = part.tp
        code = self._cluster.cache.topic_error(topic)
        if code:
            error = broker_error(code, topic=topic, partition=partition, api="METADATA")
            if classify(error) is Reaction.FAIL:
                part.positions.stop(error)
                return
        text = "no broker leads this partition at the moment"
        none = broker_error(LEADER_NOT_AVAILABLE, text, topic=topic, partition=partition)
        self.failed(part, none, refresh=True)

    def request_failed(self, asked: Iterable[Asked], error: KafkaError) -> None:
        """Count an attempt at all partitions of a request as failed, by an error that may pass."""
        code = getattr(error, "code", 0)
        refresh = (
            isinstance(error, NetworkError)
            or error.refresh_metadata
            or code == FETCH_SESSION_TOPIC_ID_ERROR
        )
        for one in asked:
            immediate = code in SESSION_ERRORS and not one.part.attempts
            epoch = one.position.leader_epoch
            self.failed(one.part, error, refresh=refresh, immediate=immediate, epoch=epoch)

    def position_failed(self, asked: Asked, error: KafkaError, *, passing: bool = False) -> None:
        """L2: what goes wrong here is tried again or reported; no position is reset for it."""
        if classify(error) is Reaction.FAIL and not passing:
            asked.part.positions.stop(error)
            return
        refresh = isinstance(error, NetworkError) or error.refresh_metadata or passing
        self.failed(asked.part, error, refresh=refresh, epoch=asked.position.leader_epoch)

    def failed(
        self,
        part: PartitionFetch,
        error: KafkaError,
        *,
        refresh: bool,
        immediate: bool = False,
        epoch: int = -1,
    ) -> None:
        """Count one failed attempt at the leader of `epoch`; `immediate`: the next one is due."""
        cluster = self._cluster
        delay = retry_delay(part, cluster.backoff, cluster.rng(), immediate=immediate)
        final = part.failed(
            error, cluster.now_ms(), delay_ms=delay, patience_ms=self._patience_ms, epoch=epoch
        )
        if final is not None:
            part.positions.stop(final)
        elif refresh or part.stubborn:
            cluster.leader_failed(part.tp, epoch)
            self.refresh_soon()

    def refresh_soon(self) -> None:
        """Ask for metadata, unless it is being asked for."""
        if not self.refreshing:
            self.refreshing = True
            self._tasks.spawn(None, self._refresh)

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh_quietly(self._cluster.deadline())
        finally:
            self.refreshing = False
