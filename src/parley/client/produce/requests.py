"""What each broker is sent next, request after request.

1. Requests to one broker leave in the order in which they were decided; several are under way.
2. A request holds one batch per partition (brokers refuse more since 0.11), of calls with equal
   acks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from parley.client.cluster.core import Cluster
from parley.client.produce.buffer_memory import Room
from parley.client.produce.joining import join_first
from parley.client.produce.ready import ReadyPartitions
from parley.client.produce.state import Chosen, OutBatch, PartitionLog, fill
from parley.client.produce.wire import (
    allowed_versions,
    magic_for,
    note_destinations,
    produce_request,
)
from parley.errors import KafkaError
from parley.messages import ProduceResponse
from parley.net import BrokerConnection, Reply
from parley.net.blocking import Work
from parley.schema import ApiKey

LANE = "produce"


class Outcomes(Protocol):
    """What becomes of the batches that were sent: the sender decides."""

    def take(
        self, chosen: Sequence[Chosen], reply: Reply[ProduceResponse], topic_ids: dict[str, bytes]
    ) -> None:
        """Do what an answer calls for, batch by batch."""

    def failed(
        self, log: PartitionLog, batch: OutBatch, error: KafkaError, epoch: int, *, refresh: bool
    ) -> None:
        """Keep a batch for another attempt, or give it up where the error will not pass."""

    def convert(self, entries: Iterable[Chosen], magic: int) -> None:
        """Have batches rewritten in the format of a leader of another release."""

    def bug(self, error: BaseException) -> None:
        """Let an unexpected exception surface at every open call."""

    def kick_soon(self) -> None:
        """Look soon at what may be sent."""

    def spawn(self, work: Work[None]) -> None:
        """Run a task of the sender's."""


class Requests:
    """The Produce requests of one sender. Belongs to the event loop."""

    def __init__(
        self, cluster: Cluster, ready: ReadyPartitions, memory: Room, outcomes: Outcomes
    ) -> None:
        self._cluster, self._ready, self._memory, self._outcomes = cluster, ready, memory, outcomes
        self._in_flight: dict[int, int] = {}
        self._pumping: set[int] = set()
        self.closed = False
        self.max_in_flight = 5
        self.max_request_size = 2**20
        self.batch_size = 0
        """Up to so many bytes small batches that wait are joined."""

    def begin(self) -> None:
        """Send each broker what is ready for it, as far as it may have more requests."""
        for node_id in self._ready.nodes():
            if self.may_have_more(node_id):
                self._pumping.add(node_id)
                self._outcomes.spawn(self._pump(node_id))

    def may_have_more(self, node_id: int) -> bool:
        """Return whether a broker may get another request, and none is being made."""
        busy = self._in_flight.get(node_id, 0) >= self.max_in_flight
        return not busy and node_id not in self._pumping

    async def _pump(self, node_id: int) -> None:
        """Send a broker all it may get now, in order."""
        try:
            conn = await self._cluster.connection(node_id, LANE)
            if conn.throttled_ms:
                await self._cluster.clock.sleep_ms(conn.throttled_ms)
        except KafkaError as error:
            for log, batch, epoch in self._collect(node_id):
                log.sent(batch)
                self._outcomes.failed(log, batch, error, epoch, refresh=True)
            return
        finally:
            self._pumping.discard(node_id)
        while self._in_flight.get(node_id, 0) < self.max_in_flight and (
            chosen := self._collect(node_id)
        ):
            self._send(node_id, conn, chosen)

    def _collect(self, node_id: int) -> list[Chosen]:
        """Return the batches of the next request to a broker."""
        chosen = fill(self._sendable(node_id), self.max_request_size)
        room = self.max_request_size - sum(batch.size for _, batch, _ in chosen)
        for index, (log, batch, epoch) in enumerate(chosen):
            # the other partitions come first in the next request
            self._ready.taken(log, node_id)
            if len(log.queue) > 1:
                joined = self._joined(log, batch, room)
                room -= joined.size - batch.size
                chosen[index] = (log, joined, epoch)
                self._ready.put(log, node_id)
        return chosen

    def _joined(self, log: PartitionLog, first: OutBatch, room: int) -> OutBatch:
        """Return the batch to send: the first one, with those that wait behind it if small."""
        joined = join_first(log, min(self.batch_size, first.size + room))
        if joined is None:
            return first
        for batch in joined.parts:
            self._memory.give(batch)
        self._memory.take(joined.batch)
        return joined.batch

    def _sendable(self, node_id: int) -> Iterator[Chosen]:
        """Yield what a broker may be sent now, and strike out what it may not."""
        now = self._cluster.now_ms()
        for log in self._ready.of(node_id):
            leader = self._cluster.leader(log.tp)
            if leader.node is None or leader.node.id != node_id:
                self._ready.touch(log)
            elif (batch := log.sendable(now, leader.epoch, self.max_in_flight)) is not None:
                yield log, batch, leader.epoch
                continue
            self._ready.taken(log, node_id)

    def _send(self, node_id: int, conn: BrokerConnection, chosen: list[Chosen]) -> None:
        for log, batch, _ in chosen:
            log.sent(batch)
        try:
            wanted = magic_for(conn.versions)
            wrong = [entry for entry in chosen if entry[1].magic != wanted]
            if wrong:
                self._outcomes.convert(wrong, wanted)
                chosen = [entry for entry in chosen if entry[1].magic == wanted]
            if not chosen:
                return
            batches = [batch for _, batch, _ in chosen]
            topic_ids = {
                batch.tp.topic: self._cluster.view.topic_id(batch.tp.topic) for batch in batches
            }
            timeout_ms = min(batch.timeout_ms for batch in batches)
            request, allowed = (
                produce_request(batches, topic_ids, timeout_ms),
                allowed_versions(batches, topic_ids),
            )
            note_destinations(batches, topic_ids, conn.versions.choose(ApiKey.PRODUCE, allowed))
            future = conn.submit(request, timeout_ms=timeout_ms, allowed=allowed)
        except KafkaError as error:
            for log, batch, epoch in chosen:
                self._outcomes.failed(log, batch, error, epoch, refresh=True)
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        future.add_done_callback(
            lambda done: self._answered(node_id, conn, chosen, topic_ids, done)
        )

    def _answered(
        self,
        node_id: int,
        conn: BrokerConnection,
        chosen: Sequence[Chosen],
        topic_ids: dict[str, bytes],
        done: asyncio.Future[Reply[ProduceResponse]],
    ) -> None:
        self._in_flight[node_id] -= 1
        if self.closed or done.cancelled():
            return
        error = done.exception()
        if error is None:
            reply = done.result()
            self._cluster.note(conn, reply)
            self._outcomes.take(chosen, reply, topic_ids)
        elif isinstance(error, KafkaError):
            for log, batch, epoch in chosen:
                self._outcomes.failed(log, batch, error, epoch, refresh=True)
        else:
            self._outcomes.bug(error)
        self._outcomes.kick_soon()
