"""Sends what a classic membership calls for, and feeds it the answers. Belongs to the event loop.

Two tasks: one joins (JoinGroup and SyncGroup, which may take as long as the slowest member), the
other one sends heartbeats and watches the clock. What the application is shown is not their affair:
see `membership`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.view import ClusterMetadata
from parley.client.group.assignors.base import Assignor, Member
from parley.client.group.bell import Bell
from parley.client.group.classic.leader import (
    Shape,
    apart,
    learn_topics,
    shape_of,
    share_out_apart,
)
from parley.client.group.classic.membership import ClassicMembership, MemberState, Share
from parley.client.group.classic.reactions import Reaction
from parley.client.group.classic.requests import (
    PROTOCOL_TYPE,
    Standing,
    group_error,
    heartbeat_request,
    join_request,
    leave_error,
    leave_request,
    members_of,
    subscription_of,
    sync_request,
)
from parley.client.group.coordinator import LEAVE_TIMEOUT_MS, GroupCoordinator
from parley.client.group.formats import decode_assignment
from parley.client.group.member import Identity, warn_of_absence
from parley.client.group.pace import Pace
from parley.client.group.steps import in_order
from parley.errors import KafkaError, LocalProtocolError, broker_error
from parley.errors.codes import INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED
from parley.messages import JoinGroupResponse, SyncGroupRequest
from parley.schema import ApiKey
from parley.types import TopicPartition
from parley.versions import Feature

log = logging.getLogger("parley.client")
JOIN_SLACK_MS = 5_000
"""How much longer than the rebalance timeout JoinGroup may take, as in Java (G8)."""


class ClassicMember:
    """One consumer's membership: the pure machine, and the requests that it calls for."""

    def __init__(
        self,
        cluster: Cluster,
        who: Standing,
        assignors: Sequence[Assignor],
        pace: Pace,
        *,
        on_news: Callable[[], None],
    ) -> None:
        self._cluster, self._who, self._assignors, self._pace = cluster, who, tuple(assignors), pace
        self._on_news = on_news
        self._coordinator = GroupCoordinator(cluster, who.group_id)
        self._tasks: list[asyncio.Task[None]] = []
        self._join_bell, self._beat_bell = Bell(cluster.clock), Bell(cluster.clock)
        self._failures = 0
        self._watched: tuple[Sequence[str], Shape] | None = None
        self._looked_at: ClusterMetadata | None = None
        self.membership = ClassicMembership(cooperative=all(one.cooperative for one in assignors))

    @property
    def identity(self) -> Identity:
        """Who this member is to its group."""
        return self.membership.identity

    @property
    def read_as(self) -> Identity:
        """Who read what the application has, to its group."""
        return self.membership.read_as

    # -- life --------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look again at what the membership calls for: it was changed from outside."""
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [
                loop.create_task(self._guarded(work)) for work in (self._join_when_due, self._stay)
            ]
        self._join_bell.ring()
        self._beat_bell.ring()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run one of the two tasks; a defect of ours is raised by every
        poll rather than by none.
        """
        try:
            await work()
        except Exception as error:
            made = LocalProtocolError(
                f"group {self._who.group_id}: the membership ended by {error!r}; please report it"
            )
            made.__cause__ = error
            self.membership.end(made)
            self._on_news()

    async def leave(self, reason: str, *, deadline: Deadline, static_too: bool = False) -> None:
        """End the membership, after its last steps. A static member stays in the group,
        so that it may come back.
        """
        await asyncio.gather(*self._end_tasks(), return_exceptions=True)
        identity = self.membership.leave()
        await self._send_leave(identity, reason, deadline, static_too=static_too)

    def stop(self) -> None:
        """End it at once: the coordinator notices after a session."""
        self._end_tasks()
        self.membership.leave()

    def _end_tasks(self) -> list[asyncio.Task[None]]:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        self._watched, self._failures = None, 0
        return tasks

    async def _send_leave(
        self, identity: Identity, reason: str, deadline: Deadline, *, static_too: bool
    ) -> None:
        if not identity.member_id or (self._who.group_instance_id is not None and not static_too):
            return
        try:
            reply = await self._coordinator.say_farewell(
                ApiKey.LEAVE_GROUP,
                lambda version: leave_request(self._who, identity, reason, version),
                deadline,
            )
            error = leave_error(reply.message, reply.version)
        except KafkaError as failed:
            error = failed
        if error is not None:  # the session ends by itself
            log.info("group %s: leaving it was not confirmed: %s", self._who.group_id, error)

    # -- the task that joins -----------------------------------------------------------------------

    async def _join_when_due(self) -> None:
        while True:
            if not self.membership.may_join:
                await self._join_bell.wait(None)
                continue
            reaction = await self._join_once()
            self._news()
            if reaction in (Reaction.WAIT, Reaction.FIND):
                delay_ms = self._cluster.backoff.delay_ms(self._failures, self._cluster.rng)
                self._failures += 1
                await self._cluster.clock.sleep_ms(delay_ms)

    async def _join_once(self) -> Reaction | None:
        """Take part in one rebalance; return what stands in its way, None where nothing does."""
        membership = self.membership
        began_ms = self._cluster.now_ms()
        asked_as = membership.joining()
        self._pace.rebalance_began(began_ms, membership.reason)
        try:
            answer = await self._join_group(asked_as)
            if membership.state is not MemberState.PREPARING_REBALANCE:
                return None  # the application stayed away meanwhile
            if answer.error_code == MEMBER_ID_REQUIRED:
                membership.named(answer.member_id)
                return None
            if answer.error_code:
                raise group_error(answer.error_code, self._who, ApiKey.JOIN_GROUP)
        except KafkaError as error:
            self._coordinator.note(error)
            return self._log_failure(membership.join_failed(error), error)
        return await self._sync(answer)

    async def _join_group(self, asked_as: Identity) -> JoinGroupResponse:
        who = self._who
        if who.group_instance_id is not None:
            (await self._coordinator.connection()).versions.require(Feature.STATIC_MEMBERSHIP)
        timeout_ms = max(
            self._cluster.options.request_timeout_ms, who.rebalance_timeout_ms + JOIN_SLACK_MS
        )
        topics = self.membership.topics or frozenset()
        kept = Share(
            in_order(tp for tp in self.membership.owned if tp.topic in topics), asked_as.generation
        )
        last = self.membership.share
        protocols = [
            (one.name, subscription_of(one, topics, kept, last, who.rack))
            for one in self._assignors
        ]
        reply = await self._coordinator.ask(
            ApiKey.JOIN_GROUP,
            lambda version: join_request(who, asked_as, protocols, self.membership.reason, version),
            timeout_ms,
        )
        return reply.message

    async def _sync(self, answer: JoinGroupResponse) -> Reaction | None:
        membership = self.membership
        identity = Identity(answer.member_id, answer.generation_id)
        leads = answer.leader == answer.member_id
        membership.joined(identity, answer.protocol_name, leads=leads)
        self._pace.beat_answered(self._cluster.now_ms())
        self._beat_bell.ring()
        try:
            assignor = self._chosen(answer)
            if leads:
                request = await self._lead(assignor, answer, identity)
            else:
                request = sync_request(self._who, identity, answer.protocol_name, {})
            timeout_ms = max(
                self._cluster.options.request_timeout_ms,
                self._who.rebalance_timeout_ms + JOIN_SLACK_MS,
            )
            reply = await self._coordinator.ask(
                ApiKey.SYNC_GROUP, lambda version: request, timeout_ms
            )
            if reply.message.error_code:
                code = reply.message.error_code
                raise group_error(code, self._who, ApiKey.SYNC_GROUP, reply.version)
            assignment = decode_assignment(bytes(reply.message.assignment))
        except KafkaError as error:
            self._coordinator.note(error)
            if (
                membership.identity != identity
                or membership.state is not MemberState.COMPLETING_REBALANCE
            ):
                return None  # a heartbeat has found out already
            return self._log_failure(membership.sync_failed(error), error)
        if membership.identity == identity and membership.state is MemberState.COMPLETING_REBALANCE:
            self._failures = 0
            membership.synced(assignment)
            self._finished(identity, assignment)
        return None

    def _chosen(self, answer: JoinGroupResponse) -> Assignor:
        for one in self._assignors:
            if one.name == answer.protocol_name and answer.protocol_type in (
                None,
                "",
                PROTOCOL_TYPE,
            ):
                return one
        named = f"{answer.protocol_name!r} of type {answer.protocol_type!r}"
        text = f"group {self._who.group_id} works by {named}, which this member did not offer"
        raise broker_error(INCONSISTENT_GROUP_PROTOCOL, text, api="JOIN_GROUP")

    def _finished(self, identity: Identity, assignment: Sequence[TopicPartition]) -> None:
        took_ms = self._pace.rebalance_ended(self._cluster.now_ms())
        log.info(
            "group %s: rebalance to generation %d done in %d ms, %d partitions for %s%s; its "
            "reason: %s",
            self._who.group_id,
            identity.generation,
            took_ms,
            len(assignment),
            identity.member_id,
            " (leader)" if self.membership.leads else "",
            self.membership.reason,
        )

    def _log_failure(self, reaction: Reaction, error: KafkaError) -> Reaction:
        if reaction is not Reaction.FATAL:
            log.log(
                logging.WARNING if self._failures == 3 else logging.DEBUG,
                "group %s: joining has not worked yet (%s): %s",
                self._who.group_id,
                reaction.value,
                error,
            )
        return reaction

    # -- the leader --------------------------------------------------------------------------------

    async def _lead(
        self, assignor: Assignor, answer: JoinGroupResponse, identity: Identity
    ) -> SyncGroupRequest:
        """Share the partitions out; heartbeats and all other tasks of the loop go on meanwhile."""
        members = await apart(lambda: members_of(answer), len(answer.members))
        await self._watch(members)
        request = partial(sync_request, self._who, identity, answer.protocol_name)
        if answer.skip_assignment:
            return request({})
        return await share_out_apart(assignor, self._cluster.view, members, request)

    async def _watch(self, members: Sequence[Member]) -> None:
        """Learn about the topics of all members; from now on their changes are
        this member's affair (G40).
        """
        topics = sorted({topic for member in members for topic in member.subscription.topics})
        await learn_topics(
            self._cluster, topics, self._cluster.deadline(self._cluster.options.request_timeout_ms)
        )
        self._watched = topics, self._shape(topics)

    def _shape(self, topics: Iterable[str]) -> Shape:
        return shape_of(self._cluster.view, topics, racks=bool(self._who.rack))

    def look_at_metadata(self) -> None:
        """Let a leader rebalance when the topics of its group are others
        than those it shared out.
        """
        view = self._cluster.view
        if view is self._looked_at or self._watched is None or not self.membership.leads:
            return
        if self.membership.state is not MemberState.STABLE:
            return
        self._looked_at = view
        topics, shape = self._watched
        if self._shape(topics) != shape:
            self._watched = topics, self._shape(topics)
            self.membership.request_rejoin("cached metadata has changed")
            self.wake()
            self._on_news()

    def _keep_metadata_fresh(self) -> None:
        """Ask for metadata that is due, and for topics of the group that do not exist yet."""
        topics, shape = self._watched or ((), {})
        if self.membership.leads and any(topic not in shape for topic in topics):
            self._cluster.schedule.request_full()
        self._cluster.refresh_if_due()

    # -- the task that stays -----------------------------------------------------------------------

    async def _stay(self) -> None:
        while True:
            await self._beat_bell.wait(
                self._pace.due_ms(self._cluster.now_ms(), beating=self.membership.beating)
            )
            now_ms = self._cluster.now_ms()
            if self._pace.poll_overdue(now_ms):
                await self._give_up_polling(now_ms)
            elif self.membership.beating and self._pace.beat_due(now_ms):
                await self._beat()
                self._keep_metadata_fresh()
                self.look_at_metadata()

    async def _beat(self) -> None:
        membership, asked_as = self.membership, self.membership.identity
        self._pace.beat_sent(self._cluster.now_ms())
        request = heartbeat_request(self._who, asked_as)
        try:
            reply = await self._coordinator.ask(
                ApiKey.HEARTBEAT,
                lambda version: request,
                self._pace.beat_timeout_ms(self._cluster.options),
            )
            self._pace.beat_answered(self._cluster.now_ms())
            if reply.message.error_code:
                code = reply.message.error_code
                raise group_error(code, self._who, ApiKey.HEARTBEAT, reply.version)
        except KafkaError as error:
            self._coordinator.note(error)
            reaction = membership.beat_failed(error, asked_as)
            log.debug("group %s: heartbeat (%s): %s", self._who.group_id, reaction.value, error)
            if reaction in (Reaction.FIND, Reaction.WAIT):
                self._pace.beat_again(
                    self._cluster.now_ms() + self._cluster.options.retry_backoff_ms
                )
            self._news()

    async def _give_up_polling(self, now_ms: int) -> None:
        away_ms, identity = self._pace.away_ms(now_ms), self.membership.identity
        if not self.membership.poll_overdue():
            self._pace.wait_for_poll()
            return
        self._pace.wait_for_poll()
        warn_of_absence(self._who.group_id, away_ms, self._pace.max_poll_interval_ms)
        self._news()
        deadline = self._cluster.deadline(LEAVE_TIMEOUT_MS)
        with contextlib.suppress(KafkaError):
            await self._send_leave(
                identity, "consumer poll timeout has expired", deadline, static_too=False
            )

    def _news(self) -> None:
        self.wake()
        self._on_news()

    # -- what the application does -----------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Take the topics to read."""
        self._cluster.schedule.want(topics)
        self.membership.subscribe(topics)
        self.wake()

    def polled(self) -> None:
        """Take note that the application polls again, where the member waits for that."""
        if self.membership.polled():
            self.wake()
