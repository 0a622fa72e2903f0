"""The position of one partition: what it rests on, when it must be validated, what an answer makes of it.

Pure: no clock, no socket. A position is an offset, the leader epoch of the record before it, and the
leader that it was last held against. There are two of them: what was *consumed*, and what is to be
*fetched* next, which runs ahead. The rules (KIP-320), with the labels under which the tests name them:

 P1  A seek without an epoch is never validated, and ends a validation under way.
 P2  A seek with an epoch awaits validation: readable, but nothing is fetched.
 P3  Another leader epoch makes a position await validation; one without an epoch lets it fetch (L6).
 P4  Where the leader cannot tell epochs the validation is skipped; nothing stays stuck.
 P7  An epoch that ends at or after the position: valid. Before it: truncated. With a reset policy the
     position goes to where the histories part, never to earliest or latest; without one it stops.
 P8  The leader knows nothing of the epoch: reset by the policy; without one it stops.
 P9  An answer to a question about another position, or after a reset was asked for, is ignored.
 P10 So is an answer that was asked of another leader epoch.
 P12 The epoch of a position follows the batches; format 0 and 1 have none.
 P13 Only a position in stage FETCHING is fetched.
 P15 OFFSET_OUT_OF_RANGE for another position than the present one is ignored.

What is only fetched ahead and not consumed is no loss: the position then goes back to what was consumed.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from parley.client.results import EpochEndOffset, OffsetSpec, Timestamp
from parley.errors import LogTruncationError
from parley.types import TopicPartition

Spec = OffsetSpec | Timestamp


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
    """A place in a partition. Epochs and leader are -1 where they are not known."""

    offset: int
    offset_epoch: int = -1
    """Leader epoch of the record before the offset."""
    leader_id: int = -1
    leader_epoch: int = -1
    """The leader that it was last held against, and its epoch."""


class Cause(Enum):
    """Why records that were promised are gone."""

    TRUNCATED = "truncated"
    OUT_OF_RANGE = "out of range"
    RECREATED = "re-created"


class DataLoss(NamedTuple):
    """Records that were read or promised are gone, and reading goes on elsewhere. Never silent.

    `resumed_at` is the offset at which it goes on; None until the place it is reset to is looked up.
    """

    partition: TopicPartition
    cause: Cause
    position: Position
    resumed_at: int | None
    text: str


class Diverged(NamedTuple):
    """Where a position's history leaves the leader's; None where the leader does not know the epoch (P8)."""

    offset: int | None
    epoch: int | None


def compare(position: Position, found: EpochEndOffset) -> Diverged | None:
    """Return where a position's history leaves the leader's log, None where it does not (P7, P8).

    >>> compare(Position(10, 3), EpochEndOffset(3, 10)), compare(Position(10, 3), EpochEndOffset(2, 7))
    (None, Diverged(offset=7, epoch=2))
    """
    if not found.available or position.offset_epoch < 0:
        return None
    if found.leader_epoch < 0 or found.end_offset < 0:
        return Diverged(None, None)
    return Diverged(found.end_offset, found.leader_epoch) if found.end_offset < position.offset else None


def truncation_error(tp: TopicPartition, position: Position, diverged: Diverged) -> LogTruncationError:
    """Return (not raise) the error for a position that belongs to another history."""
    was = f"{tp}: the log was truncated below offset {position.offset} (epoch {position.offset_epoch})"
    if diverged.offset is None:
        text = f"{was}; its leader knows nothing of that epoch. Seek to an offset that it has, or set a reset policy"
    else:
        text = (
            f"{was}: it is the same up to offset {diverged.offset} (epoch {diverged.epoch}), and what was read from "
            f"there on exists no more. Seek to {diverged.offset} to go on"
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
