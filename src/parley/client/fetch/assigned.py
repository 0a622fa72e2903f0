"""Reading what a consumer is assigned: partitions come and go; the caller says what it consumed."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

from parley.client.cluster.core import Cluster
from parley.client.fetch.fetcher import Fetcher
from parley.client.fetch.positions import Spec, Stage
from parley.client.fetch.state import FetchPolicy, PartitionFetch, RawFetch
from parley.client.options.client_options import FetchOptions
from parley.errors import BrokerError, KafkaError
from parley.errors.codes import MESSAGE_TOO_LARGE
from parley.types import TopicPartition


class AssignedFetch:
    """The reading of a consumer. Belongs to the event loop."""

    def __init__(
        self,
        cluster: Cluster,
        parts: Iterable[PartitionFetch],
        options: FetchOptions,
        policy: FetchPolicy,
    ) -> None:
        self.cluster = cluster
        self._fetcher = Fetcher(cluster, parts, options, policy)

    def start(self) -> None:
        """Begin to fetch. A topic that is not there yet is waited for."""
        self._want_topics()
        self._fetcher.register_interest()
        self._fetcher.kick()

    async def close(self) -> None:
        """Stop fetching, and end what brokers remember of it. Idempotent."""
        if not self._fetcher.closed:
            await self._fetcher.close()
            await self._fetcher.end_sessions()

    def replace(self, parts: Mapping[TopicPartition, PartitionFetch]) -> None:
        """Read these partitions from now on, and no others."""
        self._fetcher.replace(parts)
        self._want_topics()

    def _want_topics(self) -> None:
        self.cluster.schedule.want({tp.topic for tp in self._fetcher.parts})

    # -- handing out -------------------------------------------------------------------------------

    def take(
        self,
        wanted: Container[TopicPartition] | None,
        most_bytes: int,
        without: Collection[TopicPartition],
    ) -> list[tuple[PartitionFetch, RawFetch]]:
        """Return bytes that wait, of any or these partitions and of each once, and let the next
        be fetched.
        """
        parts = self._fetcher.parts
        found = self._fetcher.take_several(wanted, most_bytes, without)
        return [(parts[raw.tp], raw) for raw in found]

    def failure(self, wanted: Container[TopicPartition] | None = None) -> KafkaError | None:
        """Return the error in front of any, or of these partitions, once nothing waits there."""
        return self._fetcher.failure(wanted)

    async def changed(self) -> None:
        """Return when there may be something to take, or an error."""
        await self._fetcher.changed()

    def wake(self) -> None:
        """Let everybody who waits look again."""
        self._fetcher.wake()

    def reported(self, error: KafkaError) -> None:
        """Note that the caller got an error: what may be over by the next call is tried again.

        Damage, loss and what is too large stand until a seek.
        """
        passing = isinstance(error, BrokerError) and error.code != MESSAGE_TOO_LARGE
        for part in self._fetcher.forget_failure(error):
            if passing:
                part.not_before_ms = (
                    self.cluster.now_ms() + self.cluster.options.retry_backoff_max_ms
                )
                part.failed_epoch = part.positions.fetch.leader_epoch
                part.positions.go_on()
                self._fetcher.settle(part)
        self._fetcher.kick()

    # -- positions ---------------------------------------------------------------------------------

    def seek(self, part: PartitionFetch, offset: int, epoch: int = -1) -> None:
        """Go to an offset; what was fetched for another one is dropped, and an
        error that stands is over.
        """
        part.positions.seek(offset, epoch)
        self._moved(part)

    def reset(self, part: PartitionFetch, spec: Spec) -> None:
        """Go to an offset that has to be looked up."""
        part.positions.request_reset(spec)
        self._moved(part)

    def _moved(self, part: PartitionFetch) -> None:
        part.end = None
        self._fetcher.settle(part)
        self._fetcher.kick_soon()

    def pause(self, part: PartitionFetch) -> None:
        """Fetch and hand out nothing of a partition until it is resumed."""
        self._fetcher.pause(part)

    def resume(self, part: PartitionFetch) -> None:
        """Go on with a paused partition where it was."""
        self._fetcher.resume(part)

    def release(self, parts: Iterable[PartitionFetch]) -> None:
        """Fetch what was held back."""
        for part in parts:
            part.held = False
        self._fetcher.kick_soon()

    def stop(self, part: PartitionFetch, error: KafkaError) -> None:
        """Let an error that was found while decoding stand at the position of now."""
        self._fetcher.drop(part)
        part.positions.stop(error)
        self._fetcher.settle(part)

    @staticmethod
    def positioned(part: PartitionFetch) -> bool:
        """Return whether a partition has a position."""
        return (
            part.positions.stage not in (Stage.UNSET, Stage.AWAIT_RESET)
            and part.positions.consumed.offset >= 0
        )
