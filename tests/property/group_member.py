"""One member of the group of `group_world`, what its application was
shown, and what it asked for.
"""

from __future__ import annotations

from asyncio import Task
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple, Protocol

from parley.client import AsyncClient, AsyncConsumer, ConsumerRebalanceListener, TopicPartition
from parley_laboratory.virtual import VirtualTime

GROUP = "g"
TOPICS = {"a": 4, "b": 2, "passing": 2}
"""Topics and their partitions at first; the last one is deleted and comes again."""
PASSING = "passing"
BROKERS = 2
SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 10_000, 3_000, 20_000
QUIET_MS = 3 * (SESSION_MS + MAX_POLL_MS)
CLIENT = {
    "request_timeout_ms": 4_000,
    "default_api_timeout_ms": 12_000,
    "metadata_max_age_ms": 5_000,
}


CHECKED = Counter[str]()
"""How often each invariant was looked at, where it had something to say, over all worlds."""


class Flavour(NamedTuple):
    """How the members of a world take part, and the releases of its brokers."""

    protocol: str
    strategies: tuple[str, ...]
    releases: tuple[str, str]
    keeps: bool
    """Whether members keep what they keep (I5)."""
    static: bool = True
    per_topic: bool = False
    """Whether shares are equal for each topic by itself."""


FLAVOURS = (
    Flavour("classic", ("cooperative-sticky",), ("4.3", "4.3"), keeps=True),
    Flavour("consumer", ("",), ("4.3", "4.3"), keeps=True),
    Flavour(
        "classic",
        ("range", "range,cooperative-sticky"),
        ("4.3", "2.4"),
        keeps=False,
        per_topic=True,
    ),
    Flavour("classic", ("cooperative-sticky",), ("2.3", "3.1"), keeps=True),
    Flavour("consumer", ("",), ("4.0", "4.1"), keeps=True),
    Flavour("classic", ("sticky",), ("0.11", "2.1"), keeps=False, static=False),
    Flavour("classic", ("roundrobin",), ("3.9", "4.0"), keeps=False),
)


class Surroundings(Protocol):
    """What a member needs of its world."""

    flavour: Flavour
    time: VirtualTime
    servers: str

    @property
    def members(self) -> list[Member]:
        """All members that may still hold something."""

    def is_out(self, member: Member) -> bool:
        """Whether the coordinator has gone on without a member."""

    def is_blind(self, tp: TopicPartition) -> bool:
        """Whether a partition's name may stand for two."""


class Member(ConsumerRebalanceListener):
    """One consumer, what its application was shown, and what it asked for."""

    def __init__(
        self, world: Surroundings, number: int, instance_id: str | None, topics: Collection[str]
    ) -> None:
        self.world, self.number, self.instance_id, self.topics = (
            world,
            number,
            instance_id,
            frozenset(topics),
        )
        self.held: dict[TopicPartition, object] = {}
        self.given_up: dict[TopicPartition, int] = {}
        self.alive, self.closing, self.replaced = True, False, False
        self.poll: Task[object] | None = None
        self.rest: list[Task[object]] = []

    def __repr__(self) -> str:
        return f"member {self.number}{'' if self.instance_id is None else ' ' + self.instance_id}"

    async def start(self) -> None:
        """Connect and subscribe."""
        world, flavour = self.world, self.world.flavour
        time = world.time
        self.client = AsyncClient(
            bootstrap_servers=world.servers, client_id=f"m{self.number}", backend=time.network,
            clock=time.clock,
            rng=time.rng, **CLIENT,
        )  # fmt: skip
        how: dict[str, object] = {"group_protocol": "consumer"}
        if flavour.protocol == "classic":
            strategy = flavour.strategies[self.number % len(flavour.strategies)]
            how = {
                "partition_assignment_strategy": strategy,
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": HEARTBEAT_MS,
            }
        self.consumer = AsyncConsumer(
            self.client, group_id=GROUP, group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            max_poll_interval_ms=MAX_POLL_MS, auto_commit_interval_ms=2_000, fetch_max_wait_ms=500,
            enable_auto_commit=self.number % 3 != 2, **how,
        )  # type: ignore[arg-type]  # fmt: skip
        await self.consumer.start()
        self.consumer.subscribe(self.topics, listener=self)

    # -- what the application is shown -------------------------------------------------------------

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Hold what was assigned."""
        generation = self.consumer.group_metadata().generation_id
        assert self.alive, f"{self}: assigned {assigned} after its end (I7)"
        CHECKED.update(("I1", "I5", "I7") if assigned else ("I7",))
        out = self.world.is_out(self)  # replaced, and shown what it was given before it was
        for tp in assigned:
            assert tp not in self.held, f"{self}: {tp} was assigned twice (I7)"
            again = self.world.flavour.keeps and self.given_up.get(tp) == generation
            assert not again, (
                f"{self}: {tp} was given up and comes back in generation {generation} (I5)"
            )
            for other in self.world.members:
                clash = (
                    other is not self
                    and other.alive
                    and tp in other.held
                    and not self.world.is_out(other)
                )
                clash = clash and not out and not self.world.is_blind(tp)
                assert not clash, f"{tp} was assigned to {self} and is still held by {other} (I1)"
            self.held[tp] = self.consumer._core.part(tp)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Give up what is revoked."""
        generation = self.consumer.group_metadata().generation_id
        self._drop(revoked, "revoked")
        self.given_up |= dict.fromkeys(revoked, generation)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        """Drop what is lost."""
        self._drop(lost, "lost")

    def _drop(self, partitions: list[TopicPartition], what: str) -> None:
        assert self.alive, f"{self}: {what} {partitions} after its end (I7)"
        CHECKED["I7"] += 1
        assert partitions, f"{self}: nothing was {what}, and it was called (I7)"
        for tp in partitions:
            assert tp in self.held, f"{self}: {tp} was {what} and is not held (I7)"
            del self.held[tp]

    def check(self) -> None:
        """What holds between polls."""
        if not self.alive or self.poll is not None or self.closing:
            return
        assert self.consumer.assignment() == set(self.held), (
            f"{self}: the assignment is not what was shown"
        )
        CHECKED["I5"] += bool(self.held)
        for tp, part in self.held.items():
            assert self.consumer._core.part(tp) is part, (
                f"{self}: {tp} was begun again while it was kept (I5)"
            )
