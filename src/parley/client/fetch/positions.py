"""The position of one partition: what it rests on, when to validate it, what an answer makes.

Pure: no clock, no socket. A position is an offset, the leader epoch of the record before it, and
the leader that it was last held against. There are two of them: what was *consumed*, and what is to
be *fetched* next, which runs ahead. The rules (KIP-320), with the labels under which the tests name
them:

 P1  A seek without an epoch is never validated, and ends a validation under way.
 P2  A seek with an epoch awaits validation: readable, but nothing is fetched.
 P3  Another leader epoch makes a position await validation; one without an epoch lets it fetch
     (L6).
 P4  Where the leader has no epochs the validation is skipped; nothing stays stuck.
 P7  An epoch that ends at or after the position: valid. Before it: truncated. With a reset policy
     the position goes to where the histories part, never to earliest or latest; without one it
     stops.
 P8  The leader knows nothing of the epoch: reset by the policy; without one it stops.
 P9  An answer to a question about another position, or after a reset was asked for, is ignored.
 P10 So is an answer that was asked of another leader epoch.
 P12 The epoch of a position follows the batches; format 0 and 1 have none.
 P13 Only a position in stage FETCHING is fetched.
 P15 OFFSET_OUT_OF_RANGE for another position than the present one is ignored; for the present one
     the reset policy decides, as in Java: without an epoch nothing shows where the histories part.

What is only fetched ahead and not consumed is no loss: the position then goes back to what was
consumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from parley.client.results import EARLIEST, EpochEndOffset, OffsetSpec, Timestamp
from parley.errors import DataLossError, KafkaError, LogTruncationError, TopicRecreatedError
from parley.types import ZERO_UUID, TopicPartition, format_uuid


class Duration(NamedTuple):
    """A reset to the first record that is at most this old (Java's `by_duration`, KIP-1106)."""

    ms: int


Spec = OffsetSpec | Timestamp | Duration


class Stage(Enum):
    """What may be done with a partition now."""

    UNSET = "unset"
    """It has no position: committed offset or reset policy will give one."""
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"
    FETCHING = "fetching"
    STOPPED = "stopped"
    """An error stands; a seek ends it."""


class Position(NamedTuple):
    """A position in a partition. Epochs and leader are -1 where they are not known."""

    offset: int
    offset_epoch: int = -1
    """Leader epoch of the record before the offset."""
    leader_id: int = -1
    leader_epoch: int = -1
    """The leader that it was last held against, and its epoch."""


NOWHERE = Position(-1)


class Cause(Enum):
    """Why records that were promised are gone."""

    TRUNCATED = "truncated"
    OUT_OF_RANGE = "out of range"
    RECREATED = "re-created"


class DataLoss(NamedTuple):
    """Records that were read or promised are gone, and reading goes on elsewhere. Never silent.

    `resumed_at` is the offset at which it goes on; None until the offset it is reset to is looked
    up.
    """

    partition: TopicPartition
    cause: Cause
    position: Position
    resumed_at: int | None
    text: str


class Diverged(NamedTuple):
    """Where a position's history leaves the leader's; None if its epoch is not known there (P8)."""

    offset: int | None
    epoch: int | None


def compare(position: Position, found: EpochEndOffset) -> Diverged | None:
    """Return where a position's history leaves the leader's log, None where it does not (P7, P8).

    >>> compare(Position(10, 3), EpochEndOffset(3, 10)) is None
    True
    >>> compare(Position(10, 3), EpochEndOffset(2, 7))
    Diverged(offset=7, epoch=2)
    """
    if not found.available or position.offset_epoch < 0:
        return None
    if found.leader_epoch < 0 or found.end_offset < 0:
        return Diverged(None, None)
    return (
        Diverged(found.end_offset, found.leader_epoch)
        if found.end_offset < position.offset
        else None
    )


def truncation_error(
    tp: TopicPartition, position: Position, diverged: Diverged
) -> LogTruncationError:
    """Return (not raise) the error for a position that belongs to another history."""
    was = (
        f"{tp}: the log was truncated below offset "
        f"{position.offset} (epoch {position.offset_epoch})"
    )
    if diverged.offset is None:
        text = (
            f"{was}; its leader knows nothing of that epoch. Seek to an offset that it has, or "
            "set a reset policy"
        )
    else:
        text = (
            f"{was}: it is the same up to offset {diverged.offset} (epoch {diverged.epoch}), "
            f"and what was read from there on exists no more. Seek to {diverged.offset} to go on"
        )
    return LogTruncationError(
        text,
        topic=tp.topic,
        partition=tp.partition,
        position=position.offset,
        position_epoch=position.offset_epoch,
        divergent_offset=diverged.offset,
        divergent_epoch=diverged.epoch,
    )


class Reading(Protocol):
    """What hands out records of a partition, perhaps in another thread."""

    def reached(self) -> tuple[int, int]:
        """Return the offset after what was handed out, and the leader epoch of the record before
        it; -1 where nothing was.
        """


@dataclass(slots=True)
class PartitionPosition:
    """Where one partition is read. Every method mutates; the module's head has the rules."""

    tp: TopicPartition
    policy: Spec | None = None
    """Where reading goes on when the position is lost; None: nowhere, the error stands."""
    stage: Stage = Stage.UNSET
    fetch: Position = NOWHERE
    reset: Spec | None = None
    error: KafkaError | None = None
    loss: DataLoss | None = None
    """A loss that is reported as soon as it is known where reading goes on."""
    planned: bool = False
    """Whether the epoch is only the leader's when it was planned: no record need have it."""
    position_epoch: int = 0
    """Counts the jumps: what was fetched before one is not handed out after it."""
    _consumed: Position = NOWHERE
    _reading: Reading | None = None
    """What hands records out: nobody notes each of them, it knows how far it has come."""

    @property
    def consumed(self) -> Position:
        """The position after what was handed out."""
        if self._reading is not None:
            offset, epoch = self._reading.reached()
            if offset > self._consumed.offset:
                self.passed(offset, epoch)
        return self._consumed

    @property
    def lost(self) -> bool:
        """Whether what was consumed is of a history that is gone, and nothing follows it."""
        return self.loss is not None or isinstance(self.error, TopicRecreatedError)

    def read_by(self, reading: Reading) -> None:
        """Let `reading` hand out what comes next, instead of what did before."""
        self._consumed = self.consumed
        self._reading = reading

    # -- where to ----------------------------------------------------------------------------------

    def seek(self, offset: int, epoch: int = -1, *, planned: bool = False) -> None:
        """Go to an offset; with the epoch of the record before it, validated first (P1, P2).

        With `planned` it is the epoch of the leader that named the offset, which may have written
        no record.
        """
        self._jump(
            Position(offset, epoch), Stage.AWAIT_VALIDATION if epoch >= 0 else Stage.FETCHING
        )
        self.planned = planned
        self.reset = self.error = self.loss = None

    def request_reset(self, spec: Spec) -> None:
        """Let the position be looked up; until then there is none to read from."""
        self.stage, self.reset, self.error = Stage.AWAIT_RESET, spec, None
        self.position_epoch += 1

    def reset_to(self, asked: Spec, offset: int) -> DataLoss | None:
        """Take the offset that was looked up, if still wanted; return the loss that led to it."""
        if self.stage is not Stage.AWAIT_RESET or asked != self.reset:
            return None
        self._jump(Position(offset), Stage.FETCHING)
        self.reset = None
        loss, self.loss = self.loss, None
        return loss._replace(resumed_at=offset) if loss is not None else None

    def stop(self, error: KafkaError) -> None:
        """Let an error stand: nothing is fetched until a seek."""
        self.stage, self.error = Stage.STOPPED, error

    def go_on(self) -> None:
        """Try again from the same position after an error that was reported and may be over; where
        it was being looked up, look it up again.
        """
        if self.stage is Stage.STOPPED:
            self.error = None
            if self.reset is not None:
                self.stage = Stage.AWAIT_RESET
            else:
                self.revalidate()

    def revalidate(self) -> None:
        """Validate before the next fetch, whoever leads, unless something else is awaited."""
        if self.stage not in (Stage.FETCHING, Stage.STOPPED):
            return
        self.fetch = self.fetch._replace(leader_id=-1, leader_epoch=-1)
        self.stage = Stage.AWAIT_VALIDATION if self.fetch.offset_epoch >= 0 else Stage.FETCHING

    # -- the leader --------------------------------------------------------------------------------

    def meet(self, leader_id: int, leader_epoch: int) -> Stage:
        """Hold the position against the leader of now; return what may be done (P3, L3, L5, L6)."""
        if self.stage not in (Stage.FETCHING, Stage.AWAIT_VALIDATION) or leader_id < 0:
            return self.stage
        before = self.fetch
        if (leader_id, leader_epoch) != before[2:]:
            self.fetch = before._replace(leader_id=leader_id, leader_epoch=leader_epoch)
        if leader_epoch < 0 or self.fetch.offset_epoch < 0:
            self.stage = Stage.FETCHING
        elif leader_epoch != before.leader_epoch:
            self.stage = Stage.AWAIT_VALIDATION
        return self.stage

    def validated(self, asked: Position, found: EpochEndOffset) -> DataLoss | None:
        """Take the answer on whether `asked` is in the leader's log; return a loss to report."""
        if self.stage is not Stage.AWAIT_VALIDATION or asked != self.fetch:
            return None
        self.stage = Stage.FETCHING
        diverged = compare(asked, found)
        return self._truncated(diverged) if diverged is not None else None

    def diverged(
        self, asked: Position, found: EpochEndOffset, *, has_id: bool = True
    ) -> DataLoss | None:
        """Take a fetch answer that names where histories part (v12+); return a loss to report.

        A log that has another epoch in front of the position and yet is as long has been rewritten:
        the offset stays (P7), under the epoch that is there. Not so for an epoch that was only
        planned with: a leader that wrote nothing leaves no trace in the logs of the others.

        A log that ends before the position in the very epoch that its leader still has was not
        truncated, for that takes another leader: another topic stands under the name. With `has_id`
        its id shows that; on 2.7, where topics have none, nothing else does.
        """
        if self.stage is not Stage.FETCHING or asked != self.fetch:
            return None
        same_epoch = asked.leader_epoch == asked.offset_epoch == found.leader_epoch
        if not has_id and same_epoch and found.end_offset < asked.offset:
            self.recreated(ZERO_UUID, ZERO_UUID)
            return None
        diverged = compare(asked, found)
        if diverged is None and self.planned:
            self.fetch = self.fetch._replace(offset_epoch=found.leader_epoch)
            return None
        return self._truncated(diverged or Diverged(asked.offset, found.leader_epoch))

    # -- going on ----------------------------------------------------------------------------------

    def fetched(self, next_offset: int, epoch: int) -> None:
        """Note whole batches up to `next_offset`, the last of them of `epoch` (P12, P18)."""
        self.fetch = self.fetch._replace(offset=next_offset, offset_epoch=epoch)
        self.planned = False

    def passed(self, next_offset: int, epoch: int) -> None:
        """Take note of what was consumed."""
        leader = self.fetch
        self._consumed = Position(next_offset, epoch, leader.leader_id, leader.leader_epoch)

    # -- losses ------------------------------------------------------------------------------------

    def out_of_range(self, asked_offset: int, error: DataLossError) -> None:
        """Note that the log does not hold an offset (P15): the policy decides, or the error stands.

        Nothing finer is safe. Another topic may stand under the name, whose records are older than
        the last one read, and on brokers below 2.8 nothing shows it: the time of that record would
        lead past all of them.
        """
        if self.stage is not Stage.FETCHING or asked_offset != self.fetch.offset:
            return
        if self.policy is None:
            self.stop(error)
            return
        self.loss = DataLoss(self.tp, Cause.OUT_OF_RANGE, self.consumed, None, str(error))
        self.request_reset(self.policy)

    def recreated(self, planned_id: bytes, found_id: bytes) -> None:
        """Note that another topic has the name: its beginning is next, whatever the policy."""
        ids = (
            f" (its id was {format_uuid(planned_id)} and is {format_uuid(found_id)} now)"
            if any(found_id)
            else ""
        )
        text = (
            f"{self.tp}: the topic was deleted and created again; what lay from "
            f"offset {self.consumed.offset} on is gone{ids}"
        )
        if self.policy is None:
            error = TopicRecreatedError(
                text,
                topic=self.tp.topic,
                partition=self.tp.partition,
                expected_offset=self.consumed.offset,
                planned_id=planned_id,
                found_id=found_id,
            )
            self._back_to(self.consumed)
            self.stop(error)
            return
        self.loss = DataLoss(self.tp, Cause.RECREATED, self.consumed, None, text)
        self.request_reset(EARLIEST)

    def _truncated(self, diverged: Diverged) -> DataLoss | None:
        at = self.consumed
        if diverged.offset is not None and at.offset <= diverged.offset < self.fetch.offset:
            self._back_to(at)  # only what was fetched ahead is gone
            return None
        error = truncation_error(self.tp, at, diverged)
        if self.policy is None:
            self._back_to(at)
            self.stop(error)
            return None
        if diverged.offset is None:
            self.loss = DataLoss(self.tp, Cause.TRUNCATED, at, None, str(error))
            self.request_reset(self.policy)
            return None
        offset = min(diverged.offset, at.offset)
        self._back_to(Position(offset, -1 if diverged.epoch is None else diverged.epoch))
        return DataLoss(self.tp, Cause.TRUNCATED, at, offset, str(error))

    def _back_to(self, position: Position) -> None:
        leader = self.fetch
        self._jump(
            position._replace(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch),
            Stage.FETCHING,
        )

    def _jump(self, position: Position, stage: Stage) -> None:
        self.fetch = self._consumed = position
        self._reading = None
        self.stage, self.planned = stage, False
        self.position_epoch += 1
