"""What the exactly-once sink needs, by parley's client: coordinators, a journal's topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parley.client import (
    EARLIEST,
    LATEST,
    Client,
    FetchOptions,
    NewTopic,
    PreparedTransaction,
    ProduceOptions,
    TopicPartition,
)
from parley.errors import (
    BrokerError,
    ConfigError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionError,
    TransactionForgottenError,
    UnsupportedVersionError,
)
from parley.errors.codes import INVALID_TRANSACTION_TIMEOUT, TOPIC_ALREADY_EXISTS
from parley.spark.write.intent import Done, Entry, Intent, Mark, Newest, decode, encode, newest
from parley.spark.write.interfaces import Outcome, ToEnd
from parley.spark.write.turns import Identity

FIRST_LOOK = 64
"""Offsets read back from the journal's end; a batch takes about five of them."""
JOURNAL_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(2**24), "retention.ms": "-1"}
REPLICAS_BEFORE_24 = 3
"""Replicas of a journal where brokers have no default (CreateTopics before v4)."""


@dataclass(frozen=True, slots=True)
class Coordinators:
    """`Coordination` by a client. `timeout_ms` is the time-out of ids written under."""

    client: Client
    timeout_ms: int
    written_under: frozenset[str] = frozenset()

    def init(self, transactional_ids: Sequence[str]) -> list[Identity]:
        """Return a new identity for each id."""
        others = [name for name in transactional_ids if name not in self.written_under]
        found = {
            name: Identity(one.producer_id, one.producer_epoch)
            for name, one in self.client.transactions.fence(others).items()
        }
        for name in transactional_ids:
            if name in self.written_under:
                found[name] = self._take_over(name)
        return [found[name] for name in transactional_ids]

    def end(self, transactions: Sequence[ToEnd], *, commit: bool) -> list[Outcome]:
        """End transactions side by side: every one is tried, whatever others do."""
        handed_over = [
            PreparedTransaction(one.transactional_id, *one.identity) for one in transactions
        ]
        errors = self.client.transactions.end_many(handed_over, committed=commit)
        return [_outcome(error) for error in errors]

    def _take_over(self, name: str) -> Identity:
        producer = self.client.transactions.producer(
            name, transaction_timeout_ms=self.timeout_ms, max_generation=1
        )
        try:
            producer.start()
            return Identity(producer.producer_id, producer.producer_epoch)
        except BrokerError as error:
            raise timeout_error(error, self.timeout_ms) from error
        finally:
            producer.close()


def _outcome(error: TransactionError | None) -> Outcome:
    match error:
        case None:
            return Outcome.ENDED
        case TransactionAbortedError() | TransactionCommittedError():
            return Outcome.OTHERWISE
        case ProducerFencedError():
            return Outcome.FENCED
        case TransactionForgottenError():
            return Outcome.FORGOTTEN
    raise error


def timeout_error(error: BrokerError, timeout_ms: int) -> KafkaError:
    """Return what to raise for InitProducerId's error: the remedy, if the time-out is too long."""
    if error.code != INVALID_TRANSACTION_TIMEOUT:
        return error
    return ConfigError(
        f"the transaction time-out of {timeout_ms} ms is longer than the broker "
        "allows (transaction.max.timeout.ms): set kafka.transaction.timeout.ms to "
        "at most that, or have the broker's setting raised. It must be longer "
        "than a batch and the longest time that the driver may be away."
    )


