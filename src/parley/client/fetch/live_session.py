"""A reading whose partitions come and go, and whose caller says what was consumed: what a consumer stands on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from parley.client.fetch.positions import Spec, Stage
from parley.client.fetch.session import FetchSession
from parley.client.fetch.state import PartitionFetch
from parley.errors import BrokerError, KafkaError
from parley.types import TopicPartition

MESSAGE_TOO_LARGE = 10


class LiveSession(FetchSession):
    """The reading of a consumer. Belongs to the event loop."""

    _kicking = False

    @property
    def parts(self) -> Mapping[TopicPartition, PartitionFetch]:
        """The partitions being read."""
        return self._parts

    async def start(self) -> None:
        """Begin to fetch. A topic that is not there yet is waited for."""
        self._interest()
        self.kick()

    async def close(self) -> None:
        """Stop fetching, and end what brokers remember of it. Idempotent."""
        if not self._closed:
            await super().close()
            await self._lanes.end_sessions()

    def replace(self, parts: Iterable[PartitionFetch]) -> None:
        """Read these partitions from now on, and no others."""
        new = {part.tp: part for part in parts}
        for tp, part in self._parts.items():
            if new.get(tp) is not part:
                self._queue.drop(part)
                part.flight = None
                self._stopped.discard(tp)
        self._parts = new
        self._interest()
        self.kick()

    def _interest(self) -> None:
        self._cluster.schedule.want({tp.topic for tp in self._parts})
        self._scope.close()
        self._scope.enter_context(self._cluster.interested(self._parts))

    def seek(self, part: PartitionFetch, offset: int, epoch: int = -1) -> None:
        """Go to an offset; what was fetched for another one is dropped, and an error that stands is over."""
        part.place.seek(offset, epoch)
        self._moved(part)

    def reset(self, part: PartitionFetch, spec: Spec) -> None:
        """Go to a place that has to be looked up."""
        part.place.request_reset(spec)
        self._moved(part)

    def _moved(self, part: PartitionFetch) -> None:
        part.end = None
        self._settle(part)
        self._kick_soon()

    def _kick_soon(self) -> None:
        """Kick once for all partitions that are moved now: they are then asked about together."""
        if not self._kicking:
            self._kicking = True
            asyncio.get_running_loop().call_soon(self._kick_now)

    def _kick_now(self) -> None:
        self._kicking = False
        self.kick()

    def pause(self, part: PartitionFetch) -> None:
        """Fetch and hand out nothing of a partition until it is resumed."""
        if not part.paused:
            part.paused = True
            self._queue.pause(part)

    def resume(self, part: PartitionFetch) -> None:
        """Go on with a paused partition where it was."""
        if part.paused:
            part.paused = False
            self._queue.resume(part)
            self._wake()
            self._kick_soon()

    def stop(self, part: PartitionFetch, error: KafkaError) -> None:
        """Let an error that was found while decoding stand at the position of now."""
        self._queue.drop(part)
        part.place.stop(error)
        self._settle(part)

    def told(self, error: KafkaError) -> None:
        """Take note that the caller was told an error: what may be over by the next call is tried again then.

        Damage, loss and what is too large stand until a seek.
        """
        if self._failure is error:
            self._failure = None
        for tp in tuple(self._stopped):
            part = self._parts[tp]
            passing = isinstance(error, BrokerError) and error.code != MESSAGE_TOO_LARGE
            if part.place.error is error and passing:
                part.not_before_ms = self._cluster.now_ms() + self._cluster.options.retry_backoff_max_ms
                part.failed_epoch = part.place.fetch.leader_epoch
                part.place.go_on()
                self._settle(part)
        self.kick()

    def wake(self) -> None:
        """Let everybody who waits look again."""
        self._wake()

    @staticmethod
    def placed(part: PartitionFetch) -> bool:
        """Return whether a partition has a position."""
        return part.place.stage not in (Stage.UNSET, Stage.AWAIT_RESET) and part.place.consumed.offset >= 0
