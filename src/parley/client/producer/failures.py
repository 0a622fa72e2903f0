"""Records that were not written: the application's hook hears of all, the log of those that nobody
holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from parley.client.produce.chunk import BatchCall, RecordChunk, failure
from parley.errors import KafkaError

log = logging.getLogger("parley.client")


class FailedRecords(NamedTuple):
    """Records that failed together; `on_error` of a producer is called with them.

    `partition` is -1 where they got none. `in_doubt`: they may have been written all the same.
    """

    topic: str
    partition: int
    records: int
    in_doubt: bool


OnError = Callable[[KafkaError, FailedRecords], object]


class FailureObserver:
    """Reports the batches of one producer that failed. Belongs to the event loop."""

    def __init__(self, on_error: OnError | None) -> None:
        self._on_error = on_error

    def chunk_begun(self) -> None:
        """Nothing is counted."""

    def batch_ended(self, call: BatchCall, chunk: RecordChunk) -> None:
        """Report it, if it failed."""
        if call.error is None:
            return
        topic, partition = call.partition
        failed = FailedRecords(topic, partition, call.records, call.in_doubt)
        if self._on_error is not None:
            try:
                self._on_error(failure(call.error, in_doubt=call.in_doubt), failed)
            except Exception:
                log.exception("on_error of a producer raised")
        elif chunk.unheld:
            log.error(
                "%d records for %s were not acknowledged: %s", call.records, topic, call.error
            )

    def chunk_ended(self) -> None:
        """Nothing is counted."""
