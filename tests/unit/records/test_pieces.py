"""Reading batches of very many records: in pieces, and none of them before all were looked at."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from parley.errors import CorruptRecordError
from parley.records import (
    ReadOptions,
    check_batch,
    convert,
    decode_columns,
    offsets_of,
    records,
    split,
)
from parley.records.pieces import MAX_SPAN_ROWS
from parley_laboratory.hostile.record_shapes import TRANSACTIONAL, batch, record

ROWS = 150_000


def counted(count: int, *, base: int = 0, codec: int = 0) -> bytes:
    """Return a batch of records whose offsets count up."""
    return batch(b"".join(record(i) for i in range(count)), count, base=base, codec=codec)


@pytest.fixture(scope="module", params=[0, 1, 2, 3, 4])
def large(request: pytest.FixtureRequest) -> bytes:
    return counted(ROWS, base=10, codec=request.param)


def chunks(data: bytes, **options: int) -> Iterator[tuple[list[int], int]]:
    for chunk in decode_columns(
        data, first_offset=options.pop("first_offset", 0), options=ReadOptions(**options)
    ):
        yield [row.offset for row in records(chunk.columns)], chunk.next_offset


def test_a_large_batch_comes_in_chunks(large: bytes) -> None:
    data = counted(10) + large + counted(10, base=10 + ROWS)
    found = list(chunks(data))
    assert [offset for some, _ in found for offset in some] == list(range(ROWS + 20))
    assert max(len(some) for some, _ in found) == MAX_SPAN_ROWS
    assert [after for _, after in found] == [some[-1] + 1 for some, _ in found]


def test_chunks_are_as_small_as_asked_for(large: bytes) -> None:
    assert {len(some) for some, _ in list(chunks(large, max_rows=2_000))[:-1]} == {2_000}


def test_what_lies_before_the_position_gives_no_chunks(large: bytes) -> None:
    found = list(chunks(large, first_offset=10 + ROWS - 5))
    assert found == [(list(range(ROWS + 5, ROWS + 10)), ROWS + 10)]


def test_damage_behind_is_found_before_the_first_chunk() -> None:
    body = b"".join(record(i) for i in range(ROWS - 1)) + b"\x00" * len(record(ROWS - 1))
    found, data = [], counted(10) + batch(body, ROWS, base=10)
    with pytest.raises(CorruptRecordError, match=rf"offset 10: malformed.*record {ROWS - 1}"):
        found.extend(chunks(data))
    assert [offset for some, _ in found for offset in some] == list(range(10))


def test_a_count_that_lies_is_found() -> None:
    lying = bytearray(batch(record(), 1))
    struct.pack_into(">i", lying, 57, 2**31 - 1)
    with pytest.raises(CorruptRecordError, match="count: "):
        list(decode_columns(bytes(lying), first_offset=0, options=ReadOptions(check_crc=False)))


def test_brokers_check_and_convert_large_batches(large: bytes) -> None:
    facts = check_batch(large)
    assert (facts.records, facts.max_timestamp_ms, facts.max_timestamp_offset) == (ROWS, 0, 0)
    if split(large)[0].codec != 4:
        older = convert(large, 1)
        assert offsets_of(older) == offsets_of(large) == list(range(10, ROWS + 10))


def test_offsets_that_do_not_count_up_are_found_in_the_last_piece() -> None:
    body = b"".join(record(i) for i in range(ROWS - 1)) + record(ROWS - 2)
    with pytest.raises(CorruptRecordError, match="do not count up"):
        check_batch(batch(body, ROWS))


def test_the_largest_timestamp_may_be_in_any_piece() -> None:
    late = bytearray(record(ROWS - 1))
    late[2] = 2 * 5  # a timestamp of 5
    body = b"".join(record(i) for i in range(ROWS - 1)) + bytes(late) + record(ROWS)
    facts = check_batch(batch(body, ROWS + 1))
    assert (facts.max_timestamp_ms, facts.max_timestamp_offset) == (5, ROWS - 1)


def test_a_control_batch_of_many_records_is_none() -> None:
    data = batch(
        b"".join(record(i) for i in range(5_000)), 5_000, flags=TRANSACTIONAL | 0x20, producer=7
    )
    with pytest.raises(CorruptRecordError, match="too many"):
        list(decode_columns(data, first_offset=0, aborted=[(7, 0)]))
