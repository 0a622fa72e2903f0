"""The writing side of a transactional producer: the ordinary one, under a given identity."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable

from parley.client.cluster.core import Cluster
from parley.client.options.client_options import ProduceOptions
from parley.client.produce.producer import Producer, Writing
from parley.client.produce.requests import LANE
from parley.client.produce.state import OutBatch, ProduceCall
from parley.client.results import ProduceResult
from parley.client.transactions.state import Identity
from parley.errors import BrokerError, KafkaError, LocalProtocolError
from parley.errors.codes import UNKNOWN_PRODUCER_ID
from parley.types import TopicPartition
from parley.versions import Feature

Admit = Callable[[list[OutBatch]], Awaitable[None]]


class TransactionWriter(Producer):
    """Encodes and sends the rows of one transaction at a time."""

    def __init__(self, cluster: Cluster, admit: Admit) -> None:
        super().__init__(cluster)
        self._admit = admit
        self._calls: set[ProduceCall] = set()

    def begin(self, topic: str | None, partition: int | None, options: ProduceOptions) -> Writing:
        """Return a new call; nothing is sent yet."""
        writing = super().begin(topic, partition, options)
        self._calls = {call for call in self._calls if call.error is None} | {writing.call}
        return writing

    async def _add(self, batches: list[OutBatch]) -> None:
        """Give encoded batches to the sender once their partitions belong to the transaction."""
        await self._admit(batches)
        await super()._add(batches)

    def hand_over_now(self, batches: list[OutBatch], options: ProduceOptions) -> bool:
        """Never: partitions may have to be added to the transaction first."""
        return False

    async def finish(self, writing: Writing) -> ProduceResult:
        """Return the acknowledgements of a call when all are there; see `Producer.finish`."""
        result = await super().finish(writing)
        self._calls.discard(writing.call)
        return result

    def abandon_all(self, error: KafkaError) -> None:
        """Give up every call that is still running."""
        for call in self._calls:
            self.sender.abandon(call, error)

    async def in_doubt(self) -> bool:
        """Return, with no request under way, whether an unacknowledged record may be in a log."""
        async with self.sender.lock:
            pass  # whoever was adding partitions, or waited for that turn, has given up
        await self.sender.quiet()
        return any(log.in_doubt for log in self.sender.logs.values())

    def write_as(self, identity: Identity) -> None:
        """Write under an identity from now on: a new one begins every sequence at 0."""
        if self._identity != tuple(identity):
            self._identity = (identity.producer_id, identity.epoch)
            for log in self.sender.logs.values():
                log.renumber()

    def rewind(self) -> None:
        """Use the sequences again that were never written."""
        for log in self.sender.logs.values():
            log.rewind()

    async def all_in_second(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether the leaders of partitions can do the second generation of the
        protocol, where reachable.
        """
        leaders = {self._cluster.leader(tp).node for tp in partitions}
        for leader in leaders:
            with contextlib.suppress(KafkaError):
                conn = (
                    await self._cluster.connection(leader.id, LANE) if leader is not None else None
                )
                if conn is not None and not conn.versions.supports(Feature.TRANSACTIONS_V2):
                    return False
        return True

    def forget_topic(self, topic: str) -> None:
        """Begin the sequences of a topic's partitions at 0 again, under the same identity."""
        for tp, log in self.sender.logs.items():
            if tp.topic == topic:
                doubt = log.in_doubt
                log.renumber()
                log.in_doubt = doubt

    def forget_unknown(self) -> None:
        """Begin sequences at 0 again where the leader said it knows nothing of us (59).

        Nowhere else: where it remembers earlier batches, it would take the same sequences for
        repetitions.
        """
        for log in self.sender.logs.values():
            if (
                isinstance(log.last_error, BrokerError)
                and log.last_error.code == UNKNOWN_PRODUCER_ID
            ):
                log.renumber()

    async def _renew(self) -> tuple[int, int]:
        raise LocalProtocolError(
            "a transaction's records are never numbered again; it has to be aborted"
        )
