"""Primitive types: what is written is read back, and foreign bytes cause
RemoteProtocolError only.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.wire import (
    Cursor,
    WriteBuffer,
    decode_unsigned_varint,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
)


def integers(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    return (
        st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        if signed
        else st.integers(0, (1 << bits) - 1)
    )


TEXT = st.text(max_size=200).filter(
    lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text)
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int8": integers(8),
    "int16": integers(16),
    "int32": integers(32),
    "int64": integers(64),
    "uint16": integers(16, signed=False),
    "uint32": integers(32, signed=False),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "uuid": st.binary(min_size=16, max_size=16),
    "unsigned_varint": integers(32, signed=False),
    "varint": integers(32),
    "varlong": integers(64),
    "string": TEXT,
    "nullable_string": st.none() | TEXT,
    "compact_string": TEXT,
    "compact_nullable_string": st.none() | TEXT,
    "bytes": st.binary(max_size=3000),
    "nullable_bytes": st.none() | st.binary(max_size=300),
    "compact_bytes": st.binary(max_size=3000),
    "compact_nullable_bytes": st.none() | st.binary(max_size=300),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_is_written_is_read_back(kind: str, data: st.DataObject) -> None:
    value = data.draw(KINDS[kind])
    buffer = WriteBuffer()
    getattr(buffer, f"write_{kind}")(value)
    buffer.write_int16(-2)
    cursor = Cursor(buffer.getvalue())
    assert getattr(cursor, f"read_{kind}")() == value
    assert cursor.read_int16() == -2
    assert cursor.remaining() == 0


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_cut_off_bytes_raise_the_remote_error(kind: str, data: st.DataObject) -> None:
    buffer = WriteBuffer()
    getattr(buffer, f"write_{kind}")(data.draw(KINDS[kind]))
    written = buffer.getvalue()
    cut = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(RemoteProtocolError):
        getattr(Cursor(written[:cut]), f"read_{kind}")()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(kind: str, data: bytes) -> None:
    cursor = Cursor(data)
    try:
        getattr(cursor, f"read_{kind}")()
    except RemoteProtocolError:
        return
    assert 0 <= cursor.pos <= len(data)


# The numbers that the protocol guide and Java's ByteUtils give, as bytes written out by hand.
@pytest.mark.parametrize(
    ("write", "value", "expected"),
    [
        (encode_unsigned_varint, 0, "00"),
        (encode_unsigned_varint, 127, "7f"),
        (encode_unsigned_varint, 128, "8001"),
        (encode_unsigned_varint, 300, "ac02"),
        (encode_unsigned_varint, 16383, "ff7f"),
        (encode_unsigned_varint, 16384, "808001"),
        (encode_unsigned_varint, 0xFFFFFFFF, "ffffffff0f"),
        (encode_varint, 0, "00"),
        (encode_varint, -1, "01"),
        (encode_varint, 1, "02"),
        (encode_varint, 63, "7e"),
        (encode_varint, -64, "7f"),
        (encode_varint, 64, "8001"),
        (encode_varint, -65, "8101"),
        (encode_varint, 2**31 - 1, "feffffff0f"),
        (encode_varint, -(2**31), "ffffffff0f"),
        (encode_varlong, 2**63 - 1, "feffffffffffffffff01"),
        (encode_varlong, -(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints_by_hand(write: Callable[[int], bytes], value: int, expected: str) -> None:
    assert write(value).hex() == expected


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("unsigned_varint", "8000"),  # longer than its value needs
        ("unsigned_varint", "ff00"),
        ("unsigned_varint", "ffffffff1f"),  # 33 bits
        ("unsigned_varint", "ffffffff7f"),
        ("unsigned_varint", "ffffffffff01"),  # six bytes
        ("varint", "ffffffff1f"),
        ("varlong", "ffffffffffffffffff02"),  # 65 bits
        ("varlong", "ffffffffffffffffffff01"),
        ("varlong", "80808080808080808000"),
    ],
)
def test_overlong_and_oversized_varints_are_refused(kind: str, data: str) -> None:
    with pytest.raises(RemoteProtocolError, match="byte 0"):
        getattr(Cursor(bytes.fromhex(data)), f"read_{kind}")()


def test_varint_says_where_the_input_ended() -> None:
    with pytest.raises(RemoteProtocolError, match="byte 1 is cut off after 2 bytes"):
        decode_unsigned_varint(b"\x00\xff\xff", 1)


@pytest.mark.parametrize(
    ("write", "value"),
    [
        ("int8", 128),
        ("int16", -32769),
        ("int32", 2**31),
        ("int64", 2**63),
        ("uint16", -1),
        ("uint32", 2**32),
        ("int32", 1.5),
        ("int32", None),
        ("unsigned_varint", -1),
        ("unsigned_varint", 2**32),
        ("varint", 2**31),
        ("varlong", -(2**63) - 1),
        ("uuid", b"short"),
        ("string", "\ud800"),
        ("string", "x" * 32768),
        ("compact_string", "é" * 16384),
    ],
)
def test_values_that_do_not_fit_raise_the_local_error(write: str, value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        getattr(WriteBuffer(), f"write_{write}")(value)


def test_longest_string_is_written_in_both_forms() -> None:
    for kind in ("string", "compact_string"):
        buffer = WriteBuffer()
        getattr(buffer, f"write_{kind}")("x" * 32767)
        assert getattr(Cursor(buffer.getvalue()), f"read_{kind}")() == "x" * 32767


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("string", b"\xff\xff"),
        ("string", b"\xff\xfe"),
        ("nullable_string", b"\xff\xfe"),
        ("compact_string", b"\x00"),
        ("compact_string", b"\x81\x80\x02" + bytes(32768)),
        ("bytes", b"\xff\xff\xff\xff"),
        ("nullable_bytes", b"\xff\xff\xff\xfe"),
        ("compact_bytes", b"\x00"),
        ("string", b"\x00\x01\xff"),
        ("string", b"\x00\x03\xed\xa0\x80"),
    ],
)
def test_impossible_lengths_and_texts_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        getattr(Cursor(data), f"read_{kind}")()


@pytest.mark.parametrize("count", [2**31 - 1, -2, -(2**31), 4])
def test_counts_are_compared_with_what_is_left(count: int) -> None:
    with pytest.raises(RemoteProtocolError, match="claims"):
        Cursor(struct.pack(">i", count) + bytes(30)).read_array_count(8)
    assert Cursor(struct.pack(">i", 3) + bytes(30)).read_array_count(8) == 3
    assert Cursor(b"\xff\xff\xff\xff").read_array_count(8) == -1
    assert Cursor(b"\x00").read_compact_array_count(8) == -1
    with pytest.raises(RemoteProtocolError, match="claims"):
        Cursor(b"\xff\xff\xff\xff\x0f" + bytes(30)).read_compact_array_count()


@pytest.mark.parametrize(
    "kind", ["string", "compact_string", "bytes", "compact_bytes", "array_count", "tagged_fields"]
)
@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\xfe\xff\xff\xff\x0f"])
def test_huge_lengths_allocate_nothing(kind: str, data: bytes) -> None:
    cursor = Cursor(data)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            getattr(cursor, f"read_{kind}")()
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_byte_sequences_are_views_of_the_input() -> None:
    data = bytearray(b"\x00\x00\x00\x03abc")
    taken = Cursor(data).read_bytes()
    data[4:] = b"xyz"
    assert bytes(taken) == b"xyz"


def test_cursor_takes_views_of_other_formats() -> None:
    assert Cursor(memoryview(struct.pack(">2i", 1, 2)).cast("i")).read_int32() == 1


def test_large_payloads_are_kept_by_reference() -> None:
    payload = memoryview(bytes(5000))
    buffer = WriteBuffer()
    buffer.write_int32(1)
    buffer.write_bytes([payload, b"small", payload])
    buffer.write_int32(2)
    segments = buffer.segments()
    assert [segment is payload for segment in segments] == [False, True, False, True, False]
    assert len(buffer) == sum(len(segment) for segment in segments) == 4 + 4 + 10005 + 4
    assert buffer.getvalue() == b"".join(segments)
    assert segments == buffer.segments()


def test_changing_a_bytearray_later_changes_nothing() -> None:
    payload = bytearray(b"a" * 5000)
    buffer = WriteBuffer()
    buffer.write_raw(payload)
    payload[:] = b"b" * 5000
    assert buffer.getvalue() == b"a" * 5000


def test_lengths_can_be_filled_in_later() -> None:
    buffer = WriteBuffer()
    outer = buffer.reserve_int32()
    buffer.write_raw(bytes(2000))
    inner = buffer.reserve_int32()
    buffer.patch_int32(inner, 7)
    buffer.patch_int32(outer, len(buffer))
    assert buffer.getvalue() == struct.pack(">i", 2008) + bytes(2000) + struct.pack(">i", 7)


@given(st.dictionaries(integers(31, signed=False), st.binary(max_size=20), max_size=5))
def test_tagged_fields_are_read_back(fields: dict[int, bytes]) -> None:
    buffer = WriteBuffer()
    buffer.write_tagged_fields(fields)
    read = Cursor(buffer.getvalue()).read_tagged_fields()
    assert read == fields
    assert list(read) == sorted(fields)


@pytest.mark.parametrize("data", ["0200000000", "0201000000", "010005aa", "02010000", "ffffffff0f"])
def test_tagged_fields_out_of_order_repeated_or_cut_are_refused(data: str) -> None:
    with pytest.raises(RemoteProtocolError):
        Cursor(bytes.fromhex(data)).read_tagged_fields()
