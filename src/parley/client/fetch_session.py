"""Reading partitions: which broker is asked for what and when, and what is made of the answers.

1. One request is under way to each broker, for all its partitions that are free; a second one for those
   that become free meanwhile.
2. The next request goes out as soon as the headers of an answer were walked, while its records wait
   to be decoded; at most `prefetch_max_bytes` wait, plus one answer per broker.
3. Nothing is decoded here: this runs in the event loop. `next` hands out raw bytes, and the caller
   decodes them in a thread of its own.
4. A partition that moved is asked for at its new leader at once (hint) or after a refresh; the other
   partitions go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from parley.client.cluster import Cluster
from parley.client.fetch_state import PartitionFetch, RawFetch, retry_delay
from parley.client.fetch_wire import FetchAnswer, FetchTarget, allowed_versions, fetch_request, find_tail, read_fetch
from parley.client.offsets import usable_epoch
from parley.client.options import READ_COMMITTED, FetchOptions
from parley.client.out_of_range import explain_out_of_range
from parley.client.results import PartitionRange
from parley.client.retry import Reaction, classify
from parley.errors import CorruptRecordError, KafkaError, NetworkError, RemoteProtocolError, broker_error
from parley.net import Reply
from parley.schema import ApiKey
from parley.types import TopicPartition
from parley.versions import Feature

OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, LEADER_NOT_AVAILABLE = 1, 2, 5
HINTED = (6, 74)
"""NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH: the errors that name the new leader (KIP-951)."""
LANES = ("fetch", "fetch-2")
"""Fetches wait at the broker; on connections of their own they hold up nobody else. The second one is for
partitions that become free while the first one waits: a partition that has just moved must not wait with it."""
FRAME_SLACK_BYTES = 2**20
"""What a Fetch answer may have besides `fetch_max_bytes` of records, before its frame counts as absurd."""


class FetchSession:
    """The reading of some partitions. Belongs to the event loop; `next` may be awaited by one task at a time."""

    def __init__(
        self, cluster: Cluster, ranges: Mapping[TopicPartition, PartitionRange], options: FetchOptions
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._parts = {
            tp: PartitionFetch(tp, wanted.start, wanted.end, options.max_partition_fetch_bytes, wanted.topic_id)
            for tp, wanted in ranges.items()
        }
        self._ready: deque[RawFetch] = deque()
        self._queued_bytes = 0
        self._failure: KafkaError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: set[tuple[int, str]] = set()
        self._refreshing = False
        self._timer: Any = None
        self._scope = contextlib.ExitStack()
        self._closed = False

    async def start(self) -> None:
        """Find the partitions and begin to fetch. Raises as `Cluster.ensure_partitions`."""
        self._scope.enter_context(self._cluster.interested(self._parts))
        try:
            await self._cluster.ensure_partitions(self._parts, self._cluster.deadline())
        except BaseException:
            self._scope.close()
            raise
        self._kick()

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset to be fetched of each partition (some before it may still be queued)."""
        return {tp: part.position for tp, part in self._parts.items()}

    async def next(self) -> RawFetch | None:
        """Return the next record bytes, None when every partition has reached its end.

        Raises the error that ended the reading, after everything in front of it was handed out.
        """
        while True:
            if self._ready:
                raw = self._ready.popleft()
                self._queued_bytes -= len(raw.data)
                self._kick()
                return raw
            if self._failure is not None:
                raise self._failure
            if self._closed or all(part.done for part in self._parts.values()):
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def close(self) -> None:
        """Stop fetching. What was not handed out is dropped; it can be fetched again. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._scope.close()
        self._ready.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._wake()

    # -- deciding who is asked ------------------------------------------------------------------------

    def _kick(self) -> None:
        """Send whatever may be sent now, and arrange to be called again when more may be."""
        if self._closed or self._failure is not None:
            return
        self._cluster.refresh_if_due()
        if self._queued_bytes and self._queued_bytes >= self._options.prefetch_max_bytes:
            return
        now = self._cluster.now_ms()
        groups: dict[int, list[tuple[PartitionFetch, int]]] = {}
        later: list[int] = []
        for part in self._parts.values():
            if part.busy or part.done:
                continue
            node_id, epoch = self._source(part, now)
            if node_id is None:
                self._troubled(part, _leaderless(part.tp), now, refresh=True)
            elif part.must_wait(now, epoch):
                later.append(part.not_before_ms)
            else:
                groups.setdefault(node_id, []).append((part, epoch))
        for node_id, asked in groups.items():
            lane = next((lane for lane in LANES if (node_id, lane) not in self._in_flight), None)
            if lane is None:
                continue
            self._in_flight.add((node_id, lane))
            for part, _ in asked:
                part.busy = True
            self._spawn(self._exchange(node_id, lane, asked))
        if later:
            self._call_at(min(later))

    def _source(self, part: PartitionFetch, now: int) -> tuple[int | None, int]:
        """Return the broker to read a partition from, None when there is none, and the leader epoch."""
        leader = self._cluster.leader(part.tp)
        if part.preferred is not None:
            node_id, until = part.preferred
            if now < until and self._cluster.cache.online_replica(part.tp, node_id) is not None:
                return node_id, leader.epoch
            part.preferred = None
        return (leader.node.id if leader.node is not None else None), leader.epoch

    def _call_at(self, when_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._cluster.clock.call_at_ms(when_ms, self._kick)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)  # a bug: it must surface at the reader, not in the log of the loop
        self._kick()

    # -- one request ----------------------------------------------------------------------------------

    async def _exchange(self, node_id: int, lane: str, asked: list[tuple[PartitionFetch, int]]) -> None:
        """Ask one broker for these partitions and take the answers."""
        targets: list[FetchTarget] = []
        parts = {part.tp: (part, epoch) for part, epoch in asked}
        try:
            conn = await self._cluster.connection(node_id, lane)
            view = self._cluster.view
            for part, epoch in asked:
                sent_epoch = usable_epoch(conn.versions, epoch)
                topic_id = view.topic_id(part.tp.topic)
                if (other := part.replaced(topic_id)) is not None:
                    raise other
                targets.append(FetchTarget(part.tp, part.position, part.max_bytes, sent_epoch, topic_id))
            conn.accept_frames(self._options.fetch_max_bytes + FRAME_SLACK_BYTES)
            timeout_ms = self._cluster.options.request_timeout_ms + self._options.fetch_max_wait_ms
            allowed = allowed_versions(targets, self._options)
            if self._options.isolation_level == READ_COMMITTED:
                conn.versions.choose(ApiKey.FETCH, allowed, feature=Feature.READ_COMMITTED)
            reply = await self._cluster.ask(conn, fetch_request(targets, self._options), timeout_ms, allowed)
        except KafkaError as error:
            self._request_failed(asked, error)
        else:
            self._take(reply, targets, parts)
        finally:
            self._in_flight.discard((node_id, lane))
            for part, _ in asked:
                part.busy = False

    def _request_failed(self, asked: Iterable[tuple[PartitionFetch, int]], error: KafkaError) -> None:
        if classify(error) is Reaction.FAIL:
            self._fail(error)
            return
        now = self._cluster.now_ms()
        for part, epoch in asked:
            self._troubled(
                part, error, now, refresh=isinstance(error, NetworkError) or error.refresh_metadata, epoch=epoch
            )

    def _take(
        self, reply: Reply, targets: list[FetchTarget], parts: dict[TopicPartition, tuple[PartitionFetch, int]]
    ) -> None:
        response = reply.message
        top_error = getattr(response, "error_code", 0)
        if top_error:
            self._request_failed(parts.values(), broker_error(top_error, api="FETCH", version=reply.version))
            return
        answers = read_fetch(response, reply.version, targets)
        for answer in answers:
            part, epoch = parts.pop(answer.tp, (None, -1))
            if part is None:
                continue
            if answer.error_code:
                self._take_error(part, answer, reply.version, response.node_endpoints, epoch)
            else:
                self._take_records(part, answer)
        for part, epoch in parts.values():  # asked for and not answered
            error = RemoteProtocolError(f"the broker's Fetch answer leaves out {part.tp}")
            self._troubled(part, error, self._cluster.now_ms(), refresh=True, epoch=epoch)

    def _take_records(self, part: PartitionFetch, answer: FetchAnswer) -> None:
        part.succeeded()
        now, patience = self._cluster.now_ms(), self._cluster.options.default_api_timeout_ms
        data = answer.records
        if answer.preferred_replica >= 0:
            part.preferred = (answer.preferred_replica, now + self._cluster.options.metadata_max_age_ms)
        if data is None or not len(data):
            if answer.preferred_replica < 0 and (error := part.idle(now, answer.high_watermark, patience)) is not None:
                self._fail(error)
            return
        tail = find_tail(data, part.tp)
        if tail.next_offset >= 0 and tail.next_offset <= part.position:
            self._fail(RemoteProtocolError(f"{part.tp}: records before offset {part.position} came for it"))
            return
        if tail.next_offset < 0 and _is_cut_off(data):
            if (error := part.grow(data, self._options.fetch_max_bytes)) is not None:
                self._fail(error)
            return
        aborted = answer.aborted if self._options.isolation_level == READ_COMMITTED else ()
        self._ready.append(RawFetch(part.tp, part.position, part.end, data, aborted))
        self._queued_bytes += len(data)
        if tail.next_offset < 0:  # damaged at its very front: the decoding says how
            part.end = part.position
        else:
            part.moved(tail.next_offset)
            self._cluster.see_epoch(part.tp, tail.leader_epoch)
        self._parts[part.tp] = self._parts.pop(part.tp)  # the others come first in the next request
        self._wake()

    def _take_error(self, part: PartitionFetch, answer: FetchAnswer, version: int, endpoints: Any, epoch: int) -> None:
        code, tp, now = answer.error_code, part.tp, self._cluster.now_ms()
        error = broker_error(code, topic=tp.topic, partition=tp.partition, api="FETCH", version=version)
        if code == OFFSET_OUT_OF_RANGE and part.preferred is None:
            part.attempts += 1
            self._spawn(self._out_of_range(part, error))
        elif code == OFFSET_OUT_OF_RANGE:
            part.preferred = None  # the follower is behind or ahead: the leader decides (P15)
        elif code == CORRUPT_MESSAGE:
            text = f"{tp}: the broker found its records at offset {part.position} corrupt"
            self._fail(CorruptRecordError(text, topic=tp.topic, partition=tp.partition, offset=part.position))
        elif classify(error) is Reaction.FAIL:
            self._fail(error)
        else:
            hinted = code in HINTED and self._cluster.next_leader(tp, epoch, answer.leader, endpoints)
            refresh = error.refresh_metadata and not hinted
            self._troubled(part, error, now, refresh=refresh, immediate=hinted, epoch=epoch)

    async def _out_of_range(self, part: PartitionFetch, error: KafkaError) -> None:
        """Find out whether the position is really gone, or the broker was only behind."""
        part.busy = True
        try:
            final = await explain_out_of_range(self._cluster, part.tp, part.position, error, part.attempts)
        except KafkaError as trouble:
            final = None
            error = trouble
        finally:
            part.busy = False
        if final is not None:
            self._fail(final)
        else:
            self._troubled(part, error, self._cluster.now_ms(), refresh=True, epoch=self._cluster.leader(part.tp).epoch)

    # -- trouble --------------------------------------------------------------------------------------

    def _troubled(
        self,
        part: PartitionFetch,
        error: KafkaError,
        now: int,
        *,
        refresh: bool,
        immediate: bool = False,
        epoch: int = -1,
    ) -> None:
        delay = retry_delay(part, self._cluster.backoff, self._cluster.dice(), immediate=immediate)
        patience = self._cluster.options.default_api_timeout_ms
        final = part.failed(error, now, delay_ms=delay, patience_ms=patience, epoch=epoch)
        if final is not None:
            self._fail(final)
        elif refresh:
            self._cluster.leader_failed(part.tp, epoch)
            if not self._refreshing:
                self._refreshing = True
                self._spawn(self._refresh())

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh_quietly(self._cluster.deadline())
        finally:
            self._refreshing = False

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error if isinstance(error, KafkaError) else _bug(error)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _leaderless(tp: TopicPartition) -> KafkaError:
    text = "no broker leads this partition at the moment"
    return broker_error(LEADER_NOT_AVAILABLE, text, topic=tp.topic, partition=tp.partition)


def _is_cut_off(data: memoryview) -> bool:
    """Return whether the first batch announces more bytes than came."""
    from parley.records import first_batch_bytes

    size = first_batch_bytes(data)
    return size is None or size > len(data)


def _bug(error: BaseException) -> KafkaError:
    wrapped = KafkaError(f"reading ended with an unexpected {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
