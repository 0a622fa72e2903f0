"""What a task does: read its ranges, each to its end, whatever is missing in between.

Offsets that compaction or transactions left out are no gap: the range ends when the position has
passed it. Offsets that retention removed, or a log that ends early, are lost data; so are records
that an unclean election replaced by others: those belong to the next planning, and are not read
here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING

from parley.client import (
    EARLIEST,
    LATEST,
    Client,
    FetchedBatch,
    FetchOptions,
    PartitionRange,
    TopicPartition,
    record_shape,
    spark_shape,
)
from parley.errors import BrokerError, ConfigError, DataLossError, LogTruncationError
from parley.errors.codes import (
    INCONSISTENT_TOPIC_ID,
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.spark.clients import client_for
from parley.spark.options.source import SourceOptions
from parley.spark.options.table import ARROW_BATCHES, FAIL_ON_DATA_LOSS, RACK_FROM_ENV
from parley.spark.read.loss import LossPolicy
from parley.spark.read.packing import Task
from parley.spark.read.ranges import OffsetRange
from parley.spark.values.arrow_batches import packed
from parley.spark.values.numbers import stored_schema, to_numbers
from parley.spark.values.offsets import Offsets, recreated
from parley.spark.values.timestamps import has_overflow, overflow_error
from parley.spark.worker_memory import settle_memory
from parley.types import ZERO_UUID, format_uuid, parse_uuid

if TYPE_CHECKING:
    import pyarrow

    from parley.spark.read.dead_letters import DeadLetters
    from parley.spark.read.typed import Readers

    MakeRows = Callable[[FetchedBatch], Iterator[pyarrow.RecordBatch]]

_PERHAPS_GONE = (
    UNKNOWN_TOPIC_OR_PARTITION,
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_ID,
    INCONSISTENT_TOPIC_ID,
)
"""What reading ends with when a topic is deleted: which of them depends on release and moment."""


def read_task(
    task: Task,
    options: SourceOptions,
    schema: pyarrow.Schema,
    *,
    hint: str = "",
    readers: Readers | None = None,
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a task's ranges as batches of `schema`, packed where options say so: in
    order within each range. `hint` goes with errors of lost records; `readers` are the schemas of
    keys and values that are decoded.

    Raises DataLossError, CorruptRecordError or what the broker said, after everything in front was
    yielded; with failOnDataLoss=false lost offsets are skipped with a warning. Raises ConfigError
    for a record that does not fit into the columns, naming its offset; SchemaDecodeError for a
    message that cannot be decoded.
    """
    settle_memory()
    reading = _Reading(options, hint)
    making = _RowMaking(options, readers, schema)
    waiting = [_Part(one, making) for one in task]
    while waiting:
        together: dict[TopicPartition, _Part] = {}
        for part in waiting:  # ranges of one partition one after the other, and one shape at a time
            if part.stored == waiting[0].stored:
                together.setdefault(part.tp, part)
        waiting = [part for part in waiting if together.get(part.tp) is not part]
        yield from reading.read(together)


class _RowMaking:
    """What a task makes of records; its ranges have one count of dead letters."""

    def __init__(
        self, options: SourceOptions, readers: Readers | None, schema: pyarrow.Schema
    ) -> None:
        self._options, self._readers, self._schema = options, readers, schema
        self._letters: DeadLetters | None = None
        if readers:
            from parley.spark.read.typed import dead_letters_of

            self._letters = dead_letters_of(options)

    def of(self, tp: TopicPartition) -> tuple[pyarrow.Schema, MakeRows]:
        """Return what to fetch of a partition for the columns, and what makes rows of it."""
        stored, rows = self._records_of(tp)
        if self._options.own[ARROW_BATCHES]:
            return stored, lambda found: map(packed, rows(found))
        return stored, rows

    def _records_of(self, tp: TopicPartition) -> tuple[pyarrow.Schema, MakeRows]:
        if self._readers:
            from parley.spark.read.typed import typed_rows

            typed = typed_rows(self._options, self._readers, self._schema, tp, self._letters)
            if typed is not None:
                return typed.stored, typed
        schema, where = self._schema, str(tp)
        return stored_schema(schema), lambda found: iter((to_numbers(found.batch, schema, where),))


class _Part:
    """One range of a task: how far it was read, and what to make of it."""

    def __init__(self, task: OffsetRange, making: _RowMaking) -> None:
        self.task, self.tp = task, task.tp
        self.position, self.end = task.start, task.end
        self.epoch = self.planned_epoch = task.leader_epoch
        self.stored, self.rows = making.of(task.tp)

    @property
    def wanted(self) -> PartitionRange:
        """What is left to read."""
        topic_id = parse_uuid(self.task.topic_id) if self.task.topic_id else ZERO_UUID
        return PartitionRange(self.position, self.end, self.epoch, topic_id)

    def is_later(self, found: FetchedBatch) -> bool:
        """Return whether records are of a later leader, in a range that was full when it was
        planned.
        """
        return 0 <= self.planned_epoch < found.leader_epoch


