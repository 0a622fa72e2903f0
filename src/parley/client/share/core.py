"""What both forms of the share consumer have in common. Belongs to the event loop.

1. Records are asked for from when a poll waits until a broker has given some, and not before, as by
   Java's consumer: their locks begin when they are given.
2. With `share_prefetch` the next ones are asked for when a poll returns the last of those before,
   unless the work on as many took more than half of a lock: less than the other half would be left.
3. What is acknowledged goes with the next request for records; apart from it at most once in a
   while, so that reading record by record costs no request for each.
4. Callbacks and errors of acknowledgements come out in calls of the application, nowhere else
   (`reporting`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from parley.client.async_client import AsyncClient
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_any
from parley.client.consumer.closing import not_running
from parley.client.group.bell import Bell
from parley.client.group.modern.member import new_member_id
from parley.client.group.pace import Pace
from parley.client.group.share.book import AcknowledgeType, Book
from parley.client.group.share.heartbeat import ShareStanding
from parley.client.group.share.member import ShareMember
from parley.client.results import AcquiredBatch
from parley.client.share.exchange import ShareExchange
from parley.client.share.fetched import Row
from parley.client.share.hand_out import HandOut, Rows
from parley.client.share.options import ShareConsumerOptions
from parley.client.share.reporting import Reporting
from parley.errors import (
    CommitFailedError,
    ConfigError,
    LocalProtocolError,
    RequestTimedOut,
)
from parley.net import BrokerConnection
from parley.types import TopicPartition
from parley.versions import Feature

Found = TypeVar("Found")
HEARTBEAT_MS, SESSION_MS = 5_000, 45_000
"""Until the coordinator has said its own interval; brokers decide how long a session lasts."""
ACKNOWLEDGE_EVERY_MS = 1_000
LOOK_AGAIN_MS = 250
"""How soon a poll looks again at metadata in which a leader is missing."""


class ShareGroupHealth(NamedTuple):
    """How a member of a share group is. Times are in milliseconds."""

    state: str
    """unsubscribed, joining, stable, stale (no polls) or fatal."""
    member_id: str
    member_epoch: int
    assigned: tuple[TopicPartition, ...]
    unacknowledged: int
    """Records that the application has and has not acknowledged."""
    last_poll_ago_ms: int
    last_heartbeat_ago_ms: int | None
    """Since the coordinator answered last."""
    waiting: int
    """Offsets that brokers have given this consumer, and that wait for a poll."""


class ShareCore:
    """The state of one share consumer."""

    def __init__(self, client: AsyncClient, options: ShareConsumerOptions) -> None:
        if not options.group_id:
            raise ConfigError("a share consumer needs a group_id")
        self.client, self.options = client, options
        self.reporting = Reporting()
        self.book: Book[Row] = Book()
        self._who = ShareStanding(options.group_id, new_member_id(), options.client_rack)
        self._pace = Pace(HEARTBEAT_MS, SESSION_MS, options.max_poll_interval_ms)
        self._cluster: Cluster | None = None
        self._topics: frozenset[str] = frozenset()
        self._sent_ms = 0
        self._returned_ms: int | None = None
        self._worked_ms = 0
        """Time outside of polls since records were last acquired ahead, or could have been."""
        self._asking = False
        """Whether records are asked for: until a broker has given some."""
        self._committing = False
        self._closed = False
        self.polls = 0
        """How many polls have handed something out."""

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach a broker. Raises UnsupportedVersionError where none knows share groups."""
        if self._closed:
            raise not_running(closed=True)
        if self._cluster is not None:
            return
        cluster = await self.client._started()

        async def nothing(conn: BrokerConnection) -> None:
            """The broker has the feature: nothing is to be asked."""

        await at_any(
            cluster,
            "looking for share groups",
            cluster.deadline(),
            nothing,
            feature=Feature.SHARE_GROUPS,
        )
        self._bell = Bell(cluster.clock)
        self._member = ShareMember(cluster, self._who, self._pace, on_news=self._changed)
        self._exchange = ShareExchange(
            cluster,
            self.options,
            self._who,
            self.book,
            on_change=self._changed,
            on_fenced=self._member.fenced,
        )
        self._out = HandOut(self._exchange, self.book, cluster.now_ms, lambda: self._topics)
        self._cluster = cluster
        if self._topics:
            self._member.subscribe(self._topics)

    @property
    def cluster(self) -> Cluster:
        """The cluster of the client. Raises LocalProtocolError before `start` and after `close`."""
        if self._cluster is None or self._closed:
            raise not_running(closed=self._closed)
        self._cluster.check_loop("consumer")
        return self._cluster

    async def close(self, timeout_ms: int) -> None:
        """Send what was acknowledged, release everything else, and leave the group. Idempotent."""
        if self._closed:
            return
        try:
            await self.finish(timeout_ms)
        finally:
            self._closed = True

    async def finish(self, timeout_ms: int) -> None:
        """Do that without closing. Raises what the callback raised."""
        self._topics, self._asking = frozenset(), False
        if self._cluster is None:
            return
        deadline = self.cluster.deadline(timeout_ms)
        self.book.commit()
        try:
            await self._exchange.finish(deadline)
            await self._member.leave(deadline)
        except BaseException:  # a call that is cancelled leaves nobody behind who holds records
            self._exchange.stop()
            self._member.stop()
            raise
        finally:
            self.book.clear()
        await self._report()

    # -- the group --------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str]) -> None:
        """Read these topics and no others."""
        if self._closed:
            raise not_running(closed=True)
        self._topics = topics
        if self._cluster is not None:
            self._member.subscribe(topics)

    @property
    def topics(self) -> frozenset[str]:
        """The topics subscribed to."""
        return self._topics

    def health(self) -> ShareGroupHealth:
        """Return how the membership is."""
        now_ms, membership = self.cluster.now_ms(), self._member.membership
        beat_ms = self._pace.last_beat_answer_ms
        return ShareGroupHealth(
            membership.state.value,
            self._who.member_id,
            membership.epoch,
            tuple(sorted(membership.assigned)),
            self.book.unacknowledged,
            0 if self._pace.polling else self._pace.away_ms(now_ms),
            None if beat_ms is None else now_ms - beat_ms,
            self._exchange.waiting,
        )

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long locks last, as the broker said last."""
        return None if self._cluster is None else self._exchange.acquisition_lock_timeout_ms

    # -- polls ------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int | None, most: int) -> Rows:
        """Return records, at most so many; none where none came in time (None: wait forever)."""
        deadline = None if timeout_ms is None else self.cluster.deadline(timeout_ms)
        return await self._poll(deadline, lambda: self._out.rows(most)) or {}

    async def next_batch(self) -> AcquiredBatch:
        """Return the next batch; waits for it."""
        while True:
            found = await self._poll(None, self._out.batch)
            if found is not None:
                return found

    async def _poll(
        self, deadline: Deadline | None, take: Callable[[], Awaitable[Found]]
    ) -> Found | None:
        """Return what `take` finds once it finds something, None where that was not in time."""
        began_ms = self.cluster.now_ms()
        if not self._topics:
            raise LocalProtocolError("this share consumer has not subscribed to any topic")
        self._worked_ms += 0 if self._returned_ms is None else began_ms - self._returned_ms
        self._previous_done()
        self._member.poll_begins()
        try:
            while True:
                await self._report()
                self._raise_trouble()
                self._pump(fetching=False)
                found = await take()
                if found:
                    self.polls += 1
                    self._acquire_ahead()
                    return found
                self._asking = True
                self._pump(fetching=True)
                if not await self._wait(deadline):
                    return None
        finally:
            self._returned_ms = self.cluster.now_ms()
            self._member.poll_ends()

    def take_back(self, polls: int) -> None:
        """Hand out again what came of a poll after so many: its caller was interrupted and did not
        get it.
        """
        if self.polls > polls:
            self.book.take_back()

    def _previous_done(self) -> None:
        if not self.options.explicit:
            self.book.accept_all()
        elif self.book.unacknowledged:
            raise LocalProtocolError(
                f"{self.book.unacknowledged} records of the poll before are not acknowledged: with "
                'share_acknowledgement_mode="explicit" acknowledge each record, then poll'
            )
        self.book.commit()

    def _pump(self, *, fetching: bool) -> None:
        now_ms = self.cluster.now_ms()
        hurried = now_ms - self._sent_ms >= ACKNOWLEDGE_EVERY_MS
        if fetching or hurried:
            self._sent_ms = now_ms
        assigned = self._member.membership.assigned
        self._exchange.pump(assigned, fetching=fetching, hurried=hurried and not fetching)

    def _acquire_ahead(self) -> None:
        """Ask for the next records, if they can wait while the application works (rule 2)."""
        if self._exchange.waiting or not self.options.share_prefetch:
            return
        worked_ms, self._worked_ms = self._worked_ms, 0
        lock_ms = self.acquisition_lock_timeout_ms
        if lock_ms is None or 2 * worked_ms <= lock_ms:
            self._asking = True
            self._pump(fetching=True)

    def _changed(self) -> None:
        """Take note of news. Where records are asked for and none came, another request follows."""
        if self._exchange.waiting:
            self._asking = False
        self._bell.ring()
        if self._asking and not self._committing:
            self._pump(fetching=True)

    def _raise_trouble(self) -> None:
        membership = self._member.membership
        error, membership.passing_error = membership.passing_error or membership.error, None
        if error is None:
            error, self._exchange.trouble = self._exchange.trouble, None
        if error is not None:
            raise error

    async def _wait(self, deadline: Deadline | None) -> bool:
        """Wait for news; return False when the deadline has passed."""
        now_ms = self.cluster.now_ms()
        if deadline is not None and deadline.passed(now_ms):
            return False
        until = [] if deadline is None else [deadline.at_ms]
        if self._exchange.leaderless:
            until.append(now_ms + LOOK_AGAIN_MS)
        await self._bell.wait(min(until, default=None))
        return True

    # -- acknowledgements -------------------------------------------------------------------------

    def acknowledge(self, tp: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Say what becomes of a record; the next commit or poll sends it."""
        self._check_explicit()
        if not self.book.acknowledge(tp, offset, kind):
            raise LocalProtocolError(
                f"{tp}, offset {offset}: this consumer does not have the record. It has those that "
                "a poll returned, until their acknowledgement was committed"
            )

    def acknowledge_batch(self, found: AcquiredBatch, kind: AcknowledgeType) -> None:
        """Say it of all rows of a batch that nothing was said of yet."""
        self._check_explicit()
        offsets = found.batch.column("offset").to_pylist()
        if not self.book.acknowledge_rest(found.partition, offsets, kind):
            raise LocalProtocolError(
                f"{found.partition}, {len(offsets)} records from offset {offsets[:1]} on: this "
                "consumer has none of them that nothing was said of. It has those that a poll "
                "returned, until their acknowledgement was committed"
            )

    def _check_explicit(self) -> None:
        if not self.options.explicit:
            raise LocalProtocolError(
                "records are acknowledged by polls here: give "
                'share_acknowledgement_mode="explicit" to acknowledge each record'
            )

    def commit_async(self) -> None:
        """Send what was acknowledged, and do not wait; the callback hears what came of it."""
        if not self.options.explicit:
            self.book.accept_all()
        self.book.commit()
        self._sent_ms = self.cluster.now_ms()
        self._exchange.pump(self._member.membership.assigned, fetching=False, hurried=True)

    async def commit(self, timeout_ms: int | None) -> None:
        """Send what was acknowledged and wait for the answers. Raises CommitFailedError."""
        deadline = self.cluster.deadline(timeout_ms)
        await self._report()
        self._committing = True  # a request for records would wait for some before it is answered
        try:
            self.commit_async()
            while self._exchange.acknowledging:
                if not await self._wait(deadline):
                    raise RequestTimedOut(
                        "not every broker has answered to acknowledgements before the deadline",
                        stage="request",
                    )
                assigned = self._member.membership.assigned
                self._exchange.pump(assigned, fetching=False, hurried=True)
        finally:
            self._committing = False
            self._changed()
        failures = {one.partition: one.error for one in self._exchange.outcomes if one.error}
        await self._report(raised=True)
        if failures:
            raise CommitFailedError("records were not acknowledged", failures)

    async def _report(self, *, raised: bool = False) -> None:
        if self._cluster is not None:
            await self.reporting.report(self._exchange.outcomes, raised=raised)
