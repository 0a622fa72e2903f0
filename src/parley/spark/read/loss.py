"""Records that should be there and are not: what is reported, and where reading goes on.

One place decides. `failOnDataLoss=true` raises `DataLossError`, which names topic, partition and
offsets; `false` warns once per finding and process and goes on at the right place, without
duplicates.

    deleted     a topic or partition is gone           → it is left out
    recreated   the topic is another one: ids, epochs  → from the beginning of the new topic
    stepped     the leader epoch fell, by a little     → at the position, if the log has it
    ended       the log ends before an end once seen   → at the position
    aged out    the start is below the log's           → from the log's start
    shrunk      the log ends before the position       → at the log's end
    beyond      the log ends before an offset named    → at the log's end
    truncated   the log left the position's history    → from where it left it (epochs show it)
    late        a new partition already lost its front → from the log's start
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from parley.client import TopicPartition
from parley.errors import DataLossError

log = logging.getLogger("parley.spark")
_REMEDY = (
    'If that is acceptable, set failOnDataLoss to "false" to go on with what is left; '
    "if not, compare the topic's retention with how long the query was stopped."
)


@dataclass(slots=True)
class LossPolicy:
    """What to do about lost records: `fail`, or warn once."""

    fail: bool
    hint: str = ""
    """What else may be the reason, where the policy is used; part of every error."""
    warned: set[str] = field(default_factory=set)

    def report(
        self,
        what: str,
        tp: TopicPartition | None = None,
        *,
        expected: int | None = None,
        available: int | None = None,
        remedy: str = _REMEDY,
    ) -> None:
        """Raise DataLossError, or log a new loss; the caller goes on as the table above says."""
        if self.fail:
            raise DataLossError(
                f"{what}. {remedy} {self.hint}".rstrip(),
                topic=tp.topic if tp is not None else None,
                partition=tp.partition if tp is not None else None,
                expected_offset=expected,
                available_offset=available,
            )
        if what not in self.warned:
            self.warned.add(what)
            log.warning("%s (failOnDataLoss=false: the query goes on)", what)

    def deleted(self, names: str) -> None:
        """Report partitions that are gone."""
        self.report(
            f"data of {names} may be lost: topic or partition is gone, or the query reads it "
            "no more"
        )

    def recreated(self, topic: str, evidence: str) -> None:
        """Report a topic that was deleted and created again."""
        self.report(
            f'topic "{topic}" was deleted and created again ({evidence}): what was left to '
            "read of the old one is lost"
        )

    def stepped_back(self, tp: TopicPartition, planned: int, held_epoch: int, epoch: int) -> None:
        """Report a leader that has not heard of a position's epoch (no topic ids)."""
        self.report(
            f"the leader epoch of {tp} fell from {held_epoch} to {epoch} while offset {planned} "
            "was known: the topic was created again, or an unclean election lost records",
            tp,
            expected=planned,
        )

    def ended_early(self, tp: TopicPartition, seen: int, latest: int) -> None:
        """Report a log that ends before an end that was seen and not read yet (no topic ids)."""
        self.report(
            f"the log of {tp} ends at {latest} and ended at {seen} before: it was truncated, "
            f"or the topic was created again",
            tp,
            expected=seen,
            available=latest,
        )

    def aged_out(self, tp: TopicPartition, planned: int, earliest: int) -> None:
        """Report offsets that were removed before they could be read."""
        self.report(
            f"offsets {planned} to {earliest - 1} of {tp} are lost: the log starts at {earliest}",
            tp,
            expected=planned,
            available=earliest,
        )

    def shrunk(self, tp: TopicPartition, planned: int, latest: int) -> None:
        """Report a log that ends in front of a position that was already known."""
        self.report(
            f"the log of {tp} ends at {latest}, before offset {planned} that was already known: "
            f"it was truncated, or the topic was created again",
            tp,
            expected=planned,
            available=latest,
        )

    def beyond(self, tp: TopicPartition, option: str, named: int, latest: int) -> None:
        """Report an offset that somebody named and that the log has not reached."""
        self.report(
            f"the log of {tp} ends at {latest}, before offset {named} that {option} names",
            tp,
            expected=named,
            available=latest,
            remedy=f'Name an offset up to {latest}, or -1 for the end; with failOnDataLoss="false" '
            "the end is taken.",
        )

    def truncated(self, tp: TopicPartition, planned: int, divergent: int, epoch: int) -> None:
        """Report a log that left a position's history: what was read past `divergent` is gone."""
        self.report(
            f"the log of {tp} was truncated: offset {planned} was planned in leader "
            f"epoch {epoch}, whose records end at the divergent offset {divergent} "
            "now; what lay beyond is lost or was rewritten",
            tp,
            expected=planned,
            available=divergent,
        )
