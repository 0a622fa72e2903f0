"""Members of one group in a process of their own: `python -m benchmarks.rebalance_members WHAT
...`.

`join CLIENT BOOTSTRAP GROUP PROTOCOL PHASE_MS` lets MEMBERS share TOPIC, then one more joins; it
prints what that took. `idle CLIENT BOOTSTRAP GROUP COUNT` lets members do nothing and prints what
they cost.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from benchmarks.jobs.processes import RESIDENT, own_megabytes

TOPIC, PARTITIONS, MEMBERS = "rebalance", 1_000, 10
HEARTBEAT_MS, POLL_MS = 500, 100
IDLE_HEARTBEAT_MS, IDLE_POLL_MS = 3_000, 1_000
"""As clients have it by default, and a poll of a quiet application."""
IDLE_TOPIC, IDLE_PARTITIONS, IDLE_SECONDS = "idle", 100, 15
LIMIT_SECONDS = 180
Options = dict[str, Any]

PROTOCOLS: dict[str, dict[str, Options]] = {
    "eager": {
        "parley": {"partition_assignment_strategy": "range"},
        "confluent-kafka": {"partition.assignment.strategy": "range"},
        "aiokafka": {},
    },
    "cooperative": {
        "parley": {"partition_assignment_strategy": "cooperative-sticky"},
        "confluent-kafka": {"partition.assignment.strategy": "cooperative-sticky"},
    },
    "consumer": {
        "parley": {"group_protocol": "consumer"},
        "confluent-kafka": {"group.protocol": "consumer"},
    },
}
"""Protocol → client that has it → its options."""


class Part(Protocol):
    """A partition as any of the clients has it."""

    @property
    def partition(self) -> int: ...


class Ownership:
    """Who has which partition, as the listeners of the members say."""

    def __init__(self) -> None:
        self.owners: dict[int, int] = {}
        self._changes: list[tuple[float, int, int | None]] = []
        """Moment, partition, owner from then on."""
        self._lock = threading.Lock()

    def assigned(self, member: int, parts: Iterable[Part]) -> None:
        self._change(member, parts, member)

    def revoked(self, member: int, parts: Iterable[Part]) -> None:
        self._change(member, parts, None)

    def _change(self, member: int, parts: Iterable[Part], owner: int | None) -> None:
        now = time.monotonic()
        with self._lock:
            for index in (part.partition for part in parts):
                if owner is not None:
                    self.owners[index] = owner
                elif self.owners.get(index) == member:
                    del self.owners[index]
                else:
                    continue  # it is another's already
                self._changes.append((now, index, owner))

    def settled(self, members: int, partitions: int) -> bool:
        """Whether all partitions have owners, and no member has two more than another."""
        with self._lock:
            counts = Counter(self.owners.values()).values()
            even = len(counts) == members and max(counts) - min(counts) < 2
            return even and sum(counts) == partitions

    def since(self, moment: float, before: dict[int, int]) -> dict[str, float]:
        """Return what happened since then, when partitions had these owners."""
        with self._lock:
            changes = [change for change in self._changes if change[0] >= moment]
            after = dict(self.owners)
        without: dict[int, float] = {}
        seconds = 0.0
        for at, index, owner in changes:
            if owner is None:
                without.setdefault(index, at)
            elif index in without:
                seconds += at - without.pop(index)
        given_up = {index for _, index, owner in changes if owner is None}
        return {
            "seconds": max(at for at, _, owner in changes if owner is not None) - moment,
            "partition_seconds": seconds,
            "moved": sum(before[index] != owner for index, owner in after.items()),
            "kept_given_up": sum(before[index] == after[index] for index in given_up),
        }


class Watching:
    """What a listener says of a member's partitions, beside the base class that its client wants.

    parley and aiokafka call the same names, and both await them.
    """

    def __init__(self, number: int, ownership: Ownership) -> None:
        self._number = number
        self._ownership = ownership

    async def on_partitions_assigned(self, assigned: Iterable[Part]) -> None:
        self._ownership.assigned(self._number, assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Part]) -> None:
        self._ownership.revoked(self._number, revoked)


class Group:
    """Members of one client, each of which polls until the process ends."""

    def __init__(
        self,
        client: str,
        bootstrap: str,
        group: str,
        topic: str,
        more: Options,
        poll_ms: int = POLL_MS,
    ) -> None:
        self.ownership = Ownership()
        self._start = {
            "parley": parley_member,
            "confluent-kafka": confluent_member,
            "aiokafka": aiokafka_member,
        }[client]
        self._given = (bootstrap, group, topic, more, poll_ms)
        self._tasks: list[asyncio.Task[None]] = []
        self.size = 0

    def join(self) -> None:
        """Let one more member join."""
        work = self._start(self.size, self.ownership, *self._given)
        self._tasks.append(asyncio.create_task(work))
        self.size += 1

    async def settle(self, partitions: int) -> None:
        """Return when all members share all partitions evenly."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not self.ownership.settled(self.size, partitions):
            for task in self._tasks:
                if task.done():
                    task.result()
            if time.monotonic() > deadline:
                raise SystemExit(f"benchmarks: no even share within {LIMIT_SECONDS} s")
            await asyncio.sleep(0.005)


