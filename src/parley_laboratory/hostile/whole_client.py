"""Hostile bytes at a whole client: brokers whose answers are bent while it writes
and reads, in virtual time.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa

from parley.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    ClientOptions,
    NewTopic,
    OffsetAndMetadata,
    ProduceOptions,
    TopicPartition,
)
from parley.devcluster import AsyncLocalCluster
from parley.devcluster.faults.faults import EVERY_TIME
from parley.errors import KafkaError
from parley_laboratory.hostile.account import HostileAccount
from parley_laboratory.virtual import VirtualTime

RELEASES = ("0.10.0.1", "0.11.0.3", "2.4.1", "3.9.1", "4.3.0")
TOPIC = TopicPartition("events", 0)
ROUND_CALLS = 8
SHORT = ClientOptions(default_api_timeout_ms=2_000, request_timeout_ms=1_000, retry_backoff_ms=20)
LIMIT_MS = 120_000
"""A call that takes longer, by the clock of the scene, hangs."""


def attack_whole_clients(rounds: int, seed: int) -> HostileAccount:
    """Let clients write and read while one byte in half of all answers is wrong, and return what
    became of each call.

    Each round is a fresh cluster and client. A call returns, or raises one of parley's errors in
    time. Afterwards the answers are true again, and every record that was acknowledged has to be
    there, unaltered.
    """
    account = HostileAccount(seed)
    for number in range(rounds):
        scene = _Scene(RELEASES[number % len(RELEASES)], seed + number)
        try:
            scene.play(account, number)
        finally:
            scene.close()
    return account.close()


class _Scene:
    def __init__(self, release: str, seed: int) -> None:
        self._rng = Random(seed)
        self._time = VirtualTime(seed)
        self._cluster = AsyncLocalCluster(
            2, release, clock=self._time.clock, seed=seed, backend=self._time.network
        )  # fmt: skip
        self._time.run(self._cluster.start())
        self._cluster.create_topic(TOPIC.topic, 1, 2)
        self._written: list[str] = []
        self._client = self._new_client()

    def _new_client(self) -> AsyncClient:
        return AsyncClient(
            SHORT.replace(bootstrap_servers=self._cluster.bootstrap_servers),
            backend=self._time.network,
            clock=self._time.clock,
        )

    def play(self, account: HostileAccount, number: int) -> None:
        """Bend answers while the client is called; then compare what was
        acknowledged with what is there.
        """
        calls = (
            self._write,
            self._write,
            self._read,
            self._ask,
            self._list,
            self._commit,
            self._create,
        )
        self._cluster.faults.corrupt(times=EVERY_TIME, probability=0.5)
        for turn in range(ROUND_CALLS):
            call = self._rng.choice(calls)
            try:
                self._time.run(call(turn), limit_ms=LIMIT_MS)
                outcome = "returned"
            except KafkaError as error:
                outcome = f"refused: {type(error).__name__}"
            except TimeoutError:
                outcome = "hangs"
                account.breach(number, f"{call.__name__.strip('_')} takes more than {LIMIT_MS} ms")
            except Exception as error:
                outcome = "breach"
                account.breach(
                    number, f"{call.__name__.strip('_')} raised {type(error).__name__}: {error}"
                )
            account.outcomes[outcome] += 1
        self._cluster.faults.clear()
        self._time.run(self._client.close())
        self._client = self._new_client()
        there = self._time.run(self._values())
        missing = [value for value in self._written if value not in set(there)]
        strange = [value for value in there if not value.startswith("value ")]
        if missing or strange:
            account.breach(
                number, f"acknowledged and not there: {missing}; never written: {strange}"
            )

    async def _write(self, turn: int) -> None:
        value = f"value {turn}"
        options = ProduceOptions(delivery_timeout_ms=2_000)
        await self._client.produce(TOPIC.topic, pa.table({"value": [value]}), 0, options)
        self._written.append(value)

    async def _read(self, turn: int) -> None:
        await self._values()

    async def _values(self) -> list[str]:
        values: list[str] = []
        async for batch in self._client.fetch(TOPIC, EARLIEST, LATEST):
            values += [
                value.decode(errors="replace") for value in batch.column("value").to_pylist()
            ]
        return values

    async def _ask(self, turn: int) -> None:
        await self._client.metadata([TOPIC.topic])

    async def _list(self, turn: int) -> None:
        await self._client.list_offsets({TOPIC: EARLIEST})

    async def _commit(self, turn: int) -> None:
        await self._client.commit_offsets("group", {TOPIC: OffsetAndMetadata(turn, "note")})
        await self._client.committed_offsets("group", [TOPIC])

    async def _create(self, turn: int) -> None:
        await self._client.create_topics([NewTopic(f"made-{turn}", 1, 1)])
        await self._client.delete_topics([f"made-{turn}"])

    def close(self) -> None:
        """End everything."""
        self._time.run(self._client.close())
        self._time.run(self._cluster.close())
        self._time.close()
