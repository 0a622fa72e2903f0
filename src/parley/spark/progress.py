"""How far behind a streaming query is: read from its progress, for people, alerts and dashboards.

    from parley.spark.progress import LagListener, lag

    for source in lag(query.lastProgress):
        print(source.topic_names, source.records, source.bytes, source.ms)
    spark.streams.addListener(LagListener(lambda name, sources: print(name, sources)))

Records are counted from the offsets that every progress has. Bytes and time are there with
`option("reportLag", "true")`; they are as of the beginning of the micro-batch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.streaming import StreamingQueryListener

from parley.client import TopicPartition
from parley.spark.values.offsets import FORMAT_KEY, Offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

log = logging.getLogger("parley.spark")


@dataclass(frozen=True, slots=True)
class SourceLag:
    """The lag of one source of a query, after its last micro-batch."""

    records: int
    """Offsets between what was read and the end of the logs, over all partitions."""
    partitions: Mapping[TopicPartition, int]
    """The same for each partition."""
    bytes: int | None = None
    """Bytes of keys and values behind when the micro-batch began; None without `reportLag`."""
    ms: int | None = None
    """Age in milliseconds of the oldest record that was not read when the micro-batch began."""

    @property
    def topic_names(self) -> list[str]:
        """The topics of the source."""
        return sorted({tp.topic for tp in self.partitions})

    @property
    def min_offsets_behind_latest(self) -> int:
        """As the metric of Spark's own source."""
        return min(self.partitions.values(), default=0)

    @property
    def max_offsets_behind_latest(self) -> int:
        """As the metric of Spark's own source."""
        return max(self.partitions.values(), default=0)

    @property
    def avg_offsets_behind_latest(self) -> float:
        """As the metric of Spark's own source."""
        return self.records / len(self.partitions) if self.partitions else 0.0


def lag(progress: StreamingQueryProgress | Mapping[str, object] | None) -> list[SourceLag]:
    """Return the lag of each parley source in a query's progress, in the order of the sources.

    Takes what `query.lastProgress`, `query.recentProgress` and listeners give; None gives an empty
    list.
    """
    found = []
    sources = _get(progress, "sources")
    for source in sources if isinstance(sources, Iterable) else ():
        latest = _offsets(_get(source, "latestOffset"))
        done = _offsets(_get(source, "endOffset"))
        if latest is None or done is None or FORMAT_KEY not in latest:
            continue
        ends, read = Offsets.from_json(latest).positions, Offsets.from_json(done).positions
        behind = {tp: max(0, end - read[tp]) for tp, end in ends.items() if tp in read}
        said = latest.get("@lag")
        found.append(
            SourceLag(sum(behind.values()), behind, _number(said, "bytes"), _number(said, "ms"))
        )
    return found


class LagListener(StreamingQueryListener):  # type: ignore[misc]  # pyspark comes without types
    """Calls `report(name, lags)` after every micro-batch; `name` is the query's, or its id.

    An error in `report` is logged and does not disturb the query.
    """

    def __init__(self, report: Callable[[str, list[SourceLag]], None]) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report the lag of the query that made progress."""
        progress = event.progress
        try:
            sources = lag(progress)
            if sources:
                self._report(str(_get(progress, "name") or _get(progress, "id")), sources)
        except Exception:
            log.exception("a LagListener failed")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing."""


def _get(thing: object, name: str) -> object:
    if thing is None:
        return None
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _number(said: object, name: str) -> int | None:
    number = said.get(name) if isinstance(said, Mapping) else None
    return number if isinstance(number, int) else None


def _offsets(text: object) -> dict[str, object] | None:
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except ValueError:
            return None
    return text if isinstance(text, dict) else None