async def parley_member(
    number: int,
    ownership: Ownership,
    bootstrap: str,
    group: str,
    topic: str,
    more: Options,
    poll_ms: int,
) -> None:
    from parley.client import AsyncConsumer, ConsumerRebalanceListener

    class Listener(Watching, ConsumerRebalanceListener):
        pass

    beats: Options = {"heartbeat_interval_ms": HEARTBEAT_MS}
    async with AsyncConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        **(more if more.get("group_protocol") == "consumer" else {**beats, **more}),
    ) as consumer:
        consumer.subscribe([topic], listener=Listener(number, ownership))
        while True:
            await consumer.getmany(timeout_ms=poll_ms)


async def aiokafka_member(
    number: int,
    ownership: Ownership,
    bootstrap: str,
    group: str,
    topic: str,
    more: Options,
    poll_ms: int,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import aiokafka
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(Watching, aiokafka.ConsumerRebalanceListener):
        pass

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        **{
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "partition_assignment_strategy": [RangePartitionAssignor],
            **more,
        },
    )
    consumer.subscribe([topic], listener=Listener(number, ownership))
    await consumer.start()
    while True:
        await consumer.getmany(timeout_ms=poll_ms)


async def confluent_member(
    number: int,
    ownership: Ownership,
    bootstrap: str,
    group: str,
    topic: str,
    more: Options,
    poll_ms: int,
) -> None:
    import confluent_kafka

    parts = list[confluent_kafka.TopicPartition]

    def assigned(_: confluent_kafka.Consumer, given: parts) -> None:
        ownership.assigned(number, given)

    def revoked(_: confluent_kafka.Consumer, taken: parts) -> None:
        ownership.revoked(number, taken)

    def poll() -> None:
        consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
        while True:
            consumer.poll(poll_ms / 1000)

    beats = (
        {} if more.get("group.protocol") == "consumer" else {"heartbeat.interval.ms": HEARTBEAT_MS}
    )
    servers = {"bootstrap.servers": bootstrap, "group.id": group}
    consumer = confluent_kafka.Consumer({**servers, **beats, **more})
    threading.Thread(target=poll, daemon=True).start()
    await asyncio.Event().wait()


async def join(
    client: str, bootstrap: str, name: str, protocol: str, phase_ms: str
) -> dict[str, float]:
    """Let one more member join a group that has settled, so long after a heartbeat or so: the
    others learn of it when they send their next ones.
    """
    group = Group(client, bootstrap, name, TOPIC, PROTOCOLS[protocol][client])
    for _ in range(MEMBERS):
        group.join()
    await group.settle(PARTITIONS)
    # the work behind the first rebalances is done then
    await asyncio.sleep(2 + int(phase_ms) / 1000)
    await group.settle(PARTITIONS)
    before, moment = dict(group.ownership.owners), time.monotonic()
    group.join()
    await group.settle(PARTITIONS)
    return group.ownership.since(moment, before)


async def idle(client: str, bootstrap: str, name: str, count: str) -> dict[str, float]:
    """Let so many members share IDLE_TOPIC, with their default options, and do nothing."""
    group = Group(client, bootstrap, name, IDLE_TOPIC, DEFAULTS[client], IDLE_POLL_MS)
    for _ in range(int(count)):
        group.join()
    await group.settle(IDLE_PARTITIONS)
    await asyncio.sleep(3)
    used, begun = time.process_time(), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    share = (time.process_time() - used) / (time.monotonic() - begun)
    return {"core_share": share / int(count), "megabytes": own_megabytes(RESIDENT)}


DEFAULTS: dict[str, Options] = {
    "parley": {"heartbeat_interval_ms": IDLE_HEARTBEAT_MS},
    "confluent-kafka": {"heartbeat.interval.ms": IDLE_HEARTBEAT_MS},
    "aiokafka": {"heartbeat_interval_ms": IDLE_HEARTBEAT_MS},
}


def main() -> None:
    what, *arguments = sys.argv[1:]
    asyncio.run(print_and_end({"join": join, "idle": idle}[what](*arguments)))


async def print_and_end(work: Coroutine[Any, Any, dict[str, float]]) -> None:
    """Print what was found, and leave the members behind: how they leave is not measured."""
    print(json.dumps(await work), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
