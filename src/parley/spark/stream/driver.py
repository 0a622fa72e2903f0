"""What the driver's process of one query run remembers, and the order in which it decides.

look at the cluster → report losses → hold back to the run's end → wait for enough → limit
"""

from __future__ import annotations

from parley.client import TopicPartition
from parley.spark.clients import client_for
from parley.spark.options.source import SourceOptions
from parley.spark.options.table import (
    COMMIT_TO_GROUP,
    MAX_BYTES_PER_TRIGGER,
    MAX_OFFSETS_PER_TRIGGER,
    MAX_TRIGGER_DELAY,
    MIN_OFFSETS_PER_TRIGGER,
    REPORT_LAG,
)
from parley.spark.read import asking
from parley.spark.read.packing import Task
from parley.spark.read.planner import Planner
from parley.spark.read.samples import Sample, Sampler, densities
from parley.spark.stream.ending import Ending
from parley.spark.stream.group_progress import GroupProgress
from parley.spark.stream.pace import Pace
from parley.spark.stream.plan import (
    Cuts,
    capped,
    held,
    initial_offsets,
    limited,
    newest_offsets,
    plan_stream,
    report_losses,
    starts_of,
)
from parley.spark.values.offsets import Offsets, advance

LAG_KEY = "@lag"


class StreamDriver:
    """The state of one query run. `planner.now_ms` is its clock."""

    def __init__(self, options: SourceOptions) -> None:
        self.planner = Planner(options)
        self._options = options
        self._ending = None if options.end is None else Ending(options.end)
        self._pace = Pace(options.own[MIN_OFFSETS_PER_TRIGGER], options.own[MAX_TRIGGER_DELAY])
        self._sampler = Sampler()
        self._group = None
        if (group := options.own[COMMIT_TO_GROUP]) is not None:
            self._group = GroupProgress(client_for(options.client), group)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        """Where the logs ended when this run looked last: without topic ids the only
        trace of what is not read yet.
        """
        self._report: dict[str, object] | None = None

    def first(self) -> Offsets:
        """Return where a new query starts, the same at every call."""
        if self._initial is None:
            self._initial = initial_offsets(self.planner)
        return self._initial

    def take_target(self) -> None:
        """Take note of what is there now, as the end of this run."""
        self._target = self._seen = self.planner.latest(self.planner.assignment(fresh=True))

    def next_end(self, start: Offsets, *, max_rows: int | None, without_limits: bool) -> Offsets:
        """Return where the next micro-batch ends, `start` itself where none is to be run now.

        Spark asks when everything before `start` is done. Raises DataLossError, if that is wanted,
        for what is gone.
        """
        planner = self.planner
        newest = newest_offsets(planner, start, self._seen)
        if self._group is not None:
            self._group.commit(start, newest, planner.now_ms())
        cuts = planner.histories.cuts(start, newest)
        report_losses(planner, start, newest, cuts, self._seen)
        self._seen = newest
        end = newest if self._target is None else capped(start, newest, self._target, cuts)
        if self._ending is not None:
            end = held(start, end, self._ending.limits(planner, newest), cuts)
        starts = None
        if self._must_measure(without_limits=without_limits):
            starts = starts_of(planner, start, end, cuts)
        samples = (
            self._samples(starts, end)
            if starts is not None and self._must_sample(without_limits)
            else {}
        )
        self._report = self._say(newest, starts, samples)
        if starts is not None and not without_limits:
            end = self._limit(start, end, starts, samples, cuts, max_rows)
        return advance(start, end, cuts)

    def _must_measure(self, *, without_limits: bool) -> bool:
        own = self._options.own
        limits = (MAX_OFFSETS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER, MIN_OFFSETS_PER_TRIGGER)
        return (
            own[REPORT_LAG] or not without_limits or any(own[limit] is not None for limit in limits)
        )

    def _must_sample(self, without_limits: bool) -> bool:
        return self._options.own[REPORT_LAG] or (
            self._options.own[MAX_BYTES_PER_TRIGGER] is not None and not without_limits
        )

    def _samples(
        self, starts: dict[TopicPartition, int], end: Offsets
    ) -> dict[TopicPartition, Sample]:
        places = {tp: (first, end.positions[tp]) for tp, first in starts.items()}
        level = self._options.fetch.isolation_level
        return asking.ask(
            self._options, lambda client: self._sampler.samples(client, places, level)
        )

    def _limit(
        self,
        start: Offsets,
        end: Offsets,
        starts: dict[TopicPartition, int],
        samples: dict[TopicPartition, Sample],
        cuts: Cuts,
        max_rows: int | None,
    ) -> Offsets:
        sizes = {
            tp: end.positions[tp] - first
            for tp, first in starts.items()
            if end.positions[tp] > first
        }
        # A run that ends by itself must take the rest, however little it is.
        ends_itself = self._target is not None or self._ending is not None
        if (
            not ends_itself
            and not cuts
            and self._pace.waits(sum(sizes.values()), self.planner.now_ms())
        ):
            return start
        rows = max_rows if max_rows is not None else self._options.own[MAX_OFFSETS_PER_TRIGGER]
        return limited(
            start,
            end,
            starts,
            rows,
            self._options.own[MAX_BYTES_PER_TRIGGER],
            densities(samples, sizes),
        )

    def _say(
        self,
        newest: Offsets,
        starts: dict[TopicPartition, int] | None,
        samples: dict[TopicPartition, Sample],
    ) -> dict[str, object]:
        """Return the end of the logs as JSON; with `reportLag` also how far behind it the
        query began this trigger.
        """
        found = newest.to_json()
        if not self._options.own[REPORT_LAG] or starts is None:
            return found
        sizes = {
            tp: max(0, newest.positions[tp] - first)
            for tp, first in starts.items()
            if tp in newest.positions
        }
        per_offset = densities(samples, sizes)
        now_ms = self.planner.now_ms()
        ages = [
            now_ms - seen.timestamp_ms
            for tp, seen in samples.items()
            if seen.timestamp_ms >= 0 and sizes.get(tp)
        ]
        found[LAG_KEY] = {
            "records": sum(sizes.values()),
            "bytes": round(sum(size * per_offset[tp] for tp, size in sizes.items())),
            "ms": max([0, *ages]),
        }
        return found

    def report(self) -> dict[str, object] | None:
        """Return what the last `next_end` saw: the logs' end, and the lag if wanted."""
        return self._report

    def plan(self, start: Offsets, end: Offsets) -> list[Task]:
        """Return what the tasks of a micro-batch read."""
        return plan_stream(self.planner, start, end)