class TopicJournal:
    """`Journal` in a compacted topic of one partition, made when it is first needed.

    `produce` are the options of the rows: an entry waits for its brokers as long as they do.
    """

    def __init__(
        self, client: Client, topic: str, timeout_ms: int, produce: ProduceOptions
    ) -> None:
        self._client, self._place, self._timeout_ms = client, TopicPartition(topic, 0), timeout_ms
        self._options = ProduceOptions(
            enable_idempotence=True,
            allow_auto_create_topics=False,
            delivery_timeout_ms=produce.delivery_timeout_ms,
            max_block_ms=max(produce.max_block_ms, produce.delivery_timeout_ms),
        )
        self._is_there = False
        self._refused: BrokerError | None = None

    def read(self) -> Newest:
        """Return the newest intent in front of a mark that is written now."""
        end = self._append(Mark())
        window = FIRST_LOOK
        while True:
            start = max(0, end - window)
            found = newest(self._entries(start, end))
            if found.intent is not None or start == 0:
                return found
            window *= 8

    def write(self, entry: Entry) -> None:
        """Write an entry for everybody to see."""
        self._append(entry)

    def decide(self, intent: Intent, transactional_id: str) -> None:
        """Write an intent in a transaction under the identity of its driver."""
        producer = self._client.transactions.producer(
            transactional_id, transaction_timeout_ms=self._timeout_ms, max_generation=1
        )
        try:
            producer.resume(*intent.by)
            producer.begin_transaction()
            producer.produce(self._place.topic, _record(intent), 0, self._options)
            producer.commit_transaction()
        finally:
            producer.close()

    def _append(self, entry: Entry) -> int:
        """Write an entry and return an offset that it and everything before it lies in front of."""
        if not self._is_there:
            self._make()
        try:
            result = self._client.produce(self._place.topic, _record(entry), 0, self._options)
        except BrokerError as error:
            if self._refused is not None:
                error.add_note(
                    f"The topic {self._place.topic} is needed for delivery=exactly-once and "
                    f"could not be made ({self._refused}). Have it made with one partition "
                    "and cleanup.policy=compact, and let this user write and read it."
                )
            raise
        self._is_there = True
        offset = result.partitions[self._place].base_offset
        if offset >= 0:
            return offset + 1
        # a repetition gets no offset
        return self._client.list_offsets({self._place: LATEST})[self._place].offset

    def _entries(self, start: int, end: int) -> Iterator[Entry]:
        options = FetchOptions(isolation_level="read_committed")
        first = (
            self._client.list_offsets({self._place: EARLIEST})[self._place].offset if start else 0
        )
        for batch in self._client.fetch(self._place, max(start, first), end, options):
            for value in batch.column("value").to_pylist():
                if value is not None:
                    yield decode(value)

    def _make(self) -> None:
        """Have the topic made unless it is there. Whoever may not make topics may still have it."""
        try:
            try:
                self._client.create_topics([NewTopic(self._place.topic, 1, -1, JOURNAL_CONFIGS)])
            except UnsupportedVersionError:
                replicas = min(REPLICAS_BEFORE_24, len(self._client.metadata([]).brokers))
                self._client.create_topics(
                    [NewTopic(self._place.topic, 1, replicas, JOURNAL_CONFIGS)]
                )
        except BrokerError as error:
            if error.code != TOPIC_ALREADY_EXISTS:
                self._refused = error


DONE_KEYS = 1024


def _record(entry: Entry) -> pa.RecordBatch:
    """Return an entry as a record whose key keeps, in compaction, the newest intent and Done.

    A driver that hung may write the Done of an older intent late. It has a key of its own, unless
    exactly so many batches were planned meanwhile.
    """
    key = type(entry).__name__.lower()
    if isinstance(entry, Done):
        key = f"{key}-{entry.by.epoch % DONE_KEYS}"
    return pa.record_batch({"key": [key], "value": [encode(entry)]})


@dataclass(frozen=True, slots=True)
class TransactionWriting:
    """`Writing` by a client: rows into a transaction that stays open when this returns."""

    client: Client
    timeout_ms: int
    topic: str | None
    produce: ProduceOptions

    def __call__(
        self, transactional_id: str, rows: Iterator[pa.RecordBatch]
    ) -> tuple[Identity, int]:
        """Return identity and number of rows, all acknowledged. An error aborts them."""
        producer = self.client.transactions.producer(
            transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            max_generation=1,
            options=self.produce,
        )
        with producer:
            producer.begin_transaction()
            written = producer.produce(self.topic, rows).records
            prepared = producer.prepare_transaction()
        return Identity(prepared.producer_id, prepared.producer_epoch), written
