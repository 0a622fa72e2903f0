"""One member of the group that `groups` kills: a process of its own, that reads, or copies.

    python -m tests.chaos.group_member SEED SERVERS FOLDER NAME WORK OPTIONS

`read` commits after each poll what it has processed, and before it gives partitions up. `copy`
writes what it reads to another topic, in transactions that carry the offsets (KIP-447). SIGTERM
ends it in order. Whatever a poll raises ends it with status 1: nothing should.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from parley.client import (
    AsyncClient,
    AsyncConsumer,
    AsyncTransactionProducer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from parley.errors import (
    CommitFailedError,
    KafkaError,
    NetworkError,
    RebalanceInProgressError,
    RequestTimedOut,
    TransactionFatalError,
)

from .group_diary import Diary

TRANSACTION_TIMEOUT_MS = 10_000
AT_ONCE = 40
WORK_SECONDS = (0.02, 0.15)
"""How long the work on what one poll returned takes."""


class Names(NamedTuple):
    """The names of a run: several share the brokers."""

    group: str
    source: str
    sink: str

    @classmethod
    def of(cls, seed: int) -> Names:
        """Return those of a seed."""
        return cls(f"chaos-{seed}", f"numbers-{seed}", f"copies-{seed}")


class Member(ConsumerRebalanceListener):
    """The consumer, and what it has done and not committed yet."""

    def __init__(
        self, client: AsyncClient, names: Names, name: str, diary: Diary, options: Any
    ) -> None:
        self.client, self.names, self.name, self.diary = client, names, name, diary
        self.consumer = AsyncConsumer(client, group_id=names.group, **options)
        self.stopping = asyncio.Event()
        self._done: set[TopicPartition] = set()
        self._commits = 0

    async def run(self, work: str) -> None:
        """Read or copy until asked to end."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stopping.set)
        await self.consumer.start()
        self.consumer.subscribe([self.names.source], listener=self)
        self.diary.note("began")
        copier = Copier(self) if work == "copy" else None
        while not self.stopping.is_set():
            found = await self.consumer.getmany(timeout_ms=200, max_records=AT_ONCE)
            if not found:
                continue
            self._done |= found.keys()
            numbers = {
                tp.partition: [(one.offset, int(one.value or b"-1")) for one in records]
                for tp, records in found.items()
            }
            self.diary.note("read", records=numbers)
            await asyncio.sleep(random.uniform(*WORK_SECONDS))
            if copier is not None:
                await copier.copy([number for each in numbers.values() for _, number in each])
            else:
                await self.commit()
        if copier is not None:
            await copier.close()
        await self.consumer.close()
        self.diary.note("ended")

    # -- commits -----------------------------------------------------------------------------------

    async def named(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        """Return where this member is in these partitions, with who it is in the metadata."""
        self._commits += 1
        who = self.consumer.group_metadata()
        tag = f"{self.name}/{self._commits}/{who.member_id}"
        found = {}
        for tp in sorted(partitions):
            at = await self.consumer.position_with_epoch(tp)
            found[tp] = OffsetAndMetadata(at.offset, tag, at.leader_epoch)
        self.diary.note(
            "commits",
            number=self._commits,
            generation=who.generation_id,
            offsets={tp.partition: at.offset for tp, at in found.items()},
        )
        return found

    async def commit(self) -> None:
        """Commit what is done. What is not known to be committed is committed with the next."""
        if not self._done:
            return
        wanted = await self.named(self._done)
        number = self._commits
        try:
            await self.consumer.commit(wanted)
        except (CommitFailedError, RebalanceInProgressError) as error:
            self.diary.note("refused", number=number, why=type(error).__name__, text=str(error))
        except (RequestTimedOut, NetworkError) as error:
            self.diary.note("unknown", number=number, why=type(error).__name__, text=str(error))
        else:
            self.diary.note("committed", number=number)
            self._done.clear()

    def drop(self) -> None:
        """Forget what is done: it was committed, or will be done again."""
        self._done.clear()

    @property
    def done(self) -> frozenset[TopicPartition]:
        """The partitions with something that is not committed."""
        return frozenset(self._done)

    # -- the listener ------------------------------------------------------------------------------

    def _note(self, did: str, partitions: list[TopicPartition]) -> None:
        self.diary.note(did, partitions=[tp.partition for tp in partitions])
        if did != "assigned":
            self._done -= set(partitions)

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Take note."""
        self._note("assigned", assigned)

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Commit, and take note."""
        await self.commit()
        self._note("revoked", revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        """Take note: nothing may be committed."""
        self._note("lost", lost)


class Copier:
    """Copies numbers in transactions; after a failure reading begins again where the group is."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._made: AsyncTransactionProducer | None = None

    async def copy(self, numbers: list[int]) -> None:
        """Copy what was read, or go back to before it."""
        member, diary = self._member, self._member.diary
        try:
            producer = await self._ready()
            await producer.begin_transaction()
            rows = pa.table({"value": [f"{one:08}" for one in numbers]})
            await producer.produce(member.names.sink, rows)
            wanted = await member.named(member.done)
            await producer.send_offsets_to_transaction(wanted, member.consumer.group_metadata())
            diary.note("sent")
            await self._commit(producer)
        except KafkaError as error:
            diary.note("refused", why=type(error).__name__, text=str(error))
            await self._back(error)
        else:
            diary.note("committed")
        member.drop()

    async def _ready(self) -> AsyncTransactionProducer:
        if self._made is None:
            made = self._member.client.transactions.producer(
                f"{self._member.names.group}-{self._member.name.split('-')[0]}",
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
            self._made = await made.start()
        return self._made

    @staticmethod
    async def _commit(producer: AsyncTransactionProducer) -> None:
        """Commit; where that is not known, ask until it is."""
        while True:
            try:
                return await producer.commit_transaction()
            except (RequestTimedOut, NetworkError):
                continue

    async def _back(self, error: KafkaError) -> None:
        """Abort, and read again from what the group has committed."""
        producer = self._made
        try:
            if producer is not None and not isinstance(error, TransactionFatalError):
                await producer.abort_transaction()
        except KafkaError:
            error = TransactionFatalError("the abort failed")
        if isinstance(error, TransactionFatalError):
            await self.close()
        consumer = self._member.consumer
        for tp in self._member.done & consumer.assignment():
            at = await consumer.committed(tp)
            if at is None:
                await consumer.seek_to_beginning(tp)
            else:
                consumer.seek(tp, at)

    async def close(self) -> None:
        """End the producer."""
        made, self._made = self._made, None
        if made is not None:
            await made.close()


async def _main(seed: int, servers: str, folder: Path, name: str, *how: str) -> int:
    diary = Diary(folder / f"{name}.diary")
    work, options = how
    try:
        async with AsyncClient(bootstrap_servers=servers, client_id=name) as client:
            await Member(client, Names.of(seed), name, diary, json.loads(options)).run(work)
    except BaseException as error:
        diary.note("failed", why=type(error).__name__, text=str(error))
        raise
    return 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(asyncio.run(_main(int(given[0]), given[1], Path(given[2]), *given[3:])))
