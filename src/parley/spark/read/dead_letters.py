"""Messages that cannot be decoded, on their way into a topic of their own.

A task writes the dead letters of a batch, and waits until they are acknowledged, before it hands
out the rows of that batch. Spark may run a task again, and then they are written again: at least
once. The headers name topic, partition and offset of each, by which repetitions are recognised.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from parley.arrow import HEADERS_TYPE
from parley.client import ClientOptions, FetchedBatch, ProduceOptions
from parley.errors import BrokerError, KafkaError, SchemaDecodeError
from parley.errors.codes import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.spark.clients import client_for
from parley.spark.values.schema import ERROR_COLUMNS
from parley.types.dead_letters import Origin, dead_letter_headers

_WRITING = ProduceOptions(delivery_timeout_ms=180_000)
"""As long as other rows of Spark wait for brokers that are away."""

_AROUND_A_RECORD, _AROUND_A_HEADER = 200, 20
"""Bytes of a batch beside keys, values and headers, at most."""

_ANY_REMEDY = "See to the topic, or name another one."
_REMEDIES: dict[int | None, str] = {
    MESSAGE_TOO_LARGE: (
        "A dead letter is larger than its record by a few headers: raise max.message.bytes of "
        "the topic."
    ),
    INVALID_RECORD: (
        "A dead letter has its record's key, or none: the topic must not be compacted "
        "(cleanup.policy=delete)."
    ),
    INVALID_TIMESTAMP: (
        "A dead letter has its record's time: raise message.timestamp.before.max.ms of the topic, "
        "or set its message.timestamp.type=LogAppendTime."
    ),
    TOPIC_AUTHORIZATION_FAILED: "The user of this query needs Write and Describe on it.",
    UNKNOWN_TOPIC_OR_PARTITION: "Create the topic.",
}
_REMEDIES[RECORD_LIST_TOO_LARGE] = _REMEDIES[MESSAGE_TOO_LARGE]


class DeadLetters:
    """The dead letters of one task; more than `limit` of them are a flood."""

    def __init__(self, client: ClientOptions, topic: str, limit: int) -> None:
        self._client = client
        self._topic = topic
        self._limit = limit
        self._written = 0

    def sort_out(
        self, found: FetchedBatch, decoded: pa.RecordBatch, parts: tuple[str, ...]
    ) -> pa.RecordBatch:
        """Write the bad messages of a fetched batch; return its decoded rows without them.

        Raises SchemaDecodeError for a flood, before any of the batch is written.
        """
        bad: dict[int, tuple[str, dict[str, str]]] = {}
        for part in parts:
            errors = decoded.column(ERROR_COLUMNS[part])
            if errors.null_count < len(errors):
                for row, error in enumerate(errors.to_pylist()):
                    if error is not None:
                        bad.setdefault(row, (part, error))
        if not bad:
            return decoded
        self._check(found, bad)
        rows = sorted(bad)
        letters = _letters(found, rows, [bad[row] for row in rows])
        try:
            client_for(self._client).produce(self._topic, letters, options=_options_for(letters))
        except KafkaError as error:
            error.add_note(self._note(error, found, rows, bad[rows[0]][1]["message"]))
            raise
        self._written += len(bad)
        kept = pa.array([row not in bad for row in range(decoded.num_rows)])
        return decoded.filter(kept)

    def _note(self, error: KafkaError, found: FetchedBatch, rows: list[int], why: str) -> str:
        """Return which records an error of the dead letters' topic is about, and what helps."""
        offsets = found.batch.column("offset")
        first, last = (offsets[row].as_py() for row in (rows[0], rows[-1]))
        what = f"offset {first}" if first == last else f"offsets {first} to {last}"
        code = error.code if isinstance(error, BrokerError) else None
        return (
            f'deadLetterTopic="{self._topic}" was to take {len(rows)} messages of '
            f"{found.partition}, {what}, that cannot be decoded (the first: {why}). "
            f"{_REMEDIES.get(code, _ANY_REMEDY)} The query goes on there when it is started again."
        )

    def _check(self, found: FetchedBatch, bad: dict[int, tuple[str, dict[str, str]]]) -> None:
        if self._written + len(bad) <= self._limit:
            return
        row = sorted(bad)[self._limit - self._written]
        _, error = bad[row]
        raise SchemaDecodeError(
            f"{error['message']}. With it the dead letters of this task are more than "
            f"deadLetterLimit={self._limit}: is valueFormat, valueFraming or valueSchema wrong? "
            "Raise the limit if so many messages are damaged.",
            code=error["code"],
            topic=found.partition.topic,
            partition=found.partition.partition,
            offset=found.batch.column("offset")[row].as_py(),
        )


def _letters(
    found: FetchedBatch, rows: list[int], faults: list[tuple[str, dict[str, str]]]
) -> pa.RecordBatch:
    """Return what to write: key, value and time of the records as they were, and headers."""
    raw = found.batch.take(pa.array(rows, pa.int64()))
    query, batch = _query_and_batch()
    offsets, headers = raw.column("offset").to_pylist(), raw.column("headers").to_pylist()
    listed = []
    for offset, own, (part, error) in zip(offsets, headers, faults, strict=True):
        place = Origin(*found.partition, offset, error["message"])
        pairs = dead_letter_headers(
            [(one["key"], one["value"]) for one in own or ()],
            place,
            part=part,
            code=error["code"],
            query=query,
            batch=batch,
        )
        listed.append([{"key": key, "value": value} for key, value in pairs])
    times = raw.column("timestamp")
    known = pc.greater_equal(times.cast(pa.int64()), 0)
    return pa.RecordBatch.from_pydict(
        {
            "key": raw.column("key"),
            "value": raw.column("value"),
            "headers": pa.array(listed, HEADERS_TYPE),
            "timestamp": pc.if_else(known, times, pa.scalar(None, times.type)),
        }
    )


def _options_for(letters: pa.RecordBatch) -> ProduceOptions:
    """Return how dead letters are written: whether one is too large is the topic's to say."""
    largest = 0
    for row in range(letters.num_rows):
        headers = letters.column("headers")[row].as_py()
        sizes = (_size(letters.column(name)[row]) for name in ("key", "value"))
        size = sum(sizes) + sum(
            len(one["key"].encode()) + len(one["value"] or b"") + _AROUND_A_HEADER
            for one in headers
        )
        largest = max(largest, size + _AROUND_A_RECORD)
    return _WRITING.replace(max_request_size=max(_WRITING.max_request_size, largest))


def _size(value: pa.Scalar) -> int:
    return value.as_buffer().size if value.is_valid else 0


def _query_and_batch() -> tuple[str | None, str | None]:
    context = TaskContext.get()
    if context is None:
        return None, None
    return (
        context.getLocalProperty("sql.streaming.queryId"),
        context.getLocalProperty("streaming.sql.batchId"),
    )
