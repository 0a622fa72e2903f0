"""What the answer for one partition means, and what is to be done: pure, the doing is elsewhere.

P14 NOT_LEADER, UNKNOWN_TOPIC, the errors about topic ids and FENCED_LEADER_EPOCH call for metadata;
    UNKNOWN_LEADER_EPOCH does not, since it is the broker that is behind. None moves the position.
P15 OFFSET_OUT_OF_RANGE from a follower sends the reader back to the leader; from the leader it is
    looked into.
P18 Control batches, aborted records, gaps and empty batches move the position like any others.
P19 Damaged records end the reading there, with an error that names the offset; nothing is skipped.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from parley.client.cluster.retry import Reaction, classify
from parley.client.fetch.positions import DataLoss, Position
from parley.client.fetch.state import PartitionFetch, RawFetch
from parley.client.fetch.wire import MOST_EPOCHS, TOPIC_IDS_VERSION, FetchAnswer
from parley.client.options.client_options import READ_COMMITTED, FetchOptions
from parley.errors import CorruptRecordError, KafkaError, RemoteProtocolError, broker_error
from parley.errors.codes import (
    CORRUPT_MESSAGE,
    INCONSISTENT_TOPIC_ID,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_ID,
)
from parley.types import ZERO_UUID, TopicPartition


class Do(Enum):
    """What follows from an answer."""

    GO_ON = "go on"
    HAND_OUT = "hand out"
    STOP = "stop"
    RETRY = "retry"
    LOOK_INTO_RANGE = "look into range"


class FollowUp(NamedTuple):
    """What to do, and what goes with it: `loss` is reported, `epoch` was seen in the records."""

    do: Do
    error: KafkaError | None = None
    raw: RawFetch | None = None
    loss: DataLoss | None = None
    epoch: int = -1


class Asked(NamedTuple):
    """What was asked of one partition, to be held against what it is when the answer comes."""

    part: PartitionFetch
    flight: object
    position: Position
    position_epoch: int
    from_follower: bool

    @property
    def stands(self) -> bool:
        """Whether the partition still waits for this answer."""
        return self.part.flight is self.flight


class Limits(NamedTuple):
    """What the judging needs to know besides."""

    options: FetchOptions
    now_ms: int
    patience_ms: int | None
    preferred_ms: int
    """How long a preferred replica is kept."""


def judge(asked: Asked, answer: FetchAnswer, version: int, limits: Limits) -> FollowUp:
    """Return what follows from an answer. Mutates the position and what is kept about it."""
    part = asked.part
    if answer.error_code:
        return _judge_error(asked, answer.error_code, version)
    part.succeeded()
    if version >= TOPIC_IDS_VERSION:
        part.topic.served()
    part.high_watermark, part.last_stable_offset = answer.high_watermark, answer.last_stable_offset
    if answer.diverging is not None:
        has_id = part.topic.held != ZERO_UUID
        return FollowUp(
            Do.GO_ON, loss=part.positions.diverged(asked.position, answer.diverging, has_id=has_id)
        )
    if answer.preferred_replica >= 0:
        part.preferred = (answer.preferred_replica, limits.now_ms + limits.preferred_ms)
    if answer.records is None or not len(answer.records):
        error = (
            part.idle(limits.now_ms, limits.patience_ms) if answer.preferred_replica < 0 else None
        )
        return FollowUp(Do.STOP, error) if error is not None else FollowUp(Do.GO_ON)
    return _judge_records(asked, answer, answer.records, limits)


def left_out(asked: Asked, limits: Limits) -> FollowUp:
    """Return what follows when an answer has no news of a partition in its session (KIP-227)."""
    asked.part.succeeded()
    error = asked.part.idle(limits.now_ms, limits.patience_ms)
    return FollowUp(Do.STOP, error) if error is not None else FollowUp(Do.GO_ON)


def _judge_records(asked: Asked, answer: FetchAnswer, data: memoryview, limits: Limits) -> FollowUp:
    part, options = asked.part, limits.options
    tail = answer.tail
    if len(tail.epochs) == MOST_EPOCHS:
        data = data[: tail.whole_bytes]
    if tail.next_offset >= 0 and tail.next_offset <= part.position:
        return FollowUp(
            Do.STOP,
            RemoteProtocolError(f"{part.tp}: records before offset {part.position} came for it"),
        )
    if tail.next_offset < 0 and _is_cut_off(data):
        error = part.grow(data, options.fetch_max_bytes)
        return FollowUp(Do.STOP, error) if error is not None else FollowUp(Do.GO_ON)
    aborted = answer.aborted if options.isolation_level == READ_COMMITTED else ()
    first, after = part.position, max(tail.next_offset, part.position)
    raw = RawFetch(
        part.tp, first, part.end, data, aborted, after, tail.epochs, asked.position_epoch
    )
    if tail.next_offset < 0:  # damaged at its very front: the decoding says how
        part.end = part.position
    else:
        part.moved(tail.next_offset, tail.leader_epoch, len(data))
    return FollowUp(Do.HAND_OUT, raw=raw, epoch=tail.leader_epoch)


def _judge_error(asked: Asked, code: int, version: int) -> FollowUp:
    part, tp = asked.part, asked.part.tp
    error = broker_error(code, topic=tp.topic, partition=tp.partition, api="FETCH", version=version)
    if code == OFFSET_OUT_OF_RANGE and asked.from_follower:
        part.preferred = None  # the follower is behind or ahead: the leader decides
        return FollowUp(Do.GO_ON)
    if code == OFFSET_OUT_OF_RANGE:
        part.lost_range += 1
        return FollowUp(Do.LOOK_INTO_RANGE, error)
    if code == CORRUPT_MESSAGE:
        return FollowUp(Do.STOP, damaged(tp, part.position))
    if code in (UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID):
        part.topic.refused()
    return FollowUp(Do.STOP if classify(error) is Reaction.FAIL else Do.RETRY, error)


def damaged(tp: TopicPartition, offset: int) -> CorruptRecordError:
    """Return (not raise) the error for records that the broker itself found corrupt."""
    text = f"{tp}: the broker found its records at offset {offset} corrupt"
    return CorruptRecordError(text, topic=tp.topic, partition=tp.partition, offset=offset)


def _is_cut_off(data: memoryview) -> bool:
    """Return whether the first batch announces more bytes than came."""
    from parley.records import first_batch_bytes

    size = first_batch_bytes(data)
    return size is None or size > len(data)


def unexpected(error: BaseException) -> KafkaError:
    """Return the error for a reader whose reading ended with none of parley's own errors."""
    wrapped = KafkaError(f"reading ended with an unexpected {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
