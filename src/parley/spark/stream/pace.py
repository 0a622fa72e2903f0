"""When a micro-batch is worth running, and how large: `min…`, `max…` and `maxTriggerDelay`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parley.client import TopicPartition


@dataclass(slots=True)
class Pace:
    """Holds a stream back until enough has come or the longest delay is over. Time is an argument.

    As in Spark's own source, the first micro-batch of a run does not wait.
    """

    least: int | None
    max_delay_ms: int
    last_ms: int | None = None

    def waits(self, offsets: int, now_ms: int) -> bool:
        """Return whether so few new offsets can wait. Mutates the last micro-batch's time."""
        if self.least is None:
            return False
        patient = self.last_ms is not None and now_ms - self.last_ms <= self.max_delay_ms
        if patient and offsets < self.least:
            return True
        self.last_ms = now_ms
        return False


def limit_bytes(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    bytes_per_offset: Mapping[TopicPartition, float],
    max_bytes: int,
) -> dict[TopicPartition, int]:
    """Return where a micro-batch of `max_bytes` ends: an equal share of each backlog.

    One offset at least of each partition that has any, so that everything moves.

    >>> a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> found = limit_bytes({a: 0, b: 0}, {a: 100, b: 100}, {a: 10.0, b: 30.0}, 1000)
    >>> found[a], found[b]
    (25, 25)
    """
    sizes = {
        tp: ends[tp] - start for tp, start in starts.items() if tp in ends and ends[tp] > start
    }
    total = sum(size * bytes_per_offset.get(tp, 0.0) for tp, size in sizes.items())
    if total <= max_bytes:
        return dict(ends)
    share = max_bytes / total
    return dict(ends) | {
        tp: starts[tp] + min(size, max(1, int(size * share))) for tp, size in sizes.items()
    }
