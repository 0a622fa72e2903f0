"""Sends the heartbeats of a member of a share group, and feeds it the answers.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection

from parley.client.cluster.core import Cluster
from parley.client.cluster.refusals import refusal
from parley.client.cluster.retry import Deadline
from parley.client.group.bell import Bell
from parley.client.group.coordinator import LEAVE_TIMEOUT_MS, GroupCoordinator
from parley.client.group.member import warn_of_absence
from parley.client.group.modern.reactions import Reaction
from parley.client.group.pace import Pace
from parley.client.group.share.heartbeat import (
    ShareStanding,
    assigned_ids,
    heartbeat_request,
    leaving_request,
)
from parley.client.group.share.membership import ShareMembership, ShareMemberState
from parley.client.group.topic_names import TopicNames
from parley.errors import KafkaError, LocalProtocolError
from parley.schema import ApiKey
from parley.versions import Feature

log = logging.getLogger("parley.client")


class ShareMember:
    """One consumer's membership: the pure machine, and the requests that it calls for."""

    def __init__(
        self, cluster: Cluster, who: ShareStanding, pace: Pace, *, on_news: Callable[[], None]
    ) -> None:
        self._cluster, self.who, self._pace, self._on_news = cluster, who, pace, on_news
        self._coordinator = GroupCoordinator(cluster, who.group_id)
        self._task: asyncio.Task[None] | None = None
        self._bell = Bell(cluster.clock)
        self._failures = 0
        self.membership = ShareMembership()
        self._names = TopicNames(cluster, self.membership)

    # -- what the application does ----------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Take the topics to read."""
        self._cluster.schedule.want(topics)
        self._pace.polled(self._cluster.now_ms())
        self.membership.subscribe(topics)
        self.wake()

    def poll_begins(self) -> None:
        """Take note that the application polls; where it had stayed away, it joins again."""
        self._pace.poll_begins(self._cluster.now_ms())
        if self.membership.polled():
            self.wake()
        self._names.look_again()

    def poll_ends(self) -> None:
        """Take note that the application has what it asked for."""
        self._pace.poll_ends(self._cluster.now_ms())

    def fenced(self) -> None:
        """Join again: a leader does not know this member."""
        self.membership.fenced()
        self.wake()

    def wake(self) -> None:
        """Look again at what the membership calls for: it was changed from outside."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._guarded())
        self._bell.ring()

    async def leave(self, deadline: Deadline) -> None:
        """End the membership, and let the coordinator know."""
        task = self._end_task()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
        was_in_group = self.membership.in_group
        self.membership.leave()
        if was_in_group:
            await self._send_leave(deadline)

    def stop(self) -> None:
        """End it at once: the coordinator notices after a session."""
        self._end_task()
        self.membership.leave()

    def _end_task(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def _send_leave(self, deadline: Deadline) -> None:
        try:
            await self._coordinator.say_farewell(
                ApiKey.SHARE_GROUP_HEARTBEAT, lambda version: leaving_request(self.who), deadline
            )
        except KafkaError as error:  # the session ends by itself
            log.info("share group %s: leaving was not confirmed: %s", self.who.group_id, error)

    # -- the task ---------------------------------------------------------------------------------

    async def _guarded(self) -> None:
        try:
            await self._stay()
        except Exception as error:
            made = LocalProtocolError(
                f"share group {self.who.group_id}: the membership ended by {error!r}; please "
                "report it"
            )
            made.__cause__ = error
            self.membership.leave()
            self.membership.state, self.membership.error = ShareMemberState.FATAL, made
            self._on_news()

    async def _stay(self) -> None:
        while True:
            membership, now_ms = self.membership, self._cluster.now_ms()
            if not membership.hurried:
                await self._bell.wait(self._pace.due_ms(now_ms, beating=membership.beating))
                now_ms = self._cluster.now_ms()
            if self._pace.poll_overdue(now_ms):
                await self._give_up_polling(now_ms)
            elif membership.hurried or (membership.beating and self._pace.beat_due(now_ms)):
                await self._beat()

    async def _beat(self) -> None:
        membership = self.membership
        epoch, topics, before = membership.to_say()
        self._pace.beat_sent(self._cluster.now_ms())
        request = heartbeat_request(self.who, epoch, topics, before)
        try:
            conn = await self._coordinator.connection()
            conn.versions.require(Feature.SHARE_GROUPS)
            reply = await self._coordinator.ask(
                ApiKey.SHARE_GROUP_HEARTBEAT,
                lambda version: request,
                self._pace.beat_timeout_ms(self._cluster.options),
            )
            answer = reply.message
            if answer.error_code:
                code, said, group = answer.error_code, answer.error_message, self.who.group_id
                raise refusal(reply, code, said, conn=conn, resource=f"group {group}")
        except KafkaError as error:
            self._coordinator.note(error)
            await self._failed(error, epoch)
            return
        self._failures = 0
        interval_ms = answer.heartbeat_interval_ms or self._pace.heartbeat_interval_ms
        self._pace.heartbeat_interval_ms = interval_ms
        self._pace.beat_sent(self._cluster.now_ms())  # by the interval of the coordinator
        self._pace.beat_answered(self._cluster.now_ms())
        if epoch == 0:
            log.info(
                "share group %s: %s joined at epoch %d",
                self.who.group_id,
                self.who.member_id,
                answer.member_epoch,
            )
        membership.answered(epoch, topics, answer.member_epoch, assigned_ids(answer))
        await self._names.resolve()
        self._cluster.refresh_if_due()
        self._on_news()

    async def _failed(self, error: KafkaError, epoch: int) -> None:
        reaction = self.membership.failed(error, epoch)
        log.debug("share group %s: %s: %s", self.who.group_id, reaction.value, error)
        self._on_news()
        if reaction in (Reaction.FIND, Reaction.WAIT, Reaction.RAISE):
            delay_ms = self._cluster.backoff.delay_ms(self._failures, self._cluster.rng)
            self._failures += 1
            self._pace.beat_again(self._cluster.now_ms() + delay_ms)
            if self.membership.hurried:
                await self._cluster.clock.sleep_ms(delay_ms)

    async def _give_up_polling(self, now_ms: int) -> None:
        away_ms = self._pace.away_ms(now_ms)
        was_in_group = self.membership.in_group
        self._pace.wait_for_poll()
        if not self.membership.poll_overdue():
            return
        warn_of_absence(self.who.group_id, away_ms, self._pace.max_poll_interval_ms)
        self._on_news()
        if was_in_group:
            with contextlib.suppress(KafkaError):
                await self._send_leave(self._cluster.deadline(LEAVE_TIMEOUT_MS))
