"""Where a stream ends: `endingOffsets`, `endingTimestamp`, `endingOffsetsByTimestamp`.

Spark has no way to learn that a source is done: a query that has reached its end is idle, and with
Trigger.AvailableNow it stops. Names such as latest, and times ago, are looked up once per run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.client import LATEST, TopicPartition
from parley.spark.options.bounds import Bound
from parley.spark.read.planner import Planner
from parley.spark.values.offsets import Offsets


@dataclass(slots=True)
class Ending:
    """The ends of a query run, as far as known: a record so late may be still to come."""

    bound: Bound
    _now_ms: int | None = None
    _known: dict[TopicPartition, int] = field(default_factory=dict)

    def limits(self, planner: Planner, newest: Offsets) -> dict[TopicPartition, int]:
        """Return where partitions end, if they do yet. Call it *after* `newest` was asked.

        In that order an answer "no record is that late" holds for everything before `newest`.
        """
        if self._now_ms is None:
            self._begin(planner, newest)
        if self.bound.everywhere is None:
            given = (
                self.bound.offsets
                if self.bound.offsets is not None
                else self.bound.timestamps or {}
            )
            # not asked for: nothing is read
            self._known |= {tp: 0 for tp in newest.positions if tp not in given}
        open_ones = [tp for tp in newest.positions if tp not in self._known]
        if open_ones and self.bound.everywhere == LATEST:
            self._known |= dict.fromkeys(open_ones, 0)  # came after the end was taken
        elif open_ones:
            answers = planner.ask(self.bound.questions(open_ones, self._now_ms or 0))
            self._known |= {
                tp: answer.offset for tp, answer in answers.items() if answer.offset >= 0
            }
        return self._known

    def _begin(self, planner: Planner, newest: Offsets) -> None:
        self._now_ms = planner.now_ms()
        self.bound.check(newest.positions)
        if self.bound.everywhere == LATEST:
            self._known = dict(newest.positions)
        elif self.bound.offsets is not None:
            named = {tp: offset for tp, offset in self.bound.offsets.items() if offset >= 0}
            self._known = {
                tp: newest.positions[tp] for tp in self.bound.offsets if tp in newest.positions
            } | named
