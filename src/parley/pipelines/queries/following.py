"""A started query, watched until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from parley.pipelines.queries.as_read import records_in

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

LOOK_S = 0.25
STARTS = 5
_TOO_SLOW = "failed to connect back"
"""Spark gives a query's Python process ten seconds to start, which a busy machine may exceed."""
LAST_BATCH_S = 60.0
"""How long a batch may take to its end when the query is to end."""


class RowsDone:
    """Counts the records that a query has finished with, by its progress reports."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._by_batch: dict[int, int] = {}

    def count(self) -> int:
        """Ask for the reports that are new and return the records of all batches so far."""
        last = self._query.lastProgress
        if last is not None:
            newest = int(last["batchId"])
            if newest - 1 in self._by_batch or newest == 0:
                self._enter(last)
            elif newest not in self._by_batch:
                for progress in self._query.recentProgress:
                    self._enter(progress)
        return sum(self._by_batch.values())

    def _enter(self, progress: StreamingQueryProgress) -> None:
        # An idle query repeats its last batch id with no rows in it.
        batch, records = int(progress["batchId"]), records_in(progress)
        self._by_batch[batch] = max(records, self._by_batch.get(batch, 0))


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query, again where its Python process was too slow to start; return it when it has
    begun or failed for a reason of its own.
    """
    for left in reversed(range(STARTS)):
        query = start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(LOOK_S / 10)
        if query.isActive or not left or _TOO_SLOW not in str(query.exception()):
            break
    return query


def follow(
    query: StreamingQuery, stopping: Callable[[], bool], report: Callable[[int], None]
) -> None:
    """Wait until a query ends, or end it when `stopping`: after the batch that it is at.

    `report` gets the rows so far. Raises what the query fails with.
    """
    rows = RowsDone(query)
    while not query.awaitTermination(LOOK_S):
        report(rows.count())
        if stopping():
            _end(query)
    report(rows.count())


def _end(query: StreamingQuery) -> None:
    """Stop between two batches: what is stopped in one is written again by the next run."""
    before = _batch(query)
    deadline = time.monotonic() + LAST_BATCH_S
    while query.isActive and query.status["isTriggerActive"] and _batch(query) == before:
        if time.monotonic() > deadline:
            break
        time.sleep(LOOK_S / 10)
    query.stop()


def _batch(query: StreamingQuery) -> object:
    last = query.lastProgress
    return None if last is None else (last["batchId"], last["timestamp"])
