"""Offsets by time: the batch is found in the index, the record inside it (KIP-79, KIP-734)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from parley.devcluster.state.log.batches import Bytes, read_facts
from parley.devcluster.state.log.replica import Replica
from parley.records import ReadOptions, Want, decode_columns, int64s

OFFSETS_AND_TIMES = int(Want.OFFSETS | Want.TIMESTAMPS)


class FoundRecord(NamedTuple):
    """A record's offset, timestamp and leader epoch; -1 where there is none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def _records(replica: Replica, base_offset: int, data: Bytes) -> Iterator[FoundRecord]:
    facts = read_facts(data)
    epoch = (
        replica.epochs.epoch_at(base_offset)
        if facts is None or facts.magic < 2
        else facts.leader_epoch
    )
    if facts is not None and facts.is_control:  # a marker counts like a record, as brokers have it
        if facts.record_count:
            yield FoundRecord(facts.base_offset, facts.max_timestamp_ms, epoch)
        return
    options = ReadOptions(want=OFFSETS_AND_TIMES, check_crc=False)
    for chunk in decode_columns(data, first_offset=replica.log.start_offset, options=options):
        offsets, times = chunk.columns.offsets, chunk.columns.timestamps
        if offsets is not None and times is not None:
            for offset, timestamp in zip(int64s(offsets), int64s(times), strict=True):
                yield FoundRecord(offset, timestamp, epoch)


def first_at_time(replica: Replica, timestamp_ms: int) -> FoundRecord | None:
    """Return the first record at `timestamp_ms` or later, None when there is none."""
    for batch in replica.log.batches_at_time(timestamp_ms):
        for record in _records(replica, *batch):
            if record.timestamp_ms >= timestamp_ms:
                return record
    return None


def with_largest_time(replica: Replica) -> FoundRecord | None:
    """Return the first record with the largest timestamp of the log, None when the log is empty."""
    largest = replica.log.max_timestamp_ms
    return first_at_time(replica, largest) if largest >= 0 else None
