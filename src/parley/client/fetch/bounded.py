"""Reading ranges to their ends: what is handed out is consumed, lasting trouble ends it."""

from __future__ import annotations

from collections.abc import Iterable

from parley.client.cluster.core import Cluster
from parley.client.cluster.wanted_topics import ensure_partitions
from parley.client.fetch.fetcher import Fetcher
from parley.client.fetch.state import FetchPolicy, PartitionFetch, RawFetch
from parley.client.options.client_options import FetchOptions


class BoundedRead:
    """The reading of some ranges. Belongs to the event loop."""

    def __init__(
        self,
        cluster: Cluster,
        parts: Iterable[PartitionFetch],
        options: FetchOptions,
        patience_ms: int,
    ) -> None:
        self._fetcher = Fetcher(cluster, parts, options, FetchPolicy(patience_ms))
        self._deadline = cluster.deadline(patience_ms)

    async def start(self) -> None:
        """Find the partitions and begin to fetch. Raises as `ensure_partitions`."""
        fetcher = self._fetcher
        fetcher.register_interest()
        try:
            await ensure_partitions(fetcher.cluster, fetcher.parts, self._deadline)
        except BaseException:
            await fetcher.close()
            raise
        fetcher.kick()

    async def next(self) -> RawFetch | None:
        """Return the next record bytes, None when every partition has reached its end.

        Raises the error that ended the reading, after everything in front of it was handed out.
        """
        fetcher = self._fetcher
        while True:
            if (raw := fetcher.take()) is not None:
                fetcher.parts[raw.tp].positions.passed(
                    raw.next_offset, raw.epoch_before(raw.next_offset)
                )
                return raw
            if (error := fetcher.failure()) is not None:
                raise error
            if fetcher.closed or all(part.done for part in fetcher.parts.values()):
                return None
            await fetcher.changed()

    async def close(self) -> None:
        """Stop fetching. What was not handed out is dropped, to be fetched again. Idempotent."""
        await self._fetcher.close()
