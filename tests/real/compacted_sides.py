"""One of two brokers that are asked the same about a compacted topic, and what its batches are.

Segments are closed by the records' time; in releases before 0.10.1, which go by their own, by size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from parley.messages import request_class
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
    layout,
    records,
    split,
)
from parley.schema import ApiKey
from parley.versions import Release

from .transaction_sides import RETRIED, Side, Who, codes, shape

FIRST_CREATION = (0, 10, 1)  # CreateTopics; and segments roll by the records' time
BACKOFF_MS = 200
"""`log.cleaner.backoff.ms` of the real brokers."""
HOUR_MS = 3_600_000
SEGMENT_MS = 240_000
SEGMENT_BYTES = 20_000
BEFORE_MS = 60_000
"""How long ago records were made; markers have the time of the broker, and begin no segment."""
FRESH = {3, 5, 6, 19}

AlterConfigs: Any = request_class(ApiKey.ALTER_CONFIGS)
FindCoordinator: Any = request_class(ApiKey.FIND_COORDINATOR)
Produce: Any = request_class(ApiKey.PRODUCE)


class Batch(NamedTuple):
    """What is compared of a batch: `producer` is a number by the order in which producers wrote."""

    base_offset: int
    last_offset: int
    records: list[Record]
    magic: int
    codec: int = 0
    max_timestamp_ms: int = 0
    base_timestamp_ms: int | None = None
    is_dated: bool = False
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False


class Compacted(Side):
    """A side with a compacted topic; `cleaned` waits until it was cleaned up to an offset.

    `now_ms` is about the time of the brokers, and the same for both sides.
    """

    def __init__(
        self,
        address: str,
        found: Release,
        topic: str,
        *,
        now_ms: int,
        cleaned: Callable[[int], None],
    ) -> None:
        super().__init__(address, found, topic)
        self._base_ms, self._latest_ms = now_ms - BEFORE_MS, now_ms - BEFORE_MS // 2
        self.end_offset = 0
        self.looks: list[list[Batch]] = []
        self._cleaned = cleaned
        self._rolled_ms = 0

    @property
    def by_time(self) -> bool:
        return self.release.number >= FIRST_CREATION

    def configs(self) -> dict[str, str]:
        by_time, by_size = ("segment.ms", str(SEGMENT_MS)), ("segment.bytes", str(SEGMENT_BYTES))
        rolls = dict([by_time if self.by_time else by_size])
        return {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", **rolls}

    def set_policy(self, policy: str) -> None:
        entries = [
            AlterConfigs.AlterableConfig(name=name, value=value)
            for name, value in {**self.configs(), "cleanup.policy": policy}.items()
        ]
        resource = AlterConfigs.AlterConfigsResource(
            resource_type=2, resource_name=self.topic, configs=entries
        )
        self.ask(AlterConfigs(resources=[resource], validate_only=False))

    # -- writing -------------------------------------------------------------------------------

    def write(
        self,
        pairs: Sequence[tuple[str, str | None]],
        *,
        at_ms: int = 0,
        who: Who | None = None,
        sequence: int = -1,
        **options: Any,
    ) -> None:
        """Write one batch; a producer's is of a transaction if it has a name."""
        rows = [
            Record(i, self._base_ms + at_ms + i, 0, key.encode(), value and value.encode())
            for i, (key, value) in enumerate(pairs)
        ]
        if who is not None:
            options |= {
                "producer_id": who.producer_id,
                "producer_epoch": who.epoch,
                "base_sequence": sequence,
                "transactional": bool(who.name),
            }
        options.setdefault("magic", self.release.record_magic)
        columns = columns_from_records(rows, with_offsets=False)
        made = encode_batches(columns, None, WriteOptions(**options))
        partition = Produce.PartitionProduceData(
            index=0, records=b"".join(bytes(one.data) for one in made)
        )
        asked = Produce(
            transactional_id=who.name or None if who is not None else None,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[Produce.TopicProduceData(name=self.topic, partition_data=[partition])],
        )
        answer = self.ask(asked, min(11, self.newest(ApiKey.PRODUCE)), retried=RETRIED | FRESH)
        assert codes(shape(answer)) == {0}
        self.end_offset += len(pairs)

    def find_coordinator(self) -> None:
        """Wait for the coordinator of transactions."""
        version = min(3, self.newest(ApiKey.FIND_COORDINATOR))
        self.ask(FindCoordinator(key=self.topic, key_type=1), version)

    def marker(self, who: Who, *, commit: bool) -> None:
        """End a transaction, and wait for its marker."""
        self.end(who, commit=commit)
        self.end_offset += 1
        self.ends_at(self.end_offset)

    def ends(self, who: Who, *, commit: bool) -> None:
        """The same of the last one that is open."""
        self.marker(who, commit=commit)
        self.settles(self.end_offset)

    # -- cleaning ------------------------------------------------------------------------------

    def roll(self, key: str) -> None:
        """Close the segment with a record that begins another one."""
        self._rolled_ms += 2 * SEGMENT_MS
        size = 10 if self.by_time else SEGMENT_BYTES - 60
        self.write([(key, "x" * size)], at_ms=self._rolled_ms)

    def clean(self, key: str = "last") -> None:
        """Close the segment, wait until it is cleaned, and look."""
        bound = self.end_offset
        self.roll(key)
        self.clean_up_to(bound)

    def clean_up_to(self, bound: int) -> None:
        """Wait until what lies below an offset is cleaned, and look."""
        self._cleaned(bound)
        found: list[Batch] = []
        producers: dict[int, int] = {-1: -1}
        offset = 0
        version = min(12, self.newest(ApiKey.FETCH))  # by name
        while offset < self.end_offset:  # an answer has records of one segment at most
            answer = self.fetch(offset, version, note=False)
            data = bytes(answer.responses[0].partitions[0].records)
            found += _batches(data, producers, self._latest_ms)
            offset = found[-1].last_offset + 1
        self.looks.append(found)


