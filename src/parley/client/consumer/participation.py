"""A consumer in its group, as the application sees it: its partitions change in its own polls and
nowhere else.

Heartbeats and rebalances run beside the polls. What they bring waits until the application polls,
and is then shown one step after the other: commit and `on_partitions_revoked`, then
`on_partitions_assigned` (G35 to G38).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.consumer.commits import Commits
from parley.client.consumer.health import GroupHealth, health_of
from parley.client.consumer.last_commit import LastCommit
from parley.client.consumer.listener import CallListener, ConsumerRebalanceListener
from parley.client.consumer.options import ConsumerOptions
from parley.client.consumer.reader import Reader
from parley.client.consumer.subscription import Subscribed, Subscription
from parley.client.group.classic.member import ClassicMember
from parley.client.group.classic.requests import Standing
from parley.client.group.member import Committing, GroupMember, Identity, Membership
from parley.client.group.modern.heartbeat import Standing as ModernStanding
from parley.client.group.modern.member import ModernMember, new_member_id
from parley.client.group.pace import Pace
from parley.client.group.steps import Assign, GroupStep, Lost, Revoke
from parley.client.results import ConsumerGroupMetadata
from parley.errors import (
    BrokerError,
    CommitFailedError,
    KafkaError,
    UnsupportedVersionError,
    broker_error,
    own_copy,
)
from parley.errors.codes import (
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from parley.types import TopicPartition

log = logging.getLogger("parley.client")
TURNS_TO_ASSIGNED = 6
"""Turns of the event loop from an answer of the coordinator to the listener, and some more."""


class Participation:
    """One consumer's part in a group. Belongs to the event loop."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        reader: Reader,
        commits: Commits,
        call: CallListener,
    ) -> None:
        self._cluster, self._options, self._reader = cluster, options, reader
        self._commits, self._call, self._group_id = commits, call, commits.group_id
        self._pace = Pace(
            options.heartbeat_interval_ms, options.session_timeout_ms, options.max_poll_interval_ms
        )
        self._last_commit = LastCommit(
            cluster, commits, options.max_poll_interval_ms, on_end=reader.wake
        )
        self._member = self._make_member(modern=options.group_protocol != "classic")
        self._listener: ConsumerRebalanceListener = ConsumerRebalanceListener()
        self._subscription = Subscription(
            cluster,
            self._group_id,
            self._subscribe,
            reader.wake,
            internal=not options.exclude_internal_topics,
        )
        self._showing: asyncio.Task[BaseException | None] | None = None
        """The step that is being shown, or that a cancelled poll left to the next one."""
        self._awaited = False
        """Whether a poll waits for that."""
        self._leaving = False

    def _make_member(self, *, modern: bool) -> GroupMember:
        options, cluster, on_news = self._options, self._cluster, self._reader.wake
        if modern:
            who = ModernStanding(
                self._group_id,
                new_member_id(),
                options.group_instance_id,
                options.max_poll_interval_ms,
                options.client_rack,
                options.group_remote_assignor,
            )
            return ModernMember(cluster, who, self._pace, on_news=on_news)
        classic = Standing(
            self._group_id,
            options.group_instance_id,
            options.session_timeout_ms,
            options.max_poll_interval_ms,
            options.client_rack,
        )
        return ClassicMember(cluster, classic, options.assignors, self._pace, on_news=on_news)

    @property
    def _membership(self) -> Membership:
        return self._member.membership

    # -- what is subscribed to ---------------------------------------------------------------------

    @property
    def subscribed(self) -> bool:
        """Whether topics or a pattern are subscribed to."""
        return self._subscription.pattern is not None or self._membership.topics is not None

    @property
    def topics(self) -> frozenset[str]:
        """The topics subscribed to; with a pattern, those that matched last."""
        return self._membership.topics or frozenset()

    def subscribe(self, wanted: Subscribed) -> None:
        """Read topics, or all that a pattern matches, as a member of the group."""
        self._listener = wanted.listener
        self._pace.polled(self._cluster.now_ms())
        self._subscription.begin(wanted)

    def _subscribe(self, topics: Collection[str]) -> None:
        self._member.subscribe(topics)  # that of now: it may have fallen back to the classic one

    def enforce_rebalance(self, reason: str) -> None:
        """Let the group rebalance."""
        self._membership.request_rejoin(reason)
        self._member.wake()

    # -- the application's polls -------------------------------------------------------------------

    @property
    def showing(self) -> bool:
        """Whether a listener is running for a poll now, or polls itself."""
        task = self._showing
        return self._leaving or (
            task is not None and (self._awaited or task is asyncio.current_task())
        )

    def poll_begins(self) -> None:
        """Take note of a poll: it may wait, and what the one before handed out is done with."""
        self._pace.poll_begins(self._cluster.now_ms())
        self._member.polled()
        self._member.look_at_metadata()

    def poll_ends(self) -> None:
        """Take note that the application has what it asked for."""
        self._pace.poll_ends(self._cluster.now_ms())

    @property
    def news(self) -> bool:
        """Whether there is anything to show."""
        membership = self._membership
        return (
            self._showing is not None
            or membership.pending
            or bool(membership.error or membership.passing_error or self._subscription.error)
        )

    async def show(self, deadline: Deadline | None) -> bool:
        """Show what a rebalance brought, step by step; return whether that is all of it.

        Where a commit outlasts the poll the next one goes on. Raises what a listener raised, or why
        the membership ended.
        """
        raised = await self._shown()
        waits = False
        while not waits and (step := self._membership.next_step()) is not None:
            if await self._committed_before(step, deadline):
                self._showing = asyncio.get_running_loop().create_task(self._show(step))
                raised = await self._shown() or raised
            else:
                waits = True
        error, self._membership.passing_error = (
            self._membership.passing_error
            or self._membership.error
            or self._subscription.take_error(),
            None,
        )
        if raised is None and error is not None and await self._fell_back(error):
            return True
        if raised is not None:
            raise raised
        if error is not None:
            raise own_copy(error)
        return not waits

    async def _committed_before(self, step: GroupStep, deadline: Deadline | None) -> bool:
        """Commit before partitions go to others; return whether that is over."""
        if isinstance(step, Revoke):
            return await self._last_commit.done(self._reader.consumed(), deadline)
        await self._last_commit.drop()
        return True

    async def _fell_back(self, error: KafkaError) -> bool:
        """Become a classic member where the brokers do not have the consumer
        protocol, if that may be (G60).
        """
        unsupported = isinstance(error, UnsupportedVersionError) and isinstance(
            self._member, ModernMember
        )
        if self._options.group_protocol != "auto" or not unsupported:
            return False
        log.info(
            "group %s: the brokers do not have the consumer protocol; the classic one is used",
            self._group_id,
        )
        topics, before = self._membership.topics, self._member
        await before.leave("the classic protocol is used", deadline=self._cluster.deadline())
        self._member = self._make_member(modern=False)
        if topics is not None:
            self._member.subscribe(topics)
        return True

    async def _shown(self) -> BaseException | None:
        """Wait for the step that is being shown; a poll that is cancelled meanwhile leaves it to
        the next one. Return what the listener raised.
        """
        if (task := self._showing) is None:
            return None
        self._awaited = True
        try:
            return await asyncio.shield(task)
        finally:
            self._awaited = False
            if task.done():
                self._showing = None

    async def _show(self, step: GroupStep) -> BaseException | None:
        """Show one step; the state is consistent afterwards, whatever the listener raised (G38)."""
        try:
            if isinstance(step, Assign):
                await self._take(step)
                return None
            await self._give_up(step)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # an exit is the poll's: a task's would end the event loop
            return error
        finally:
            if not isinstance(step, Assign):
                self._membership.step_done(step)
                self._reader.read(self._membership.owned)
            if self.subscribed:
                self._member.wake()
        return None

    async def _take(self, step: Assign) -> None:
        """Take partitions; they are fetched when the listener, which may seek, knows of them.

        Of the members of one event loop, each has its partitions before the first of them looks
        for positions.
        """
        self._reader.read({*step.kept, *step.added}, held=step.added)
        self._membership.step_done(step)
        self._commits.restart()
        try:
            await self._notify(self._listener.on_partitions_assigned, step.added)
            for _ in range(TURNS_TO_ASSIGNED):
                await asyncio.sleep(0)
        finally:
            self._reader.release()

    async def _give_up(self, step: Revoke | Lost) -> None:
        lost = isinstance(step, Lost)
        listener = self._listener
        call = listener.on_partitions_lost if lost else listener.on_partitions_revoked
        await self._notify(call, step.partitions)

    async def _notify(
        self,
        call: Callable[[list[TopicPartition]], Awaitable[None] | None],
        partitions: Collection[TopicPartition],
    ) -> None:
        await self._call(lambda: call(list(partitions)))

    # -- the end -----------------------------------------------------------------------------------

    async def leave(self, reason: str, deadline: Deadline) -> None:
        """Give everything up and leave the group. Raises what a listener raised,
        after the group was left.

        A call that is cancelled leaves nothing behind either: nobody would poll for a member that
        goes on.
        """
        self._subscription.end()
        try:
            raised = await self._last_steps(deadline)
            await self._member.leave(reason, deadline=deadline)
        except BaseException:
            self._member.stop()
            if not self.showing and self._showing is not None:
                self._showing.cancel()
            raise
        finally:
            self._reader.read(())
        if raised is not None:
            raise raised

    async def _last_steps(self, deadline: Deadline) -> BaseException | None:
        """Commit, and show the application that it has nothing any more; return what it raised."""
        raised = None if self.showing else await self._shown()
        await self._last_commit.drop()
        try:
            step = self._membership.last_step()
            if isinstance(step, Revoke):
                await self._commits.finish(self._reader.consumed(), deadline)
            if step is not None:
                self._leaving = True
                await self._give_up(step)
        except Exception as error:
            raised = error
        finally:
            self._leaving = False
        return raised

    # -- commits -----------------------------------------------------------------------------------

    def metadata(self) -> ConsumerGroupMetadata:
        """Return who this member is, as commits in a transaction name it (KIP-447).

        Who is none any more is named as it was: the coordinator refuses that, and takes what nobody
        sends.
        """
        member_id, generation = self._member.read_as
        return ConsumerGroupMetadata(
            self._group_id, generation, member_id, self._options.group_instance_id
        )

    def asks_as(self) -> ConsumerGroupMetadata | None:
        """Return as whom to ask for committed offsets: as a member of the consumer protocol, else
        as nobody in particular (G57).
        """
        modern = isinstance(self._member, ModernMember)
        return self.metadata() if modern and self._membership.committing is Committing.NOW else None

    def may_commit(self) -> ConsumerGroupMetadata:
        """Return as whom to commit (G43).

        Raises REBALANCE_IN_PROGRESS between two generations, CommitFailedError where the
        partitions are lost, and why the membership ended for good, which no poll repairs.
        """
        membership = self._membership
        if not self.subscribed:
            return ConsumerGroupMetadata(self._group_id)
        if membership.committing is Committing.NOW:
            return self.metadata()
        if membership.error is not None:
            raise own_copy(membership.error)
        if membership.committing is Committing.AFTER_THE_REBALANCE:
            text = (
                f"group {self._group_id} is rebalancing; poll, then commit what is still assigned"
            )
            raise broker_error(REBALANCE_IN_PROGRESS, text, api="OFFSET_COMMIT")
        text = (
            f"the consumer is no member of group {self._group_id} now: its partitions may be "
            "others' already. Poll to join again, which raises what stands in the way; if it "
            "polled too late before, poll sooner or raise max_poll_interval_ms"
        )
        error = broker_error(UNKNOWN_MEMBER_ID, text, api="OFFSET_COMMIT")
        failures = dict.fromkeys(self._reader.consumed(), error)
        said = "nothing was committed" if failures else f"nothing was committed, for {text}"
        raise CommitFailedError(said, failures) from error

    def commit_refused(self, error: KafkaError, asked_as: ConsumerGroupMetadata) -> bool:
        """Take a refused commit as news about the membership; return whether it may
        go again as who it is now.
        """
        if not isinstance(error, BrokerError) or not self.subscribed:
            return False
        again = self._membership.commit_refused(
            error, Identity(asked_as.member_id, asked_as.generation_id)
        )
        self._member.wake()
        return again

    # -- looking at it -----------------------------------------------------------------------------

    def health(self) -> GroupHealth:
        """Return how this member is."""
        stalled = self._reader.stalled()
        return health_of(self._member, self._pace, stalled, self._cluster.now_ms())
