"""Offsets of produced messages of magic 0 and 1: counted from 0 again, with no message lost."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from parley.errors import CorruptRecordError
from parley.records import (
    Wrapper,
    check_batch,
    decode_columns,
    number_messages,
    offsets_of,
    records,
)

from ...real import message_sets

OFFSETS = st.integers(-(2**63), 2**63 - 1)
CODECS = st.sampled_from(list(message_sets.COMPRESSIONS.values()))


def sizes_in(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        found.append(12 + int.from_bytes(data[at + 8 : at + 12], "big"))
        at += found[-1]
    return found


def numbered(data: bytes) -> tuple[bytes, list[Wrapper]]:
    found, wrappers = number_messages(data, sizes_in(data))
    return bytes(found), wrappers


@given(
    st.integers(0, 1),
    st.lists(
        st.tuples(CODECS, OFFSETS, st.lists(OFFSETS, min_size=1, max_size=4)),
        min_size=1,
        max_size=4,
    ),
)
def test_every_message_keeps_its_place(magic: int, parts: list[tuple[int, int, list[int]]]) -> None:
    data = b"".join(
        message_sets.wrapped_set(magic, codec, wrapper, of)
        if codec
        else message_sets.plain_set(magic, of)
        for codec, wrapper, of in parts
    )
    found, wrappers = numbered(data)
    assert offsets_of(found) == list(range(sum(len(of) for _, _, of in parts)))
    rows = [
        row for chunk in decode_columns(found, first_offset=0) for row in records(chunk.columns)
    ]
    assert [row.value for row in rows] == message_sets.values_in(data)
    assert {row.timestamp_ms for row in rows} == {1_700_000_000_000 if magic else -1}
    assert check_batch(found).records == len(rows)
    inner = [(wrapper, of[0], of[-1]) for codec, wrapper, of in parts if codec]
    assert [(one.offset, one.first_inner, one.last_inner) for one in wrappers] == inner


def test_good_offsets_cost_no_compression() -> None:
    for codec in (1, 2, 3):
        data = message_sets.wrapped_set(1, codec, 2, (0, 1, 2))
        assert numbered(data) == (data, [Wrapper(1, 2, 0, 2, True)])
        moved = message_sets.wrapped_set(1, codec, -1, (0, 1, 2))
        assert numbered(moved)[0] == data


@pytest.mark.parametrize("magic", [0, 1])
def test_the_largest_offset_of_all_is_no_end(magic: int) -> None:
    """It is also the number that stands for no limit."""
    data = message_sets.wrapped_set(magic, 1, 0, (5, 2**63 - 1, 7))
    found, wrappers = numbered(data)
    assert offsets_of(found) == [0, 1, 2]
    assert wrappers == [Wrapper(magic, 0, 5, 7, False)]
    assert check_batch(found).records == 3


def test_both_formats_become_the_newer_one() -> None:
    found, _ = numbered(
        message_sets.plain_set(0, (-1, -1)) + message_sets.wrapped_set(1, 1, 7, (0, 1))
    )
    assert offsets_of(found) == [0, 1, 2, 3]
    assert check_batch(found).magic == 1


def test_the_given_bytes_stay_as_they_are() -> None:
    data = bytearray(message_sets.plain_set(1, (5, 5)))
    before = bytes(data)
    number_messages(data, sizes_in(before))
    assert data == before


def test_a_damaged_compressed_message_is_refused() -> None:
    with pytest.raises(CorruptRecordError):
        numbered(message_sets.message(b"no gzip", magic=1, offset=0, codec=1, key=None))