class _Reading:
    """Reads ranges with the client of this process."""

    def __init__(self, options: SourceOptions, hint: str) -> None:
        self._client = client_for(options.client)
        self._policy = LossPolicy(options.own[FAIL_ON_DATA_LOSS], hint)
        self._options = options.fetch
        if rack := _rack(options):
            self._options = self._options.replace(client_rack=rack)

    def read(self, parts: Mapping[TopicPartition, _Part]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of partitions, of one shape, as their records come."""
        # Rows are made out of reach of what handles trouble in reading: brokers may refuse dead
        # letters as well, and to go on behind such a batch would lose it.
        for part, found in self._records(parts):
            yield from part.rows(found)

    def _records(
        self, parts: Mapping[TopicPartition, _Part]
    ) -> Iterator[tuple[_Part, FetchedBatch]]:
        """Yield what is fetched. Where trouble does not say whose it is, each is read by itself."""
        left = parts
        while left := {tp: part for tp, part in left.items() if part.position < part.end}:
            try:
                later = yield from self._fetch(left)
            except (DataLossError, BrokerError) as error:
                if (troubled := _whose(error, left)) is None:
                    break
                self._after(troubled, error)
            else:
                if later is None:
                    return
                self._after_later(later)
        for part in left.values():
            yield from self._records({part.tp: part})

    def _after(self, part: _Part, error: DataLossError | BrokerError) -> None:
        """Go on after an error with what is left of a range. Raises one that no loss explains."""
        client, policy = self._client, self._policy
        if isinstance(error, DataLossError):
            part.position, part.end = _after_loss(
                client, part.task, part.position, part.end, policy, error
            )
            part.epoch = -1  # the record before the new position is not the one that was read
        elif error.code in _PERHAPS_GONE and not _exists(client, part.tp):
            _gone(part.task, part.position, policy, error)
            part.end = part.position
        else:
            raise error

    def _after_later(self, part: _Part) -> None:
        """Go on as far as the log still is what was planned, after records of a later leader."""
        part.end = _end_of_plan(self._client, part.task, part.position, part.end, self._policy)
        part.planned_epoch = -1

    def _fetch(
        self, parts: Mapping[TopicPartition, _Part]
    ) -> Generator[tuple[_Part, FetchedBatch], None, _Part | None]:
        """Yield records; return the range that met records of a later leader, None at the end of
        all.
        """
        stored = next(iter(parts.values())).stored
        fetch = self._options.replace(shape=spark_shape(stored))
        wanted = {tp: part.wanted for tp, part in parts.items()}
        for found in self._client.fetch_many(wanted, fetch):
            part = parts[found.partition]
            if part.is_later(found):
                return part
            if has_overflow(found.batch):
                raise _overflow(self._client, part, found.next_offset, fetch)
            part.position, part.epoch = found.next_offset, found.leader_epoch
            yield part, found
        return None


def _whose(
    error: DataLossError | BrokerError, parts: Mapping[TopicPartition, _Part]
) -> _Part | None:
    """Return the range that an error is about, None if it is one of several and does not say."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    if error.topic is None or error.partition is None:
        return None
    return parts.get(TopicPartition(error.topic, error.partition))


def _overflow(client: Client, part: _Part, end: int, fetch: FetchOptions) -> ConfigError:
    """Return the error for a timestamp between two offsets; its value is in Kafka's unit."""
    shape = record_shape(["offset", "timestamp"])
    wanted = {part.tp: PartitionRange(part.position, end)}
    found = client.fetch_many(wanted, fetch.replace(shape=shape))
    return overflow_error(str(part.tp), (one.batch for one in found))


def _rack(options: SourceOptions) -> str:
    name = options.own[RACK_FROM_ENV]
    return os.environ.get(name, "") if name is not None else ""


def _end_of_plan(
    client: Client, task: OffsetRange, position: int, end: int, policy: LossPolicy
) -> int:
    """Return how far the log still is what was planned; what lies beyond is reported as lost."""
    answer = client.offsets_for_leader_epochs({task.tp: task.leader_epoch})[task.tp]
    if not 0 <= answer.end_offset < end:
        return end
    policy.truncated(task.tp, end, answer.end_offset, task.leader_epoch)
    return max(position, answer.end_offset)


def _after_loss(
    client: Client,
    task: OffsetRange,
    position: int,
    end: int,
    policy: LossPolicy,
    error: DataLossError,
) -> tuple[int, int]:
    """Return what is left of a range, once its loss is reported. Raises an unexplained one.

    Of a topic that was created again nothing is left here: the next planning begins with the new
    one.
    """
    tp = task.tp
    try:
        topic_id = format_uuid(client.metadata([tp.topic]).topic_id(tp.topic))
        if task.topic_id and topic_id not in (task.topic_id, format_uuid(ZERO_UUID)):
            policy.recreated(tp.topic, f"id {task.topic_id} became {topic_id}")
            return end, end
        latest = client.list_offsets({tp: LATEST})[tp]
        planned = Offsets({tp: task.end}, {}, {tp: task.leader_epoch})
        for topic, evidence in recreated(
            planned, Offsets({tp: latest.offset}, {}, {tp: latest.leader_epoch})
        ).items():
            if not task.topic_id:
                policy.recreated(topic, evidence)
                return end, end
        if isinstance(error, LogTruncationError) and error.divergent_offset is not None:
            policy.truncated(tp, position, error.divergent_offset, error.position_epoch)
            return end, end  # the next planning begins where the histories part
        first = client.list_offsets({tp: EARLIEST})[tp].offset
        if position < first:
            policy.aged_out(tp, position, min(first, end))
            return first, end
        if latest.offset < end:
            policy.shrunk(tp, end, latest.offset)
            return position, latest.offset
    except DataLossError as reported:
        raise reported from error
    # nobody knows the epoch any more, and the offsets are all there
    if isinstance(error, LogTruncationError):
        return position, end
    raise error


def _exists(client: Client, tp: TopicPartition) -> bool:
    # of all topics: it waits for none to appear
    return client.metadata(None).partition(tp) is not None


def _gone(task: OffsetRange, position: int, policy: LossPolicy, error: BrokerError) -> None:
    try:
        policy.deleted(f"{task.tp} from offset {position} to {task.end - 1}")
    except DataLossError as reported:
        raise reported from error
