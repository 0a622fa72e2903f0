"""Sends the heartbeats of a member of the consumer protocol, and feeds it the
answers. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Collection

from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.group.bell import Bell
from parley.client.group.coordinator import LEAVE_TIMEOUT_MS, GroupCoordinator
from parley.client.group.member import Identity, warn_of_absence
from parley.client.group.modern.heartbeat import (
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Standing,
    asks_for_partitions,
    heartbeat_request,
    leaving_request,
    target_of,
)
from parley.client.group.modern.membership import MemberState, ModernMembership
from parley.client.group.modern.reactions import Reaction
from parley.client.group.pace import Pace
from parley.client.group.topic_names import TopicNames
from parley.errors import KafkaError, LocalProtocolError, broker_error
from parley.errors.codes import TOPIC_AUTHORIZATION_FAILED
from parley.schema import ApiKey
from parley.types import format_uuid
from parley.versions import VersionRange

log = logging.getLogger("parley.client")
OWN_ID_VERSION = 1
"""First ConsumerGroupHeartbeat version in which the client makes the member
id (KIP-1082, Kafka 4.0).
"""


def new_member_id() -> str:
    """Return an id for a member, which the client makes since Kafka 4.0 (G48): a UUID in
    base64, as Java writes it.
    """
    return format_uuid(uuid.uuid4().bytes)


class ModernMember:
    """One consumer's membership: the pure machine, and the requests that it calls for."""

    def __init__(
        self, cluster: Cluster, who: Standing, pace: Pace, *, on_news: Callable[[], None]
    ) -> None:
        self._cluster, self._who, self._pace, self._on_news = cluster, who, pace, on_news
        self._coordinator = GroupCoordinator(cluster, who.group_id)
        self._task: asyncio.Task[None] | None = None
        self._bell = Bell(cluster.clock)
        self._failures = 0
        self.membership = ModernMembership()
        self._names = TopicNames(cluster, self.membership)

    @property
    def identity(self) -> Identity:
        """Who this member is to its group; the generation is the member epoch."""
        return Identity(
            self._who.member_id, self.membership.epoch if self.membership.in_group else -1
        )

    @property
    def read_as(self) -> Identity:
        """Who read what the application has, to its group."""
        epoch = self.membership.read_in
        return Identity(self._who.member_id, epoch if epoch > 0 else -1)

    # -- life --------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look again at what the membership calls for: it was changed from outside."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._guarded())
        self._bell.ring()

    async def leave(self, reason: str, *, deadline: Deadline) -> None:
        """End the membership, after its last steps. A static member leaves
        for a while only (G56).
        """
        task = self._end_task()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)
        was_in_group = self.membership.in_group
        self.membership.leave()
        log.debug("group %s: leaving: %s", self._who.group_id, reason)
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
        epoch = LEAVING if self._who.group_instance_id is None else LEAVING_FOR_A_WHILE
        try:
            await self._coordinator.say_farewell(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                lambda version: leaving_request(self._who, epoch),
                deadline,
            )
        except KafkaError as error:  # the session ends by itself
            log.info("group %s: leaving it was not confirmed: %s", self._who.group_id, error)

    async def _guarded(self) -> None:
        try:
            await self._stay()
        except Exception as error:
            made = LocalProtocolError(
                f"group {self._who.group_id}: the membership ended by {error!r}; please report it"
            )
            made.__cause__ = error
            self.membership.end(made)
            self._on_news()

    # -- the task ----------------------------------------------------------------------------------

    async def _stay(self) -> None:
        while True:
            membership, now_ms = self.membership, self._cluster.now_ms()
            if self._pace.rebalancing and membership.has_nothing:
                self._finished()
            if not membership.hurried:
                await self._bell.wait(self._pace.due_ms(now_ms, beating=membership.beating))
                now_ms = self._cluster.now_ms()
            if self._pace.poll_overdue(now_ms):
                await self._give_up_polling(now_ms)
            elif membership.hurried or (membership.beating and self._pace.beat_due(now_ms)):
                await self._beat()

    async def _beat(self) -> None:
        membership = self.membership
        epoch, said, before = membership.to_say()
        acknowledging = membership.state is MemberState.ACKNOWLEDGING
        if membership.state is MemberState.JOINING:
            self._pace.rebalance_began(self._cluster.now_ms(), "the member joins")
        self._pace.beat_sent(self._cluster.now_ms())
        request = heartbeat_request(self._who, epoch, said, before, membership.topic_ids)
        try:
            reply = await self._coordinator.ask(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                lambda version: request,
                self._pace.beat_timeout_ms(self._cluster.options),
                allowed=VersionRange(OWN_ID_VERSION, 2**15 - 1),
            )
            answer = reply.message
            if answer.error_code:
                raise self._refusal(answer.error_code, answer.error_message, reply.version)
        except KafkaError as error:
            self._coordinator.note(error)
            await self._failed(error, epoch)
            return
        self._failures = 0
        now_ms = self._cluster.now_ms()
        self._pace.heartbeat_interval_ms = (
            answer.heartbeat_interval_ms or self._pace.heartbeat_interval_ms
        )
        self._pace.beat_sent(now_ms)  # the interval is the one that this answer names
        self._pace.beat_answered(now_ms)
        target = target_of(answer)
        if asks_for_partitions(epoch, said, before) or (
            target is not None and self._pace.expecting(now_ms)
        ):
            self._pace.expect_more(now_ms)
        if self._pace.expecting(now_ms):
            self._pace.beat_often(now_ms, self._cluster.options.retry_backoff_ms)
        membership.answered(epoch, said, answer.member_epoch, target)
        if acknowledging and membership.state is MemberState.STABLE:
            self._finished()
        await self._resolve()

    def _refusal(self, code: int, said: str | None, version: int) -> KafkaError:
        if code == TOPIC_AUTHORIZATION_FAILED and not said:  # brokers do not say which topic
            said = f"it subscribes to {', '.join(sorted(self.membership.topics or ()))}"
        return broker_error(
            code,
            said,
            api="CONSUMER_GROUP_HEARTBEAT",
            version=version,
            resource=f"group {self._who.group_id}",
        )

    def _finished(self) -> None:
        took_ms = self._pace.rebalance_ended(self._cluster.now_ms())
        log.info(
            "group %s: rebalance done in %d ms at epoch %d, %d partitions for %s; its reason: %s",
            self._who.group_id,
            took_ms,
            self.membership.epoch,
            len(self.membership.owned),
            self._who.member_id,
            self._pace.last_rebalance.reason if self._pace.last_rebalance is not None else "",
        )

    async def _failed(self, error: KafkaError, epoch: int) -> None:
        reaction = self.membership.failed(error, epoch)
        log.debug("group %s: heartbeat (%s): %s", self._who.group_id, reaction.value, error)
        self._on_news()
        if reaction in (Reaction.FIND, Reaction.WAIT, Reaction.RAISE):
            delay_ms = self._cluster.backoff.delay_ms(self._failures, self._cluster.rng)
            self._failures += 1
            self._pace.beat_again(self._cluster.now_ms() + delay_ms)
            if self.membership.hurried:
                await self._cluster.clock.sleep_ms(delay_ms)

    async def _resolve(self) -> None:
        """Turn the target into names; one that is new begins a rebalance."""
        await self._names.resolve()
        if self.membership.state is MemberState.RECONCILING:
            self._pace.rebalance_began(self._cluster.now_ms(), "the coordinator has another target")
            self._on_news()
        self._cluster.refresh_if_due()

    async def _give_up_polling(self, now_ms: int) -> None:
        away_ms = self._pace.away_ms(now_ms)
        was_in_group = self.membership.in_group
        self._pace.wait_for_poll()
        if not self.membership.poll_overdue():
            return
        warn_of_absence(self._who.group_id, away_ms, self._pace.max_poll_interval_ms)
        self._on_news()
        if was_in_group:
            with contextlib.suppress(KafkaError):
                await self._send_leave(self._cluster.deadline(LEAVE_TIMEOUT_MS))

    # -- what the application does -----------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Take the topics to read."""
        self._cluster.schedule.want(topics)
        self.membership.subscribe(topics)
        self.wake()

    def polled(self) -> None:
        """Take note that the application polls again, where it had stayed away too long."""
        if self.membership.polled():
            self.wake()

    def look_at_metadata(self) -> None:
        """Take the rest of a target, where metadata has its topics now."""
        self._names.look_again()
