"""Batches for producing: bounds, selections, sequences, and what a format cannot hold."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from parley.errors import LocalProtocolError
from parley.records import (
    Columns,
    Record,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
    int32s,
    next_sequence,
    partition_keys,
    records,
    split,
    stamp_producer,
    var_column,
)

ROWS = [Record(n, 10**12 + n, 0, b"key %d" % n, b"v" * 50, (("h", None),)) for n in range(100)]


def values(data: Any) -> list[bytes | None]:
    return [
        row.key for chunk in decode_columns(data, first_offset=0) for row in records(chunk.columns)
    ]


def test_batches_are_bounded_and_together_hold_every_row() -> None:
    columns = columns_from_records(ROWS, with_offsets=False)
    for limit in (1, 100, 500, 5000, 10**6):
        for codec in range(5):
            batches = encode_batches(
                columns, None, WriteOptions(max_batch_bytes=limit, codec=codec)
            )
            assert [batch.start for batch in batches] == [
                0,
                *(batch.stop for batch in batches[:-1]),
            ]
            assert batches[-1].stop == 100
            assert [key for batch in batches for key in values(batch.data)] == [
                row.key for row in ROWS
            ]
            if codec == 0:
                assert all(len(batch.data) <= limit or batch.records == 1 for batch in batches)
                # No batch stops early: with its successor's first record it would be too large.
                wider = encode_batches(columns, None, WriteOptions(max_batch_bytes=limit + 90))
                assert len(wider) <= len(batches)


def test_offsets_count_from_zero_in_each_batch_unless_given() -> None:
    columns = columns_from_records(ROWS, with_offsets=False)
    made = encode_batches(columns, None, WriteOptions(max_records=40))
    assert [(b.base_offset, b.last_offset) for batch in made for b in split(batch.data)] == [
        (0, 39),
        (0, 39),
        (0, 19),
    ]
    made = encode_batches(columns_from_records(ROWS), None, WriteOptions(max_records=40))
    assert [(b.base_offset, b.last_offset) for batch in made for b in split(batch.data)] == [
        (0, 39),
        (40, 79),
        (80, 99),
    ]


def test_a_selection_picks_and_orders_rows() -> None:
    columns = columns_from_records(ROWS, with_offsets=False)
    picked = array("i", [99, 0, 50, 50])
    batches = encode_batches(columns, picked, WriteOptions(max_records=3))
    assert [(batch.start, batch.stop) for batch in batches] == [(0, 3), (3, 4)]
    assert values(batches[0].data) == [b"key 99", b"key 0", b"key 50"]
    assert encode_batches(columns, array("i"), WriteOptions()) == []
    assert encode_batches(Columns(0)) == []
    for row in (100, -1):
        with pytest.raises(LocalProtocolError, match="row"):
            encode_batches(columns, array("i", [row]))


def test_timestamps_are_the_columns_or_the_constant() -> None:
    (batch,) = encode_batches(
        Columns(2, value=var_column([b"a", b"b"])), None, WriteOptions(timestamp_ms=1234)
    )
    found = [
        row
        for chunk in decode_columns(batch.data, first_offset=0)
        for row in records(chunk.columns)
    ]
    assert [(row.timestamp_ms, row.key) for row in found] == [(1234, None), (1234, None)]
    assert batch.max_timestamp_ms == 1234


def test_sequences_count_on_and_wrap() -> None:
    columns = columns_from_records(ROWS, with_offsets=False)
    options = WriteOptions(
        producer_id=5, producer_epoch=1, base_sequence=2**31 - 50, max_records=40
    )
    batches = [split(batch.data)[0] for batch in encode_batches(columns, None, options)]
    assert [batch.base_sequence for batch in batches] == [2**31 - 50, 2**31 - 10, 30]
    assert next_sequence(2**31 - 1, 1) == 0


def test_a_producer_can_be_stamped_later() -> None:
    columns = columns_from_records(ROWS, with_offsets=False)
    stamp = {"producer_id": 2**40, "producer_epoch": 7, "base_sequence": 9}
    (late,) = encode_batches(columns)
    data = bytearray(late.data)
    stamp_producer(data, *stamp.values(), transactional=True)
    (early,) = encode_batches(columns, None, WriteOptions(transactional=True, **stamp))
    assert data == bytes(early.data)
    (old,) = encode_batches(Columns(1), None, WriteOptions(magic=1))
    with pytest.raises(LocalProtocolError, match="magic 2"):
        stamp_producer(bytearray(old.data), 1, 1, 1, transactional=False)


def test_old_formats_refuse_what_they_cannot_hold() -> None:
    columns = columns_from_records(ROWS)
    for magic in (0, 1):
        with pytest.raises(LocalProtocolError, match="headers need magic 2"):
            encode_batches(columns, None, WriteOptions(magic=magic))
        with pytest.raises(LocalProtocolError, match="codec"):
            encode_batches(Columns(1), None, WriteOptions(magic=magic, codec=4))
    with pytest.raises(LocalProtocolError, match="magic"):
        encode_batches(Columns(1), None, WriteOptions(magic=3))


def test_offsets_must_count_up() -> None:
    for magic in (0, 1, 2):
        rows = [Record(5, 0, 0, None, b""), Record(5, 0, 0, None, b"")]
        with pytest.raises(LocalProtocolError, match=r"row 1"):
            encode_batches(columns_from_records(rows), None, WriteOptions(magic=magic))


def test_partitions_of_keys() -> None:
    found = partition_keys(var_column([b"abc", None]), 1000, count=2)
    assert list(found) == [479470107 % 1000, -1]
    with pytest.raises(LocalProtocolError):
        partition_keys(var_column([b"abc"]), 0, count=1)
    assert list(int32s(array("i", [1, 2]))) == [1, 2]
