"""One of two brokers that are asked the same about transactions,
and what it answered, masked where they must differ.

Producer ids, times and texts differ from cluster to cluster. A real broker says
CONCURRENT_TRANSACTIONS while it still writes markers, and NOT_ENOUGH_REPLICAS for it to old
producers: such an answer is asked for again, here as there, so that only final ones are compared.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from parley.messages import request_class
from parley.records import Record, WriteOptions, columns_from_records, encode_batches, split
from parley.schema import ApiKey
from parley.types import ZERO_UUID
from parley.versions import Release
from parley_laboratory.compare import plain
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

WITHIN_S = GENEROUS_S
BASE_MS = time.time_ns() // 1_000_000 - 60_000
"""The time of all records: not long ago, for a marker of today would begin a
new segment behind old ones.
"""
TIMES = {"transaction_start_time_ms", "last_timestamp", "log_append_time_ms"}
RETRIED = {14, 15, 16, 51}
"""Coordinator loading, not available, not this one yet; concurrent transactions."""
RETRIED_OF_PRODUCE = RETRIED | {19}
OFFSETS_TOPIC = "__consumer_offsets"
CLOSED = "closed"

Produce: Any = request_class(ApiKey.PRODUCE)
Fetch: Any = request_class(ApiKey.FETCH)
ListOffsets: Any = request_class(ApiKey.LIST_OFFSETS)
Metadata: Any = request_class(ApiKey.METADATA)
FindCoordinator: Any = request_class(ApiKey.FIND_COORDINATOR)
InitProducerId: Any = request_class(ApiKey.INIT_PRODUCER_ID)
AddPartitions: Any = request_class(ApiKey.ADD_PARTITIONS_TO_TXN)
AddOffsets: Any = request_class(ApiKey.ADD_OFFSETS_TO_TXN)
EndTxn: Any = request_class(ApiKey.END_TXN)
TxnOffsetCommit: Any = request_class(ApiKey.TXN_OFFSET_COMMIT)
OffsetCommit: Any = request_class(ApiKey.OFFSET_COMMIT)
OffsetFetch: Any = request_class(ApiKey.OFFSET_FETCH)
DescribeProducers: Any = request_class(ApiKey.DESCRIBE_PRODUCERS)
DescribeTransactions: Any = request_class(ApiKey.DESCRIBE_TRANSACTIONS)
ListTransactions: Any = request_class(ApiKey.LIST_TRANSACTIONS)


class Who(NamedTuple):
    """A transactional producer."""

    name: str
    producer_id: int
    epoch: int


def batch(who: Who, sequence: int, count: int = 1, *, transactional: bool = True) -> bytes:
    rows = [Record(i, BASE_MS + i, 0, b"k", b"v") for i in range(count)]
    options = WriteOptions(
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return b"".join(
        bytes(one.data)
        for one in encode_batches(columns_from_records(rows, with_offsets=False), None, options)
    )


def shape(value: Any) -> Any:
    """Return an answer as plain values; record sets as their batches' headers, markers whole."""
    if isinstance(value, list):
        kept = [one for one in value if getattr(one, "topic", None) != OFFSETS_TOPIC]
        for name in ("producer_id", "partition_index", "name"):  # Java's maps have no order
            if kept and hasattr(kept[0], name) and not hasattr(kept[0], "first_offset"):
                kept.sort(key=lambda one, name=name: getattr(one, name))
        return [shape(one) for one in kept]
    if isinstance(value, memoryview):
        return [
            (
                one.base_offset, one.last_offset, one.is_control, one.producer_epoch,
                bytes(value[one.start + 57 : one.end]) if one.is_control else b"",
            )
            for one in split(value)
        ]  # fmt: skip
    if not hasattr(type(value), "__slots__") or isinstance(value, bytes | str | int | float):
        return value
    found: dict[str, Any] = {}
    for name in type(value).__slots__:
        if name.startswith("_") or name in ("unknown_tagged_fields", "throttle_time_ms"):
            continue
        content = getattr(value, name)
        if name in TIMES:
            found[name] = content >= 0
        elif name == "timestamp":
            found[name] = "a marker's" if content > BASE_MS + 1_000 else content
        elif name in ("topic_id", "error_message", "host", "port", "producer_id"):
            found[name] = plain(value)[name]
        else:
            found[name] = shape(content)
    return found


def codes(value: Any) -> set[int]:
    """Return every error code of a shaped answer."""
    if isinstance(value, dict):
        own = {value[name] for name in ("error_code", "partition_error_code") if name in value}
        return own.union(*(codes(one) for one in value.values()))
    return set().union(*(codes(one) for one in value)) if isinstance(value, list) else set()


