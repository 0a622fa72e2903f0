"""Stored batches with fewer records: offsets and times stay, and what the header says of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from parley.errors import CorruptRecordError
from parley.records import (
    Record,
    WriteOptions,
    assign_offsets,
    columns_from_records,
    crc_is_right,
    decode_columns,
    delete_horizon,
    emptied,
    encode_batches,
    keyed_rows,
    layout,
    records,
    retain,
    split,
)

ROWS = [
    Record(
        n, 1000 - n, 0, b"k%d" % n, b"v" * n if n != 3 else None, (("h", b"x"),) if n == 4 else ()
    )
    for n in range(6)
]
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if codec < 4 or magic == 2]
BASE = 70
stamped = pytest.mark.parametrize("append_time_ms", [None, 5_000])


def stored(magic: int, codec: int, append_time_ms: int | None = None, **options: Any) -> bytes:
    """Return a batch as it lies in a log at offset 70, of an idempotent producer if it can be."""
    rows = ROWS if magic == 2 else [row._replace(headers=()) for row in ROWS]
    if magic == 2:
        options = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 40, **options}
    columns = columns_from_records(rows, with_offsets=False)
    (made,) = encode_batches(columns, None, WriteOptions(magic=magic, codec=codec, **options))
    return bytes(assign_offsets(bytearray(made.data), BASE, 3, append_time_ms))


def expected(magic: int, offsets: Collection[int], append_time_ms: int | None) -> list[Record]:
    found = []
    for row in ROWS:
        if BASE + row.offset in offsets:
            time_ms, kind = row.timestamp_ms, row.timestamp_type
            if append_time_ms is not None:
                time_ms, kind = append_time_ms, 1
            if magic == 0:
                time_ms = kind = -1
            headers = row.headers if magic == 2 else ()
            found.append(Record(BASE + row.offset, time_ms, kind, row.key, row.value, headers))
    return found


def read(data: bytes) -> list[Record]:
    chunks = decode_columns(data, first_offset=0)  # which looks at the CRC
    return [row for chunk in chunks for row in records(chunk.columns)]


@stamped
@pytest.mark.parametrize("kept", [{70}, {71, 73, 74}, {75}, {70, 71, 72, 73, 74, 75}])
@pytest.mark.parametrize(("magic", "codec"), [one for one in FORMATS if one[0] == 2 or one[1]])
def test_what_is_kept_keeps_its_offset_and_time(
    magic: int, codec: int, kept: set[int], append_time_ms: int | None
) -> None:
    data = retain(stored(magic, codec, append_time_ms), kept)
    assert read(data) == expected(magic, kept, append_time_ms)
    (batch,) = split(data)
    assert batch.codec == codec
    if magic == 2:
        assert (batch.base_offset, batch.last_offset, batch.record_count) == (70, 75, len(kept))
        assert (batch.producer_id, batch.base_sequence, batch.leader_epoch) == (7, 40, 3)
        times = [row.timestamp_ms for row in expected(2, kept, append_time_ms)]
        assert batch.max_timestamp_ms == max(times)
    else:
        assert batch.last_offset == max(kept), "a message is known by its last one"


def test_a_delete_horizon_stands_where_the_base_timestamp_did() -> None:
    before = stored(2, 1)
    dated = retain(before, {71, 73}, 123_456)
    assert (delete_horizon(before), delete_horizon(dated)) == (None, 123_456)
    assert read(dated) == expected(2, {71, 73}, None)
    again = retain(dated, {73}, 999_999)
    assert delete_horizon(again) == 123_456, "it stays"
    assert read(again) == expected(2, {73}, None)


@pytest.mark.parametrize("codec", range(5))
def test_an_emptied_batch_keeps_what_its_producer_wrote_last(codec: int) -> None:
    data = emptied(retain(stored(2, codec), {71}, 123_456))
    assert len(data) == layout.BATCH_HEADER_BYTES
    assert crc_is_right(data)
    (batch,) = split(data)
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (70, 75, 0)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 1, 40)
    assert (batch.codec, batch.max_timestamp_ms, delete_horizon(data)) == (0, 999, None)
    assert read(data) == []


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_keys_are_listed_with_whether_there_is_a_value(magic: int, codec: int) -> None:
    found = list(keyed_rows(stored(magic, codec)))
    assert [row.offset for row in found] == list(range(70, 76))
    assert [row.key for row in found] == [row.key for row in ROWS]
    assert [row.has_value for row in found] == [row.value is not None for row in ROWS]


def test_records_without_a_key_are_listed_too() -> None:
    rows = [Record(0, 1, 0, None, b"v"), Record(1, 1, 0, b"k", None)]
    (made,) = encode_batches(columns_from_records(rows), None, WriteOptions())
    assert [tuple(row) for row in keyed_rows(made.data)] == [(0, None, True), (1, b"k", False)]


def test_damaged_bytes_are_the_logs_fault() -> None:
    data = bytearray(stored(2, 1))
    data[layout.BATCH_HEADER_BYTES + 20 :] = bytes(len(data) - layout.BATCH_HEADER_BYTES - 20)
    for look in (lambda: list(keyed_rows(data)), lambda: retain(data, {70})):
        with pytest.raises(CorruptRecordError, match="70"):
            look()
