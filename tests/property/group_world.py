"""Consumers of one group in virtual time, what may be done to them, and what must hold whatever was
done.

The coordinator's own state is looked at directly, never through the consumers under test.

I1  A partition is one member's at a time: between `assigned` at one and the end of `revoked` or
    `lost` at another there is an order. A member that the coordinator does not have any more is
    excepted, for reads: the one that holds it as well as the one that is given it late.
I2  No commit is taken from a member whose partition is another's, and committed offsets never fall.
I3  When all is quiet, every partition of a subscribed topic is somebody's, within a bounded time.
I4  When all is quiet, the group does not rebalance; getting there takes a bounded number of
    generations.
I5  Cooperative members and those of the consumer protocol never give up what they get back at once,
    and what they keep keeps its position and what was fetched.
I6  With equal subscriptions the shares differ by one partition at most.
I7  `assigned` and `revoked` or `lost` alternate for each partition; none comes after the end.
I8  No offset is committed whose records nobody was given; in the end everything was given to
    somebody.
I9  What the journal says is the group: members, generation and assignments come back from it.
I10 Nobody asks in a busy loop, and nobody stays without partitions while there are enough.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Awaitable, Callable, Collection
from contextlib import ExitStack
from operator import attrgetter
from unittest.mock import patch

import pyarrow as pa

from parley.client import AsyncClient, TopicPartition
from parley.client.consumer import participation
from parley.client.group.classic.member import ClassicMember
from parley.devcluster import AsyncLocalCluster, ClusterSettings
from parley.devcluster.handlers import h08_offset_commit
from parley.devcluster.state.log.replica import ReplicaKey
from parley.errors import (
    BrokerError,
    CommitFailedError,
    ConfigError,
    FencedInstanceIdError,
    NetworkError,
    RequestTimedOut,
    UnreleasedInstanceIdError,
)
from parley.types import format_uuid
from parley_laboratory.virtual import VirtualTime

from .group_coordination import Coordination
from .group_member import (
    CHECKED,
    CLIENT,
    FLAVOURS,
    GROUP,
    HEARTBEAT_MS,
    MAX_POLL_MS,
    PASSING,
    SESSION_MS,
    TOPICS,
    Flavour,
    Member,
)

BROKERS = 2
STATIC_TOPICS = ("a", "b")
QUIET_MS = 3 * (SESSION_MS + MAX_POLL_MS)
GROUP_APIS = (
    "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat"
)  # fmt: skip
REPLACED = (FencedInstanceIdError, UnreleasedInstanceIdError)
"""What a poll of a member may raise whose instance id another one has."""
COMMIT_ERRORS = (CommitFailedError, RequestTimedOut, NetworkError, BrokerError)
"""What a commit may raise; which is right when, the tests of each rule say."""


class World(Coordination):
    """A cluster, the members of one group, and the account of what they were given."""

    def __init__(self, flavour: Flavour, seed: int = 0) -> None:
        self.time = VirtualTime(seed)
        self.members: list[Member] = []
        self.writes: list[Task[object]] = []
        self.started = 0
        self._killed: set[str | None] = set()
        """Instance ids that are still a dead member's until its session ends:
        others are refused meanwhile.
        """
        self._static = False
        self._allowed = 0.0
        settings = ClusterSettings(
            start_time_ms=1_700_000_000_000, group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS, auto_create_topics=False,
        )  # fmt: skip
        cluster = AsyncLocalCluster(
            BROKERS, releases=dict(enumerate(flavour.releases, 1)), settings=settings,
            clock=self.time.clock, seed=seed, backend=self.time.network,
        )  # fmt: skip
        self.time.run(cluster.start())
        super().__init__(cluster, flavour)
        self.patches = ExitStack()
        self.patches.enter_context(
            patch.object(participation, "new_member_id", self._new_member_id)
        )
        self.patches.enter_context(
            patch.object(h08_offset_commit, "check_commit", self.checked_commit)
        )
        for topic, count in TOPICS.items():
            self.cluster.create_topic(topic, count, BROKERS)
        self.servers = ",".join(str(broker.address) for broker in self.cluster.brokers)
        self.writer = AsyncClient(
            bootstrap_servers=self.servers, backend=self.time.network, clock=self.time.clock,
            rng=self.time.rng,
            **CLIENT,
        )  # fmt: skip
        self.time.run(self.writer.start())

    def _new_member_id(self) -> str:
        return format_uuid(self.time.random.randbytes(16))

    # -- what members do ---------------------------------------------------------------------------

    @property
    def live(self) -> list[Member]:
        """The members that run."""
        return [one for one in self.members if one.alive and not one.closing]

    def join(self, instance_id: str | None, topics: Collection[str]) -> None:
        """Start a member; one with the instance id of another takes its place, or is refused.

        Static members always subscribe to the same: one that comes back with other topics gets what
        it had (G16).
        """
        instance_id = instance_id if self.flavour.static else None
        topics = topics if instance_id is None else STATIC_TOPICS
        self._static = self._static or instance_id is not None
        for other in self.live:
            if instance_id is not None and other.instance_id == instance_id:
                other.replaced = True
        member = Member(self, self.started, instance_id, topics)
        shared = (
            instance_id in {one.instance_id for one in self.members if one.alive} | self._killed
        )
        member.replaced = instance_id is not None and shared
        self.started += 1
        self.members = [
            *self.live,
            *(one for one in self.members if one.closing and one.alive),
            member,
        ]
        self.time.run(member.start())

    def poll(self, member: Member) -> None:
        """Let an application poll, unless it waits in a poll still."""
        if member.poll is None and not member.closing:
            member.poll = self.time.start(member.consumer.getmany(timeout_ms=0))  # type: ignore[assignment]
        self.settle()

    def subscribe(self, member: Member, topics: Collection[str]) -> None:
        """Let an application subscribe to other topics, between two polls."""
        if member.poll is None and not member.closing and member.instance_id is None:
            member.topics = frozenset(topics)
            member.consumer.subscribe(member.topics, listener=member)

    def commit(self, member: Member) -> None:
        """Let an application commit what it has processed, between two polls."""
        if (
            member.poll is None
            and not member.closing
            and not any(not one.done() for one in member.rest)
        ):
            member.rest.append(self.time.start(member.consumer.commit()))
        self.settle()

    def close(self, member: Member) -> None:
        """Let an application end in order, after the poll in which it is."""
        member.closing = True
        self.settle()

    def kill(self, member: Member) -> None:
        """End an application without a word."""
        member.alive = False
        self._killed.add(member.instance_id)
        for task in (member.poll, *member.rest):
            if task is not None:
                task.cancel()
        self.time.start(self._die(member))

    @staticmethod
    async def _die(member: Member) -> None:
        part = member.consumer._core.group._member
        if part is not None:
            inner = part._member
            tasks = inner._tasks if isinstance(inner, ClassicMember) else [inner._task]  # type: ignore[attr-defined]
            for task in tasks:
                task.cancel()
        await member.consumer._core._stop(None)
        await member.client.close()

    def settle(self) -> None:
        """Take note of what has ended."""
        for member in self.members:
            if member.alive:
                self._settle(member)
        for task in [task for task in self.writes if task.done()]:
            self.writes.remove(task)
            task.result()

    def _settle(self, member: Member) -> None:
        if member.poll is not None and member.poll.done():
            task, member.poll = member.poll, None
            self._polled(member, task)
        for task in [one for one in member.rest if one.done()]:
            member.rest.remove(task)
            error = task.exception()
            if isinstance(error, COMMIT_ERRORS):
                continue
            if error is not None:
                raise error
        if (
            member.closing
            and member.poll is None
            and not member.rest
            and not hasattr(member, "ending")
        ):
            member.ending = self.time.start(self._end(member))  # type: ignore[attr-defined]
        ending = getattr(member, "ending", None)
        if ending is not None and ending.done():
            ending.result()
            assert not member.held, f"{member}: it ended with {sorted(member.held)} (I7)"
            member.alive = False
            if self.is_held(member.instance_id):  # its farewell was lost
                self._killed.add(member.instance_id)

    @staticmethod
    async def _end(member: Member) -> None:
        await member.consumer.stop()
        await member.client.close()

    def _polled(self, member: Member, task: Task[object]) -> None:
        error = task.exception()
        if isinstance(error, REPLACED) and member.replaced:
            member.closing = True
            return
        if error is not None:
            raise error
        for tp, records in task.result().items():  # type: ignore[attr-defined]
            if tp.topic != PASSING:
                assert tp in member.held, (
                    f"{member}: it was given records of {tp}, which it does not hold"
                )
                self.given[tp].update(record.offset for record in records)

    # -- what is done to the cluster ---------------------------------------------------------------

    def produce(self, topic: str, count: int) -> None:
        """Write some records."""
        rows = pa.table({"value": ["x"] * count})
        parts = len(self.cluster.state.image.topics[topic].partitions)
        self.writes.append(self.time.start(self.writer.produce(topic, rows, count % parts)))
        self.settle()

    def do(self, name: str, *arguments: object, **named: object) -> bool:
        """Call a control of the cluster; return False where it cannot be in this state."""
        try:
            result = attrgetter(name)(self.cluster)(*arguments, **named)
            if isinstance(result, Awaitable):
                self.time.run(result)  # type: ignore[arg-type]
        except ConfigError:
            return False
        return True

    @property
    def coordinator(self) -> int:
        """The broker that coordinates the group now."""
        state = self.cluster.state
        return state.group_coordinator.coordinator_of(GROUP, state.image)

    def crash_coordinator(self) -> None:
        """Kill the group's coordinator; another broker goes on with what the log says."""
        self.check_replay()
        self._forget_ids()
        if sum(broker.running for broker in self.cluster.brokers) > 1:
            self.do("kill_broker", self.coordinator)

    def move_coordinator(self, to: int) -> None:
        """Let a broker coordinate the group."""
        self._forget_ids()
        self.do("move_group_coordinator", GROUP, to)

    def _forget_ids(self) -> None:
        """Let static members be fenced: an id that was given in a rebalance under
        way is not written.
        """
        group = self.cluster.state.classic_groups.get(GROUP)
        if group is None or group.state.value != "Stable":
            for member in self.live:
                member.replaced = member.replaced or member.instance_id is not None

    def add_partition(self) -> None:
        """Give a topic one partition more."""
        self.do("add_partitions", "a", len(self.cluster.state.image.topics["a"].partitions) + 1)

    @property
    def may_grow(self) -> bool:
        """Whether there may be more partitions."""
        return self.may_change and len(self.cluster.state.image.topics["a"].partitions) < 8

    @property
    def may_change(self) -> bool:
        """Whether topics may change: a static leader that comes back does not know
        what it has missed (G18).
        """
        return self.flavour.protocol == "consumer" or not self._static

    def start_brokers(self) -> None:
        """Start what does not run."""
        for broker in self.cluster.brokers:
            if not broker.running:
                self.do("start_broker", broker.id)

    def topic_passes(self) -> None:
        """Delete a topic, or create it again."""
        if not self.do("delete_topic", PASSING):
            self.do("create_topic", PASSING, TOPICS[PASSING], 1)

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        self.time.advance(duration_ms)
        self._allowed += duration_ms
        self.settle()

    # -- what must hold ----------------------------------------------------------------------------

    def check_always(self) -> None:
        """What holds at every moment."""
        assert not self.wrong, self.wrong[0]
        for member in self.members:
            member.check()
        asked = sum(len(self.cluster.requests(api)) for api in GROUP_APIS)
        self.cluster.clear_requests()
        CHECKED["I10"] += asked > 0
        # each member may ask some times at once, and then once in 20 ms
        self._allowed = min(self._allowed - asked * 20.0, 2_000.0)
        assert self._allowed > -1_500.0 * max(3, len(self.members)), (
            f"{asked} requests in so little time (I10)"
        )
        self._allowed = max(self._allowed, -1_000.0)

    def check_quiet(self) -> None:
        """Heal the cluster, let everybody poll, and see that the group comes to rest."""
        self.cluster.faults.clear()
        self.start_brokers()
        if PASSING not in self.cluster.state.image.topics:
            self.topic_passes()
        before, members = self.generation, len(self.members)
        self._poll_until(self._is_quiet, QUIET_MS, self._unrest)
        if not self.live:
            return
        # who is there joins or leaves once, and gives up what moves once more
        most = 4 * members + 8
        assert self.generation - before <= most, (
            f"{self.generation - before} generations to come to rest (I4)"
        )
        # who was killed goes with its session; changed topics are found as often as metadata is
        # refreshed
        self._poll_until(
            lambda: False, SESSION_MS + HEARTBEAT_MS + CLIENT["metadata_max_age_ms"], None, 1_500
        )
        self._poll_until(self._is_quiet, QUIET_MS, self._unrest)
        generation = self.generation
        self.cluster.clear_requests()
        self._poll_until(lambda: False, 3 * HEARTBEAT_MS, None, 1_500)
        assert self.generation == generation, "the group rebalances without a reason (I4)"
        assert not self.cluster.requests("JoinGroup"), "a member joins again without a reason (I4)"
        beats = len(self.cluster.requests("Heartbeat")) + len(
            self.cluster.requests("ConsumerGroupHeartbeat")
        )
        assert beats <= 4 * len(self.live), f"{beats} heartbeats in three intervals (I10)"
        CHECKED.update(("I3", "I4", "I8", "I10"))
        CHECKED["I6"] += len({one.topics for one in self.live}) == 1
        self.check_replay()

    def _poll_until(
        self,
        condition: Callable[[], bool],
        limit_ms: int,
        why: Callable[[], str] | None,
        pause_ms: int = 500,
    ) -> None:
        until_ms = self.time.clock.now_ms() + limit_ms
        while not condition():
            if self.time.clock.now_ms() >= until_ms:
                assert why is None, (
                    f"the group does not come to rest in {limit_ms} ms (I3, I10): {why and why()}"
                )
                return
            for member in self.live:
                self.poll(member)
            self.advance(pause_ms)

    def _wanted(self) -> set[TopicPartition]:
        topics, image = (
            {topic for one in self.live for topic in one.topics},
            self.cluster.state.image,
        )
        return {
            TopicPartition(name, at)
            for name in topics
            for at in range(len(image.topics[name].partitions))
        }

    def _is_quiet(self) -> bool:
        if self.writes or any(one.closing and one.alive for one in self.members):
            return False
        held = sorted(tp for one in self.live for tp in one.held)
        if not self.live:
            return True
        stable = all(
            health is not None and health.state == "stable"
            for health in (o.consumer.health() for o in self.live)
        )
        return (
            stable
            and held == sorted(self._wanted())
            and self._is_even()
            and not self._undelivered()
        )

    def _undelivered(self) -> list[TopicPartition]:
        return [
            tp
            for tp in self._wanted()
            if tp.topic != PASSING and self.given[tp] != set(range(self._end_of(tp)))
        ]

    def _end_of(self, tp: TopicPartition) -> int:
        state = self.cluster.state
        leader = state.replication.leader_of(
            ReplicaKey(state.image.topics[tp.topic].topic_id, tp.partition)
        )
        return -1 if leader is None else leader.log.end_offset

    def _unrest(self) -> str:
        states = [
            f"{one!r} {one.consumer.health()} {sorted(one.held)}"
            for one in self.members
            if one.alive
        ]
        return "; ".join(
            [*states, f"undelivered {self._undelivered()}", f"wanted {sorted(self._wanted())}"]
        )

    def _is_even(self) -> bool:
        """Whether shares differ by one at most, where all subscribe to the same (I6)."""
        if len({one.topics for one in self.live}) > 1:
            return True
        for topic in sorted(self.live[0].topics) if self.flavour.per_topic else [None]:
            counts = [sum(topic in (None, tp.topic) for tp in one.held) for one in self.live]
            if max(counts) - min(counts) > 1:
                return False
        return True

    def end(self) -> None:
        """End everything."""
        try:
            for member in self.members:
                if member.alive:
                    self.kill(member)
            self.time.run(self.writer.close())
            self.time.run(self.cluster.close())
        finally:
            self.time.close()
            self.patches.close()


__all__ = ["BROKERS", "FLAVOURS", "GROUP", "World"]
