"""The compiled kernel against the reference: equal buffers, and equal error
kinds, over the whole domain.
"""

from __future__ import annotations

import random
import struct
from array import array
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from parley.kernel import reference
from parley.kernel.contract import (
    NO_OFFSET_LIMIT,
    DecodeOptions,
    EncodeOptions,
    KernelError,
    ScanOptions,
    Want,
    span_table,
)
from parley.records.columns import Record, columns_from_records, var_column

native = pytest.importorskip(
    "parley.kernel.native", reason="the compiled kernel is not built", exc_type=ImportError
)

CODECS = {0: range(4), 1: range(4), 2: range(5)}


def plain(value: Any) -> Any:
    """Return a result with every buffer as bytes, so that results compare."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if is_dataclass(value):
        return tuple(plain(getattr(value, field.name)) for field in fields(value))
    return value


def outcome(call: Any, *arguments: Any) -> Any:
    """Return what a call gives, or what its error says: kind, span and record."""
    try:
        return plain(call(*arguments))
    except KernelError as error:
        return error.kind, error.span, error.record


def both(name: str, *arguments: Any) -> Any:
    """Call both kernels, demand equal outcomes, return the outcome."""
    ours, theirs = (outcome(getattr(kernel, name), *arguments) for kernel in (native, reference))
    assert ours == theirs
    return ours


@given(st.lists(st.none() | st.binary(max_size=40) | st.sampled_from([b"v" * 8192, "text", 7])))
def test_columns_of_lists(values: list[Any]) -> None:
    both("bytes_column", values)


# ── the domain ───────────────────────────────────────────────────────────────

BYTES = (
    st.none()
    | st.sampled_from([b"", b"k", b"v" * 63, b"v" * 64, b"w" * 8192])
    | st.binary(max_size=40)
)
EDGES = [
    -(2**63),
    -(2**63) + 1,
    -(2**31) - 1,
    -(2**31),
    -1,
    0,
    1,
    63,
    64,
    2**31 - 1,
    2**31,
    2**62,
    2**63 - 1,
]
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.sampled_from(EDGES) | st.integers(1_700_000_000_000, 1_700_000_100_999) | INT64
HEADER = st.tuples(
    st.sampled_from(["", "h", "trace", "ключ"]) | st.text(max_size=5),
    st.none() | st.binary(max_size=9),
)
HEADERS = st.just(()) | st.lists(HEADER, max_size=4).map(tuple)


@st.composite
def record_lists(draw: Any, headers: bool = True, min_size: int = 1) -> list[Record]:
    """Draw records with growing offsets: compacted gaps, bases at the edges of int32 and int64."""
    base = draw(
        st.sampled_from([0, 1, 127, 2**31 - 3, 2**31, 2**32, 2**62]) | st.integers(0, 2**62)
    )
    gaps = draw(
        st.lists(
            st.sampled_from([1, 1, 1, 1, 2, 63, 64, 8192, 2**30]), min_size=min_size, max_size=12
        )
    )
    found, offset = [], base
    for gap in gaps:
        kind = HEADERS if headers else st.just(())
        found.append(Record(offset, draw(TIMESTAMPS), 0, draw(BYTES), draw(BYTES), draw(kind)))
        offset += gap
    return found


@st.composite
def batches(draw: Any) -> bytes:
    """Draw one batch of any format and codec, as the reference writes it."""
    magic = draw(st.sampled_from([0, 1, 2, 2, 2]))
    codec = draw(st.sampled_from(CODECS[magic]))
    rows = draw(record_lists(headers=magic == 2))
    options = EncodeOptions(
        magic=magic,
        codec=codec,
        log_append_time_ms=draw(st.none() | TIMESTAMPS),
        leader_epoch=draw(st.integers(-1, 2**31 - 1)),
        transactional=draw(st.booleans()),
    )
    return bytes(reference.encode(columns_from_records(rows), None, 0, options).data)


@st.composite
def decode_options(draw: Any) -> DecodeOptions:
    """Draw ranges, columns and limits."""
    bounds = st.sampled_from([0, 1, 5, 128, 2**31 - 2, 2**31, 2**32 + 1, 2**62 + 2])
    return DecodeOptions(
        first_offset=draw(st.just(0) | bounds),
        end_offset=draw(st.just(NO_OFFSET_LIMIT) | bounds),
        want=draw(st.just(int(Want.ALL)) | st.integers(0, 63)),
        timestamp_scale=draw(st.sampled_from([1, 1000])),
        check_crc=draw(st.booleans()),
        max_rows=draw(st.sampled_from([1, 5, 20, 2**31 - 1])),
        max_bytes=draw(st.sampled_from([1, 500, 20_000, 2**31 - 1])),
        max_batch_bytes=draw(st.sampled_from([0, 1, 100, 10_000])),
        max_span_rows=draw(st.sampled_from([0, 1, 5, 2**31 - 1, 2**31 - 1])),
    )


def spans_of(parts: list[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the parts as one buffer and where each stands; runs of plain
    messages as the scan cuts them.
    """
    data, spans = b"", []
    for part in parts:
        at = len(data)
        data += part
        while at < len(data):
            run = reference.scan_legacy(data, at, 3)
            end = run.end if run else len(data)
            spans.append((at, end))
            at = end
    return data, spans


