"""What ties a consumer to its group: what it subscribed to, its membership, its commits.

Without a group id there is nothing here. With one and partitions assigned by hand the consumer
commits as an outsider; with a subscription it is a member.
"""

from __future__ import annotations

from collections.abc import Collection

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.consumer.closing import CLOSE_TIMEOUT_MS, not_running
from parley.client.consumer.commits import EPOCH_BACKOFF_MS, Commits
from parley.client.consumer.health import GroupHealth
from parley.client.consumer.listener import CallListener, call_here
from parley.client.consumer.options import ConsumerOptions
from parley.client.consumer.participation import Participation
from parley.client.consumer.reader import Reader
from parley.client.consumer.subscription import Subscribed
from parley.client.offsets.committed import committed_offsets
from parley.client.options import arguments
from parley.client.results import ConsumerGroupMetadata
from parley.errors import BrokerError, ConfigError, KafkaError, LocalProtocolError
from parley.errors.codes import STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID
from parley.types import OffsetAndMetadata, TopicPartition


class ConsumerGroup:
    """One consumer and its group. Belongs to the event loop."""

    def __init__(self, options: ConsumerOptions, reader: Reader) -> None:
        self._options, self._reader = options, reader
        self._cluster: Cluster | None = None
        self._commits: Commits | None = None
        self._member: Participation | None = None
        self._wanted: Subscribed | None = None
        self._closed = False
        self.call_listener: CallListener = call_here

    def start(self, cluster: Cluster) -> None:
        """Begin: a subscription that was made before joins now."""
        self._cluster = cluster
        if self._options.group_id:
            interval_ms = (
                self._options.auto_commit_interval_ms if self._options.enable_auto_commit else None
            )
            self._commits = Commits(cluster, self._options.group_id, self, interval_ms)
        if self._wanted is not None:
            self._join(self._wanted)

    def id(self, what: str) -> str:
        """Return the group's id. Raises ConfigError where there is none (G5)."""
        if not self._options.group_id:
            raise ConfigError(f"{what} needs a group_id")
        return self._options.group_id

    # -- the subscription --------------------------------------------------------------------------

    @property
    def member(self) -> Participation | None:
        """The membership, None while partitions are assigned by hand and before the start."""
        return self._member if self._wanted is not None else None

    @property
    def subscribed(self) -> bool:
        """Whether the group assigns the partitions."""
        return self._wanted is not None

    @property
    def topics(self) -> frozenset[str]:
        """The topics subscribed to; with a pattern, those that matched last."""
        if self._wanted is None:
            return frozenset()
        return self.member.topics if self.member is not None else self._wanted.topics

    def subscribe(self, wanted: Subscribed) -> None:
        """Read topics as a member of the group. Raises LocalProtocolError where
        partitions are assigned by hand.
        """
        self.id("subscribe")
        if self._closed:
            raise not_running(closed=True)
        if self._wanted is None and self._reader.assignment:
            raise LocalProtocolError(
                "partitions are assigned to this consumer by hand; unsubscribe first"
            )
        self._wanted = wanted
        if self._cluster is not None:
            self._join(wanted)
            self._reader.wake()

    def _join(self, wanted: Subscribed) -> None:
        assert self._cluster is not None
        assert self._commits is not None  # a subscription needs a group
        if self._member is None:
            self._member = Participation(
                self._cluster, self._options, self._reader, self._commits, self.call_listener
            )
        self._member.subscribe(wanted)

    async def unsubscribe(self) -> None:
        """Give everything up and leave the group, or drop what was assigned by hand."""
        if self._closed:
            raise not_running(closed=True)
        await self.finish("the consumer unsubscribed from all topics", CLOSE_TIMEOUT_MS)
        self._reader.read(())

    async def finish(self, reason: str, timeout_ms: int) -> None:
        """Commit where that is regular, give everything up and leave, in that time. Raises what a
        listener raised, afterwards.
        """
        if self._cluster is None or self._commits is None:
            self._wanted = None
            return
        deadline = self._cluster.deadline(timeout_ms)
        if self.member is None:
            await self._commits.finish(self._reader.consumed(), deadline)
            return
        try:
            await self.member.leave(reason, deadline)
        finally:
            self._wanted = None

    async def close(self) -> None:
        """End what runs in the background; nothing is asked any more."""
        self._closed = True
        if self._commits is not None:
            await self._commits.close()

    # -- polls -------------------------------------------------------------------------------------

    def poll_begins(self) -> None:
        """Take note that what was handed out before is done with: it may be committed now (G44)."""
        if self.member is not None:
            if self.member.showing:
                raise LocalProtocolError(
                    "a listener cannot poll: it is called in the middle of a poll"
                )
            self.member.poll_begins()
        if (
            self._commits is not None
            and self._cluster is not None
            and self._commits.due(self._cluster.now_ms())
        ):
            self._commits.begin(self._reader.consumed())

    def poll_ends(self) -> None:
        """Take note that the application has what it asked for."""
        if self.member is not None:
            self.member.poll_ends()

    @property
    def commit_due_ms(self) -> int | None:
        """When the next regular commit is due, None where there are none."""
        return self._commits.due_ms if self._commits is not None else None

    @property
    def news(self) -> bool:
        """Whether there is anything to show."""
        return self.member is not None and self.member.news

    async def show(self, deadline: Deadline | None = None) -> bool:
        """Show what a rebalance brought; return whether that was possible before the deadline.

        Raises what a listener raised, or why the membership ended.
        """
        return self.member is None or await self.member.show(deadline)

    # -- commits -----------------------------------------------------------------------------------

    async def commit(self, offsets: arguments.OffsetsToCommit | None) -> None:
        """Commit offsets with their leader epochs, by default every position."""
        self.id("commit")
        wanted = (
            self._reader.consumed() if offsets is None else arguments.offsets_to_commit(offsets)
        )
        if self._commits is None or self._closed:
            raise not_running(closed=self._closed)
        await self._commits.commit(wanted)

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group committed, None where nothing.

        A member of the consumer protocol says who it is; with an epoch that is over it asks again,
        and as nobody where it is no member any more (G57).
        """
        group_id = self.id("committed")
        if self._cluster is None or self._closed:
            raise not_running(closed=self._closed)
        cluster, deadline = self._cluster, self._cluster.deadline()
        while True:
            asked_as = self.member.asks_as() if self.member is not None else None
            try:
                return await committed_offsets(
                    cluster, group_id, partitions, deadline, member=asked_as
                )
            except BrokerError as error:
                over = error.code in (STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID)
                if asked_as is None or not over or deadline.passed(cluster.now_ms()):
                    raise
                self.commit_refused(error, asked_as)
            await cluster.clock.sleep_ms(EPOCH_BACKOFF_MS)

    def committed_here(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Return what this consumer committed last for a partition."""
        return self._commits.last(tp) if self._commits is not None else None

    def history_changed(self, tp: TopicPartition) -> None:
        """Compare the next commit of a partition with none before: its history is another."""
        if self._commits is not None:
            self._commits.forget(tp)

    def taken(self, partitions: Collection[TopicPartition]) -> None:
        """Compare the next commit of these with none before: they were not read until now."""
        if self._commits is not None:
            self._commits.taken(partitions)

    def may_commit(self) -> ConsumerGroupMetadata:
        """Return as whom to commit: as a member, or where partitions are assigned
        by hand as an outsider.
        """
        return (
            self.member.may_commit()
            if self.member is not None
            else ConsumerGroupMetadata(self.id("commit"))
        )

    def commit_refused(self, error: KafkaError, asked_as: ConsumerGroupMetadata) -> bool:
        """Take a refused commit as news about the membership; return whether it may go again."""
        return self.member is not None and self.member.commit_refused(error, asked_as)

    def held(self) -> frozenset[TopicPartition]:
        """Return the partitions that are read now."""
        return self._reader.assignment

    def of_other_topics(self) -> frozenset[TopicPartition]:
        """Return those of which another topic seems to have the name now."""
        return self._reader.of_other_topics()

    # -- looking at it -----------------------------------------------------------------------------

    def metadata(self) -> ConsumerGroupMetadata:
        """Return who this consumer is to its group."""
        if self.member is not None:
            return self.member.metadata()
        return ConsumerGroupMetadata(self.id("group_metadata"))

    def enforce_rebalance(self, reason: str) -> None:
        """Let the group rebalance."""
        if self.member is not None:
            self.member.enforce_rebalance(reason)
            self._reader.wake()

    def health(self) -> GroupHealth | None:
        """Return how the membership is, None outside of one."""
        return self.member.health() if self.member is not None else None
