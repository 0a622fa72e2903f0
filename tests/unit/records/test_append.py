"""The broker's side of Produce: checks, offsets, LogAppendTime; and conversions between formats."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from parley.errors import CorruptRecordError, UnsupportedVersionError
from parley.records import (
    Record,
    WriteOptions,
    assign_offsets,
    check_batch,
    columns_from_records,
    convert,
    decode_columns,
    encode_batches,
    needs_conversion,
    offsets_of,
    records,
    split,
)

from ...real import message_sets

ROWS = [Record(n, 1000 - n, 0, b"k%d" % n if n % 2 else None, b"v" * n) for n in range(6)]
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if codec < 4 or magic == 2]


def produced(magic: int, codec: int = 0, rows: list[Record] = ROWS, **options: Any) -> bytearray:
    """Return a record set as a client sends it: offsets from 0 on."""
    columns = columns_from_records(rows, with_offsets=False)
    (batch,) = encode_batches(columns, None, WriteOptions(magic=magic, codec=codec, **options))
    return bytearray(batch.data)


def read(data: Any, first: int = 0) -> list[Record]:
    return [
        row for chunk in decode_columns(data, first_offset=first) for row in records(chunk.columns)
    ]


# ── check ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_facts_of_a_good_record_set(magic: int, codec: int) -> None:
    checked = check_batch(produced(magic, codec))
    assert (checked.magic, checked.records) == (magic, 6)
    assert (checked.max_timestamp_ms, checked.max_timestamp_offset) == (
        (1000, 0) if magic else (-1, 0)
    )


def test_producer_facts() -> None:
    (batch,) = check_batch(
        produced(2, producer_id=9, producer_epoch=2, base_sequence=5, transactional=True)
    ).batches
    assert (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
    ) == (9, 2, 5, True)


def test_what_a_broker_refuses() -> None:
    good = produced(2)
    flipped = bytearray(good)
    flipped[-1] ^= 1
    gaps = encode_batches(columns_from_records([ROWS[0], ROWS[2]]))[0].data
    control = bytearray(good)
    control[22] |= 0x20
    for data, why in (
        (b"", "empty"),
        (good[:-1], "cut off"),
        (good + b"\0", "cut off"),
        (flipped, "CRC"),
        (good + good, "one batch"),
        (produced(1) + produced(0), "mixes formats"),
        (bytes(gaps), "count up by one"),
        (control, "control"),
    ):
        with pytest.raises(CorruptRecordError, match=why) as caught:
            check_batch(data, where=("t", 1))
        assert (caught.value.topic, caught.value.partition) == ("t", 1)


# ── offsets ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@pytest.mark.parametrize("append_time", [None, 777])
@pytest.mark.parametrize("base", [0, 100, 2**33])
def test_offsets_and_append_time(
    magic: int, codec: int, append_time: int | None, base: int
) -> None:
    stored = assign_offsets(produced(magic, codec), base, 5, append_time)
    found = read(stored, base)
    assert [row.offset for row in found] == list(range(base, base + 6))
    assert [(row.key, row.value) for row in found] == [(row.key, row.value) for row in ROWS]
    if magic == 0:
        assert {row.timestamp_type for row in found} == {-1}
    elif append_time is None:
        assert [(row.timestamp_ms, row.timestamp_type) for row in found] == [
            (1000 - n, 0) for n in range(6)
        ]
    else:
        assert {(row.timestamp_ms, row.timestamp_type) for row in found} == {(777, 1)}
    assert split(stored)[0].leader_epoch == (5 if magic == 2 else -1)
    assert split(stored)[-1].next_offset == base + 6


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_relative_offsets_keep_their_compressed_bytes(codec: int) -> None:
    """KIP-31: a magic-1 set only has its wrapper's offset set; absolute
    ones are compressed again.
    """
    sent = produced(1, codec)
    stored = assign_offsets(bytearray(sent), 50)
    assert bytes(stored)[8:] == bytes(sent)[8:]
    sent = produced(0, codec)
    assert bytes(assign_offsets(bytearray(sent), 50))[34:] != bytes(sent)[34:]


def test_a_wrapper_with_wrong_inner_offsets_is_written_again() -> None:
    wrapper = produced(1, 1)
    struct.pack_into(">q", wrapper, 0, 40)  # inner 0..5 now read as 35..40
    assert offsets_of(wrapper) == list(range(35, 41))
    assert offsets_of(assign_offsets(wrapper, 7)) == list(range(7, 13))


def test_several_sets_in_one_request() -> None:
    sent = produced(1, 1) + produced(1, 0)
    checked = check_batch(sent)
    assert (checked.records, len(checked.batches)) == (12, 2)
    assert offsets_of(assign_offsets(sent, 3)) == list(range(3, 15))


# ── conversion ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form != (2, 4)])
@pytest.mark.parametrize("to_magic", [0, 1, 2])
@pytest.mark.parametrize("append_time", [None, 777])
def test_conversion_keeps_offsets_and_codec(
    magic: int, codec: int, to_magic: int, append_time: int | None
) -> None:
    stored = assign_offsets(produced(magic, codec), 100, 3, append_time)
    converted = convert(stored, to_magic, upward=True)
    assert {batch.magic for batch in split(converted)} == {to_magic}
    assert {batch.codec for batch in split(converted)} == {codec}
    kind, times = 0, [1000 - n for n in range(6)]
    if append_time is not None and magic:
        kind, times = 1, [777] * 6
    if not magic:
        times = [-1] * 6
    if not to_magic:
        kind, times = -1, [-1] * 6
    elif not magic:
        kind = 0
    expected = [
        row._replace(offset=100 + n, timestamp_ms=times[n], timestamp_type=kind)
        for n, row in enumerate(ROWS)
    ]
    assert read(converted) == expected


def test_down_conversion_loses_headers_and_control_batches() -> None:
    rows = [row._replace(headers=(("h", b"x"),)) for row in ROWS]
    control = bytearray(
        encode_batches(columns_from_records([Record(6, 0, 0, b"\0\0\0\1", b"")]))[0].data
    )
    control[22] |= 0x20
    stored = bytes(produced(2, 1, rows)) + bytes(control) + bytes(assign_offsets(produced(1), 7))
    assert needs_conversion(stored, 1)
    assert not needs_conversion(stored, 2)
    converted = convert(stored, 1)
    assert [row.offset for row in read(converted)] == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]
    assert all(row.headers == () for row in read(converted))
    assert converted.endswith(bytes(assign_offsets(produced(1), 7)))


def test_down_conversion_leaves_older_formats_alone_and_trims_what_it_writes() -> None:
    old = bytes(assign_offsets(produced(0), 0))
    stored = old + bytes(assign_offsets(produced(2), 6)) + b"\0\0\0"
    converted = convert(stored, 1, first_offset=9)
    assert converted.startswith(old)
    assert [(batch.magic, batch.base_offset) for batch in split(converted)] == [(0, 0), (1, 9)]


def test_gaps_of_compaction_survive_conversion() -> None:
    rows = [ROWS[n]._replace(offset=offset) for n, offset in enumerate([5, 9, 2**31 + 9])]
    stored = b"".join(bytes(batch.data) for batch in encode_batches(columns_from_records(rows)))
    for codec in (0, 1):
        packed = b"".join(
            bytes(b.data)
            for b in encode_batches(columns_from_records(rows), None, WriteOptions(codec=codec))
        )
        for magic in (0, 1):
            assert offsets_of(convert(packed, magic)) == [5, 9, 2**31 + 9]
    assert offsets_of(convert(convert(stored, 0), 2, upward=True)) == [5, 9, 2**31 + 9]


def test_zstd_cannot_go_down() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"2\.1") as caught:
        convert(produced(2, 4), 1)
    assert caught.value.first_release == "2.1"


def test_offsets_up_to_the_last_of_all_are_compared() -> None:
    at = 2**63 - 2
    assert check_batch(message_sets.plain_set(1, (at, at))).records == 2
    assert check_batch(message_sets.plain_set(0, (at, at, at))).records == 3