# ── the properties ───────────────────────────────────────────────────────────


@given(record_lists(), st.booleans())
def test_hashes_of_records(rows: list[Record], timed: bool) -> None:
    columns = columns_from_records(rows)
    both("record_hashes", columns if timed else replace(columns, timestamps=None))


@given(st.lists(batches(), max_size=5), decode_options())
def test_decode_gives_equal_columns(parts: list[bytes], options: DecodeOptions) -> None:
    data, spans = spans_of(parts)
    both("decode", data, span_table(spans), options)


@given(st.data())
def test_encode_gives_equal_batches_uncompressed(data: Any) -> None:
    magic = data.draw(st.sampled_from([0, 1, 2, 2]))
    rows = data.draw(record_lists(headers=magic == 2, min_size=0))
    columns = columns_from_records(rows, with_offsets=data.draw(st.booleans()))
    selection = data.draw(st.none() | st.lists(st.integers(-1, len(rows)), max_size=9))
    picked = None if selection is None else struct.pack(f"<{len(selection)}i", *selection)
    options = EncodeOptions(
        magic=magic,
        max_bytes=data.draw(st.sampled_from([0, 1, 100, 1000, 2**31 - 1])),
        max_records=data.draw(st.sampled_from([1, 3, 2**31 - 1])),
        base_offset=data.draw(st.sampled_from([0, 7, 2**40])),
        timestamp_ms=data.draw(TIMESTAMPS),
        log_append_time_ms=data.draw(st.none() | TIMESTAMPS),
        leader_epoch=data.draw(st.integers(-(2**31), 2**31 - 1)),
        producer_id=data.draw(st.integers(-(2**63), 2**63 - 1)),
        producer_epoch=data.draw(st.integers(-(2**15), 2**15 - 1)),
        base_sequence=data.draw(st.integers(-(2**31), 2**31 - 1)),
        transactional=data.draw(st.booleans()),
    )
    both("encode", columns, picked, data.draw(st.integers(-1, 3)), options)


COMPRESSED = st.sampled_from(
    [(magic, codec) for magic in CODECS for codec in CODECS[magic] if codec]
)


@given(record_lists(), COMPRESSED, st.none() | st.integers(-3, 25))
def test_each_kernel_reads_what_the_other_compresses(
    rows: list[Record], form: tuple[int, int], level: int | None
) -> None:
    magic, codec = form
    rows = rows if magic == 2 else [row._replace(headers=()) for row in rows]
    columns = columns_from_records(rows)
    options = EncodeOptions(magic=magic, codec=codec, level=level)
    made = [outcome(kernel.encode, columns, None, 0, options) for kernel in (native, reference)]
    if isinstance(made[0][0], str):  # a level that the codec does not have
        assert made[0] == made[1] == ("argument", -1, -1)
        return
    # how far the batch goes: offsets may be too far apart for one
    assert made[0][1:] == made[1][1:]
    decoded = [
        both("decode", data, span_table([(0, len(data))]), DecodeOptions()) for data, *_ in made
    ]
    assert decoded[0] == decoded[1]
    assert decoded[0][0][0] == made[0][1]


@given(
    st.binary(max_size=5000) | st.sampled_from([bytes(100_000), bytes(range(256)) * 300]),
    st.integers(0, 5),
)
@example(b"", 3)
def test_codecs_round_trip_across(raw: bytes, codec: int) -> None:
    for magic in (0, 1, 2):
        for writer in (native, reference):
            packed = outcome(writer.compress, codec, raw, None, magic)
            if codec == 5:
                assert packed == ("codec", -1, -1)
                continue
            assert both("decompress", codec, packed, len(raw), magic) == raw
            if codec and raw:
                assert both("decompress", codec, packed, len(raw) - 1, magic) == (
                    "too large",
                    -1,
                    -1,
                )


@given(st.lists(st.none() | st.binary(max_size=40), max_size=30), st.integers(1, 2**31 - 1))
def test_partitions_are_equal(keys: list[bytes | None], partitions: int) -> None:
    both("murmur2_partitions", var_column(keys), None, len(keys), partitions)


@given(st.lists(st.integers(-1, 12), max_size=60), st.integers(-1, 12))
@example([0], 0)
@example([], -1)
@example([], 2**31)
def test_rows_are_grouped_alike(targets: list[int], partitions: int) -> None:
    both("group_rows", array("i", targets).tobytes(), partitions)


@given(st.binary(max_size=300))
def test_checksums_are_equal(raw: bytes) -> None:
    both("crc32c", raw)
    both("crc32", raw)


# ── damaged bytes ────────────────────────────────────────────────────────────