def _batches(data: bytes, producers: dict[int, int], latest_ms: int) -> Iterator[Batch]:
    """Yield the batches; times later than that are hidden."""
    for one in split(data):
        part = memoryview(data)[one.start : one.end]
        is_hidden = one.is_control or one.max_timestamp_ms > latest_ms or one.timestamp_type == 1
        rows = _rows(part, one.is_control, one.max_timestamp_ms, latest_ms)
        if one.magic < 2 and not one.codec:  # messages of their own
            yield from (Batch(row.offset, row.offset, [row], one.magic) for row in rows)
            continue
        fields = layout.BATCH_HEADER.unpack_from(part, 0) if one.magic == 2 else [0] * 13
        is_dated = bool(fields[5] & layout.DELETE_HORIZON)
        yield Batch(
            one.base_offset if one.magic == 2 else rows[0].offset,
            one.last_offset,
            rows,
            one.magic,
            one.codec,
            0 if is_hidden else one.max_timestamp_ms,
            None if is_dated or is_hidden else fields[7],
            is_dated,
            producers.setdefault(one.producer_id, len(producers) - 1),
            one.producer_epoch,
            one.base_sequence,
            one.is_transactional,
            one.is_control,
        )


def _rows(part: memoryview, is_control: bool, newest_ms: int, latest_ms: int) -> list[Record]:
    """Return a batch's records, late times hidden; of markers only how many there are."""
    if is_control:
        count = layout.BATCH_HEADER.unpack_from(part, 0)[12]
        return [Record(n, 0, 0, None, None) for n in range(count)]
    found = [
        one for chunk in decode_columns(part, first_offset=0) for one in records(chunk.columns)
    ]
    if any(one.timestamp_type == 1 for one in found):
        assert {one.timestamp_ms for one in found} == {newest_ms}
        latest_ms = 0
    return [
        one._replace(
            timestamp_ms=min(one.timestamp_ms, latest_ms), value=one.value and one.value[:50]
        )
        for one in found
    ]
