"""What a broker's answer for one batch calls for: pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from parley.client.cluster.retry import Reaction, classify
from parley.client.produce.sequences import SequenceReaction, react
from parley.client.produce.state import AT_ONCE, OutBatch, PartitionLog
from parley.client.produce.wire import ProduceAnswer
from parley.errors import (
    BrokerError,
    KafkaError,
    NetworkError,
    RemoteProtocolError,
    RequestTimedOut,
    broker_error,
)
from parley.errors.codes import (
    MESSAGE_TOO_LARGE,
    NOT_LEADER_OR_FOLLOWER,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
)

NO_SUCH_TOPIC = (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID)
"""What comes next may be another topic, which knows no producer."""
TOO_LARGE = (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE)
"""A batch of several records is tried again in halves."""
_LIMITS = {
    MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic (message.max.bytes of its brokers), "
    "or send less in a record",
    RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic, or send less in a record",
}
"""What bounds a batch, and the remedy: brokers' own texts name neither."""


class Action(Enum):
    """What to do with a batch."""

    DONE = "done"
    FAIL = "fail"
    AGAIN = "again"
    RESTAMP = "restamp"
    SPLIT = "split"
    OLDER_FORMAT = "older format"


class FollowUp(NamedTuple):
    """What to do with a batch, and what else an answer calls for."""

    action: Action
    error: KafkaError | None = None
    refresh: bool = False
    """Ask for metadata: the leader is another one, or unknown."""
    immediate: bool = False
    """Without backoff: the answer named the new leader (KIP-951)."""


def judge(
    log: PartitionLog, batch: OutBatch, answer: ProduceAnswer, version: int, *, hinted: bool
) -> FollowUp:
    """Return what an answer calls for. `hinted`: the cache just learned the leader from it."""
    code, tp = answer.error_code, batch.tp
    if code == 0:
        return FollowUp(Action.DONE)
    said = answer.message
    if code in _LIMITS:
        said = f"the batch has {batch.size} bytes; {_LIMITS[code]}"
    error = broker_error(
        code, said, topic=tp.topic, partition=tp.partition, api="PRODUCE", version=version
    )
    # log.message.format.version is an older one
    if code == UNSUPPORTED_FOR_MESSAGE_FORMAT and batch.is_idempotent:
        return _without_idempotence(batch, error)
    if batch.is_idempotent:
        is_lowest = log.is_lowest(batch)
        reaction = react(
            code,
            is_lowest=is_lowest,
            is_current=log.is_current(batch),
            log_start_offset=answer.log_start_offset,
        )
        if reaction is SequenceReaction.RESTAMP and batch.transaction is not None:
            # one epoch for the whole transaction: abort, and take the next one
            return FollowUp(Action.FAIL, error)
        if reaction is not None:
            # behind one that failed: how long to wait is for that one to say
            return FollowUp(_BY_SEQUENCE[reaction], error, immediate=not is_lowest)
    if code in TOO_LARGE and batch.records > 1:
        return FollowUp(Action.SPLIT, error)
    if classify(error) is Reaction.FAIL:
        return FollowUp(Action.FAIL, error)
    at_once = hinted and log.hops < AT_ONCE
    return FollowUp(
        Action.AGAIN, error, refresh=error.refresh_metadata and not hinted, immediate=at_once
    )


def leaves_in_doubt(error: KafkaError, batch: OutBatch) -> bool:
    """Return whether, after an error, the batch may be in the log, or may still get there."""
    if isinstance(error, BrokerError):
        # a leader that waits for its followers says so, too, when it leads no more meanwhile
        if error.code == NOT_LEADER_OR_FOLLOWER:
            return batch.acks == -1
        return error.code in _MAYBE_WRITTEN
    if isinstance(error, NetworkError):
        return error.stage in (None, "request")
    return isinstance(error, RemoteProtocolError)


def _without_idempotence(batch: OutBatch, error: KafkaError) -> FollowUp:
    """A topic during an upgrade: written as by a broker before 0.11, unless the caller insists."""
    if not batch.needs_idempotence:
        return FollowUp(Action.OLDER_FORMAT, error)
    error.add_note(
        "The topic keeps records in a format before 0.11 (log.message.format.version), which has "
        "no producer ids. Raise the topic's format, or do without enable_idempotence=True."
    )
    return FollowUp(Action.FAIL, error)


_MAYBE_WRITTEN = (-1, 7, 13, 20, 56)
"""UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
KAFKA_STORAGE_ERROR.

Any other answer says that this attempt was not written; an earlier one without an answer keeps its
doubt.
"""
_BY_SEQUENCE = {
    SequenceReaction.ACKNOWLEDGED: Action.DONE,
    SequenceReaction.RETRY: Action.AGAIN,
    SequenceReaction.RESTAMP: Action.RESTAMP,
    SequenceReaction.FAIL: Action.FAIL,
}


def too_late(
    batch: OutBatch, last_error: KafkaError | None, *, leaderless: bool
) -> RequestTimedOut:
    """Return the error of a call past its delivery timeout, caused by the last error."""
    because = " (no broker leads the partition)" if leaderless else ""
    if last_error is not None:
        because = f" (last error: {last_error})"
    text = (
        f"{batch.records} records for {batch.tp} were not acknowledged within "
        f"delivery_timeout_ms{because}"
    )
    error = RequestTimedOut(text, stage="request")
    error.__cause__ = last_error
    return error


def closed_error() -> KafkaError:
    """Return the error of a call that was open when the client was closed."""
    return KafkaError(
        "the client was closed before these records were acknowledged; whether they were "
        "written is unknown"
    )