def repair(data: bytearray) -> None:
    """Make the checksum of a single batch or message true again, so that what
    lies behind it is read.
    """
    if len(data) > 61 and data[16] == 2:
        struct.pack_into(">I", data, 17, reference.crc32c(data[21:]))
    elif len(data) > 17:
        struct.pack_into(">I", data, 12, reference.crc32(data[16:]))


DAMAGE = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255),
    ),
    max_size=4,
)


@given(batches(), DAMAGE, st.booleans(), st.floats(0, 1), decode_options())
def test_damaged_batches_fail_alike(
    batch: bytes,
    damage: list[tuple[float, int]],
    repaired: bool,
    cut: float,
    options: DecodeOptions,
) -> None:
    data = bytearray(batch if cut > 0.5 else batch[: int(len(batch) * 2 * cut)])
    for where, byte in damage:
        if data:
            data[int(where * len(data))] = byte
    if repaired:
        if len(data) > 12 and cut <= 0.5:
            struct.pack_into(">i", data, 8, len(data) - 12)
        repair(data)
    both("decode", bytes(data), span_table([(0, len(data))]), options)


@given(batches(), DAMAGE, st.booleans(), decode_options(), st.integers(0, 5))
def test_batches_are_cut_alike(
    batch: bytes, damage: list[tuple[float, int]], repaired: bool, options: DecodeOptions, most: int
) -> None:
    data = bytearray(batch)
    for where, byte in damage:
        data[int(where * len(data))] = byte
    if repaired:
        repair(data)
    both("cut_batch", bytes(data), 0, len(data), options, most)


@given(batches(), DAMAGE, st.integers(1, 4))
def test_scans_of_damaged_messages_are_equal(
    batch: bytes, damage: list[tuple[float, int]], most: int
) -> None:
    data = bytearray(batch + batch)
    for where, byte in damage:
        data[int(where * len(data))] = byte
    both("scan_legacy", bytes(data), 0, most)


@given(st.lists(batches(), max_size=6), DAMAGE, st.data())
def test_scans_of_batches_are_equal(
    parts: list[bytes], damage: list[tuple[float, int]], data: Any
) -> None:
    raw = bytearray(b"".join(parts))
    for where, byte in damage:
        if raw:
            raw[int(where * len(raw))] = byte
    edges = st.sampled_from([-1, 0, 5, 128, 2**31, 2**62, NO_OFFSET_LIMIT])
    pairs = data.draw(
        st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0, 1, 100, 2**40])), max_size=4)
    )
    options = ScanOptions(
        position=data.draw(edges),
        end_offset=data.draw(edges),
        max_epochs=data.draw(st.sampled_from([0, 1, 2, 2**31 - 1])),
        aborted=array("q", [field for pair in pairs for field in pair]).tobytes(),
    )
    start = data.draw(st.sampled_from([0, len(parts[0]) if parts else 0, len(raw) + 1]))
    both("scan_batches", bytes(raw), start, options)


@given(
    st.sampled_from([1, 2, 3, 4]),
    st.binary(max_size=600),
    DAMAGE,
    st.floats(0, 1),
    st.integers(0, 1000),
)
def test_damaged_compressed_bytes_fail_alike(
    codec: int, raw: bytes, damage: list[tuple[float, int]], cut: float, most: int
) -> None:
    data = bytearray(reference.compress(codec, raw, None, 2))
    data = data if cut > 0.3 else data[: int(len(data) * 3 * cut)]
    for where, byte in damage:
        if data:
            data[int(where * len(data))] = byte
    both("decompress", codec, bytes(data), most, 2)


@given(st.integers(1, 4), st.binary(max_size=200), st.integers(0, 1000), st.integers(0, 2))
def test_junk_is_no_compressed_data(codec: int, junk: bytes, most: int, magic: int) -> None:
    both("decompress", codec, junk, most, magic)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_bytes_that_are_damaged_and_too_large_fail_alike(codec: int) -> None:
    raw = random.Random(codec)
    for turn in range(600):
        content = (
            bytes(raw.choices(b"abcd", k=raw.randrange(1, 1500)))
            if turn % 2
            else raw.randbytes(raw.randrange(1, 99))
        )
        data = bytearray(reference.compress(codec, content, None, 2))
        for _ in range(raw.randrange(1, 4)):
            data[raw.randrange(len(data))] = raw.choice((0, 1, 127, 128, 255, raw.randrange(256)))
        both("decompress", codec, bytes(data), max(0, len(content) + raw.randrange(-3, 3)), 2)


RLE_BLOCKS = b"\x02\x00\x08\x00" * 4
"""64 KiB of zeros each, and none is the last."""


@pytest.mark.parametrize(
    ("most", "kind"), [(300_000, "compressed"), (140_000, "compressed"), (100_000, "too large")]
)
def test_damage_is_looked_for_128_kib_beyond_the_limit(most: int, kind: str) -> None:
    # Four blocks of 65,536 bytes, then one whose content cannot be.
    packed = b"\x28\xb5\x2f\xfd\x00\x58" + RLE_BLOCKS + b"\x25\0\0" + b"\xff" * 4
    assert both("decompress", 4, packed, most, 2) == (kind, -1, -1)
