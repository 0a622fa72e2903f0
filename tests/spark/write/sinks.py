"""A query's sink without Spark: the driver and the tasks as Spark would
call them, on any cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parley.client import EARLIEST, LATEST, Client, FetchOptions, ProduceOptions, TopicPartition
from parley.spark.write.attempt import attempt
from parley.spark.write.decisions import to_decide
from parley.spark.write.driver import Driver
from parley.spark.write.intent import BatchOfQuery, Intent
from parley.spark.write.kafka import Coordinators, TopicJournal, TransactionWriting
from parley.spark.write.messages import Plan
from parley.spark.write.turns import query_id_name

from ...support import GENEROUS_S

QUERY = "the-query"
READ_COMMITTED = "read_committed"
PATIENCE_SECONDS = GENEROUS_S


@dataclass
class Sink:
    """One query writing to one topic."""

    client: Client
    topic: str
    prefix: str
    timeout_ms: int = 600_000

    def driver(self, **more: Any) -> Driver:
        """Return a new driver, as after a restart."""
        coordination = Coordinators(
            self.client, self.timeout_ms, frozenset([query_id_name(self.prefix)])
        )
        journal = TopicJournal(
            self.client, f"{self.prefix}-journal", self.timeout_ms, ProduceOptions()
        )
        return Driver(self.prefix, coordination, journal, **more)

    def write(self, plan: Plan, batch: int, tasks: Sequence[Sequence[str]]) -> list[Any]:
        """Write the tasks of a batch and return their messages."""
        return [self.task(plan, batch, slot, rows) for slot, rows in enumerate(tasks)]

    def task(self, plan: Plan, batch: int, slot: int, rows: Sequence[str]) -> Any:
        """Write one task's rows, spread over the partitions by their key."""
        writing = TransactionWriting(
            self.client, self.timeout_ms, self.topic, ProduceOptions(batch_size=1024)
        )
        coordination = Coordinators(self.client, self.timeout_ms)
        return attempt(plan, BatchOfQuery(QUERY, batch), slot, batches(rows), coordination, writing)

    def run(self, driver: Driver, batch: int, tasks: Sequence[Sequence[str]]) -> None:
        """Run a whole batch."""
        driver.commit(self.write(driver.plan(), batch, tasks))

    def decide_only(self, driver: Driver, messages: Sequence[Any]) -> None:
        """Write the intent as `commit` does, and stop there: as if killed."""
        found = to_decide(messages)
        assert found is not None
        fence, what, prepared = found
        intent = Intent(what, fence, tuple(message.transaction for message in prepared))
        driver.journal.decide(intent, query_id_name(self.prefix))

    def committed(self) -> list[str]:
        """Return what a read_committed consumer sees, sorted, once nothing is open
        or being ended any more.
        """
        begun = time.monotonic()
        while (held_back := self._ends(READ_COMMITTED)) != (ends := self._ends("read_uncommitted")):
            assert time.monotonic() - begun < PATIENCE_SECONDS, (
                f"transactions stay open: {held_back}, {ends}"
            )
            time.sleep(0.02)
        return self.stable()

    def stable(self) -> list[str]:
        """Return what a read_committed consumer sees now, sorted; open transactions
        hide what comes after them.
        """
        return sorted(row["value"].decode() for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return the records that a read_committed consumer sees now."""
        found: list[dict[str, Any]] = []
        for place, end in self._ends(READ_COMMITTED).items():
            for batch in self.client.fetch(
                place, EARLIEST, end, FetchOptions(isolation_level=READ_COMMITTED)
            ):
                found += batch.to_pylist()
        return found

    def _ends(self, isolation_level: str) -> dict[TopicPartition, int]:
        places = [
            TopicPartition(self.topic, n)
            for n in self.client.metadata([self.topic]).topics[self.topic].partitions
        ]
        found = self.client.list_offsets(
            dict.fromkeys(places, LATEST), isolation_level=isolation_level
        )
        return {place: found[place].offset for place in places}


def batches(rows: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows as Spark would, two at a time."""
    for start in range(0, len(rows), 2):
        piece = list(rows[start : start + 2])
        yield pa.record_batch({"key": piece, "value": piece})