class Side:
    """One of the two brokers, and a topic, a group and transactional ids of its own on it."""

    def __init__(self, address: str, found: Release, topic: str) -> None:
        self.release, self.topic, self.group = found, topic, f"{topic}-group"
        self.log: list[Any] = []
        self.topic_id = ZERO_UUID
        self._address = address
        self._wire: Wire | None = None

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def newest(self, key: ApiKey) -> int:
        """Return the newest version of an API, -1 where the release has none."""
        served = self.release.ranges.get(int(key))
        return -1 if served is None else served.max

    def versions(self, key: ApiKey, below: int = 99) -> list[int]:
        """Return the versions of an API that the release has, below one."""
        served = self.release.ranges.get(int(key))
        return (
            [] if served is None else [version for version in served.versions() if version < below]
        )

    def ask(
        self,
        message: Any,
        version: int | None = None,
        *,
        note: bool = True,
        retried: set[int] = RETRIED,
    ) -> Any:
        """Send a request until its answer is final, keep that, return it; None when
        the connection is closed.
        """
        version = self.newest(message.API_KEY) if version is None else version
        deadline = time.monotonic() + WITHIN_S
        answer: Any = None
        while True:
            if self._wire is None:
                self._wire = Wire(self._address)
            try:
                answer = self._wire.ask(message, version)
            except ConnectionError:
                self.close()
                break
            if not codes(shape(answer)) & retried or time.monotonic() > deadline:
                break
            threading.Event().wait(0.02)
        if note:
            self.log.append(
                (type(message).__name__, version, CLOSED if answer is None else shape(answer))
            )
        return answer

    def make_topic(self) -> None:
        """Make the topic and the coordinators' topics by asking for them, and
        wait until all is there.
        """
        asked = Metadata(topics=[Metadata.MetadataRequestTopic(name=self.topic)])
        fresh = RETRIED | {3, 5, 6}
        self.topic_id = self.ask(asked, note=False, retried=fresh).topics[0].topic_id
        self.fetch(0, note=False, retried=fresh)
        for kind, key in ((0, self.group), (1, self.topic)):
            self.ask(
                FindCoordinator(key=key, key_type=kind),
                min(3, self.newest(ApiKey.FIND_COORDINATOR)),
                note=False,
            )

    # -- producers -----------------------------------------------------------------------------

    def name(self, suffix: str) -> str:
        return f"{self.topic}-{suffix}"

    def init(self, suffix: str = "tx", version: int | None = None, **fields: Any) -> Who:
        asked = InitProducerId(
            **{"transactional_id": self.name(suffix), "transaction_timeout_ms": 60_000, **fields}
        )
        found = self.ask(asked, version)
        return Who(self.name(suffix), found.producer_id, found.producer_epoch)

    def add(
        self, who: Who, version: int | None = None, *, partitions: Any = (0,), topics: Any = None
    ) -> Any:
        version = min(3, self.newest(ApiKey.ADD_PARTITIONS_TO_TXN)) if version is None else version
        named = [
            AddPartitions.AddPartitionsToTxnTopic(name=name, partitions=list(partitions))
            for name in topics or [self.topic]
        ]
        asked = AddPartitions(
            v3_and_below_transactional_id=who.name, v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.epoch, v3_and_below_topics=named,
        )  # fmt: skip
        return self.ask(asked, version)

    def add_batched(
        self, *whos: Who, version: int, verify: bool = False, partition: int = 0
    ) -> Any:
        topics = [AddPartitions.AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])]
        transactions = [
            AddPartitions.AddPartitionsToTxnTransaction(
                transactional_id=who.name, producer_id=who.producer_id, producer_epoch=who.epoch,
                verify_only=verify, topics=topics,
            )
            for who in whos
        ]  # fmt: skip
        return self.ask(AddPartitions(transactions=transactions), version)

    def produce(
        self,
        who: Who,
        sequence: int,
        version: int | None = None,
        *,
        name: str | None = "",
        **options: Any,
    ) -> Any:
        version = min(11, self.newest(ApiKey.PRODUCE)) if version is None else version
        partition = Produce.PartitionProduceData(index=0, records=batch(who, sequence, **options))
        where = {"topic_id": self.topic_id} if version >= 13 else {"name": self.topic}
        asked = Produce(
            transactional_id=who.name if name == "" else name, acks=-1, timeout_ms=5_000,
            topic_data=[Produce.TopicProduceData(**where, partition_data=[partition])],
        )  # fmt: skip
        return self.ask(asked, version, retried=RETRIED_OF_PRODUCE)

    def end(self, who: Who, *, commit: bool, version: int | None = None) -> Any:
        version = min(4, self.newest(ApiKey.END_TXN)) if version is None else version
        asked = EndTxn(
            transactional_id=who.name,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            committed=commit,
        )
        return self.ask(asked, version)

    # -- offsets of groups ---------------------------------------------------------------------

    def add_group(self, who: Who, version: int | None = None, group: str | None = None) -> Any:
        asked = AddOffsets(
            transactional_id=who.name, producer_id=who.producer_id, producer_epoch=who.epoch,
            group_id=self.group if group is None else group,
        )  # fmt: skip
        return self.ask(asked, version)

    def commit_offset(
        self,
        who: Who,
        offset: int,
        version: int | None = None,
        *,
        index: int = 0,
        metadata: str = "m",
        **of: Any,
    ) -> Any:
        version = min(4, self.newest(ApiKey.TXN_OFFSET_COMMIT)) if version is None else version
        one = TxnOffsetCommit.TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        topic = TxnOffsetCommit.TxnOffsetCommitRequestTopic(
            name=of.pop("topic", self.topic), partitions=[one]
        )
        asked = TxnOffsetCommit(
            **{"transactional_id": who.name, "group_id": self.group, **of},
            producer_id=who.producer_id, producer_epoch=who.epoch, topics=[topic],
        )  # fmt: skip
        return self.ask(asked, version)

    def plain_commit(self, offset: int) -> None:
        one = OffsetCommit.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommit.OffsetCommitRequestTopic(name=self.topic, partitions=[one])
        asked = OffsetCommit(group_id=self.group, generation_id_or_member_epoch=-1, topics=[topic])
        self.ask(asked, min(7, self.newest(ApiKey.OFFSET_COMMIT)))

    def offset_of_group(self, *, stable: bool, note: bool = True) -> Any:
        version = min(7, self.newest(ApiKey.OFFSET_FETCH))
        topic = OffsetFetch.OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])
        stable = stable and version >= 7
        answer = self.ask(
            OffsetFetch(group_id=self.group, topics=[topic], require_stable=stable),
            version,
            note=note,
        )
        return answer.topics[0].partitions[0]

    def offset_of_group_settles(self, offset: int) -> None:
        """Wait until the group has an offset: the marker may come later than EndTxn's answer."""
        self._until(
            lambda: self.offset_of_group(stable=True, note=False).committed_offset == offset
        )

    # -- readers -------------------------------------------------------------------------------

    def fetch(
        self, offset: int, version: int | None = None, *, note: bool = True, **of: Any
    ) -> Any:
        version = self.newest(ApiKey.FETCH) if version is None else version
        where = {"topic_id": self.topic_id} if version >= 13 else {"topic": self.topic}
        one = Fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
        retried = of.pop("retried", RETRIED)
        asked = Fetch(
            **{"max_wait_ms": 50, "min_bytes": 1, **of},
            topics=[Fetch.FetchTopic(**where, partitions=[one])],
        )
        return self.ask(asked, version, note=note, retried=retried)

    def offset(
        self, timestamp: int, isolation: int, version: int | None = None, *, note: bool = True
    ) -> int:
        one = ListOffsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsets.ListOffsetsTopic(name=self.topic, partitions=[one])
        asked = ListOffsets(replica_id=-1, isolation_level=isolation, topics=[topic])
        return int(self.ask(asked, version, note=note).topics[0].partitions[0].offset)

    def settles(self, last_stable_offset: int) -> None:
        """Wait until all records below an offset are decided: markers may come
        later than EndTxn's answer.
        """
        self._until(lambda: self.offset(-1, 1, note=False) == last_stable_offset)

    def ends_at(self, end_offset: int) -> None:
        """Wait until the log is that long."""
        self._until(lambda: self.offset(-1, 0, note=False) == end_offset)

    def read(self, offset: int = 0) -> None:
        """Look at the log as both kinds of readers do."""
        for isolation in (0, 1):
            self.fetch(offset, isolation_level=isolation)
            self.offset(-1, isolation)

    def describe(self, who: Who) -> Any:
        if self.newest(ApiKey.DESCRIBE_TRANSACTIONS) < 0:
            return None
        found = self.ask(
            DescribeTransactions(transactional_ids=[who.name]), note=False
        ).transaction_states[0]
        settled = not found.transaction_state.startswith("Prepare")
        if not settled:
            self._until(lambda: not self._state(who).startswith("Prepare"))
        return self.ask(DescribeTransactions(transactional_ids=[who.name]))

    def _state(self, who: Who) -> str:
        asked = DescribeTransactions(transactional_ids=[who.name])
        return str(self.ask(asked, note=False).transaction_states[0].transaction_state)

    def becomes(self, who: Who, state: str) -> None:
        """Wait until the coordinator knows a transaction in a state."""
        self._until(lambda: self._state(who) == state)

    def describe_producers(self) -> None:
        if self.newest(ApiKey.DESCRIBE_PRODUCERS) >= 0:
            topics = [DescribeProducers.TopicRequest(name=self.topic, partition_indexes=[0])]
            self.ask(DescribeProducers(topics=topics))

    def _until(self, found: Any) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not found():
            assert time.monotonic() < deadline, (
                f"{self.release.name} at {self._address} did not get there"
            )
            threading.Event().wait(0.02)
