"""Whether a position's foundation is still in the log: epochs against truncation (KIP-320).

1. A position carries the leader epoch that was current when it became known. While the leader's
   epoch is the same, nothing can have been cut off, and nothing is asked. A lower one is that of
   another topic (`offsets.recreated`) or of a leader that knows nothing of ours.
2. Otherwise the leader is asked where that epoch ends in its log (OffsetForLeaderEpoch). An end
   before the position says that the log left the position's history there: records from there on
   are others.
3. Each answer is kept until position or leader epoch change, so that an idle stream does not ask
   again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.client import TopicPartition
from parley.spark.values.offsets import Offsets


class _Doubt(NamedTuple):
    position: int
    epoch: int
    leader_epoch: int


AskEnds = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
"""Asks where epochs end; the answer lacks partitions whose leader does not know theirs."""


@dataclass(slots=True)
class Histories:
    """Finds the positions whose records are gone although the log is long enough."""

    ask: AskEnds
    _settled: dict[TopicPartition, tuple[_Doubt, int | None]] = field(default_factory=dict)

    def cuts(self, start: Offsets, end: Offsets) -> dict[TopicPartition, int]:
        """Return where the history of each position of `start` ends, for those that end before it.

        `end` says which leader epochs there are now. Topics with another id are another matter.
        """
        doubts = {}
        for tp, epoch in start.epochs.items():
            now = end.epochs.get(tp, epoch)
            if now <= epoch or tp not in end.positions or tp not in start.positions:
                continue
            if start.ids.get(tp.topic, "") == end.ids.get(tp.topic, start.ids.get(tp.topic, "")):
                doubts[tp] = _Doubt(start.positions[tp], epoch, now)
        unknown = {
            tp: doubt.epoch for tp, doubt in doubts.items() if self._answer(tp, doubt) is None
        }
        if unknown:
            ends = self.ask(unknown)
            self._settled |= {tp: (doubts[tp], ends.get(tp)) for tp in unknown}
        found = {}
        for tp, doubt in doubts.items():
            _, where = self._settled[tp]
            if where is not None and where < doubt.position:
                found[tp] = where
        return found

    def _answer(self, tp: TopicPartition, doubt: _Doubt) -> _Doubt | None:
        known = self._settled.get(tp)
        return known[0] if known is not None and known[0] == doubt else None
