"""Decoding: hand-made batches, one defect each, and the limits. Both kernels must say the same."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from parley.kernel.contract import (
    Columns,
    DecodeOptions,
    EncodeOptions,
    KernelError,
    KernelErrorKind,
    Want,
    span_table,
)
from parley.kernel.functions import Kernel
from parley.records import Record, columns_from_records, int64s, records

from .made import batch, message, record, varint

KIND = KernelErrorKind


def decode(kernel: Kernel, *parts: bytes, **options: Any) -> Columns:
    spans, at = [], 0
    for part in parts:
        spans.append((at, at + len(part)))
        at += len(part)
    return kernel.decode(b"".join(parts), span_table(spans), DecodeOptions(**options)).columns


def failure(kernel: Kernel, *parts: bytes, **options: Any) -> KernelError:
    with pytest.raises(KernelError) as caught:
        decode(kernel, *parts, **options)
    return caught.value


# ── magic 2 ──────────────────────────────────────────────────────────────────


def test_one_record_in_full(kernel: Kernel) -> None:
    headers = varint(2) + varint(1) + b"a" + varint(-1) + varint(1) + b"a" + varint(2) + b"xy"
    columns = decode(kernel, batch(record(0, 5), record(3, -1001, None, b"", headers), last=9))
    assert records(columns) == [
        Record(10, 1005, 0, b"k", b"v"),
        Record(13, -1, 0, None, b"", (("a", None), ("a", b"xy"))),
    ]


def test_log_append_time_is_the_batchs(kernel: Kernel) -> None:
    found = records(decode(kernel, batch(record(0, 5), record(1, 6), attributes=8)))
    assert [(r.timestamp_ms, r.timestamp_type) for r in found] == [(2000, 1), (2000, 1)]


def test_timestamps_wrap_as_javas_and_scale_without_wrapping(kernel: Kernel) -> None:
    data = batch(record(0, 2**63 - 1), record(1, 0), first_ms=2)
    columns = decode(kernel, data)
    assert columns.timestamps is not None
    assert int64s(columns.timestamps).tolist() == [-(2**63) + 1, 2]
    columns = decode(kernel, data, timestamp_scale=1000)
    assert columns.timestamps is not None
    assert int64s(columns.timestamps).tolist() == [-(2**63), 2000]


def test_malformed_header_keys_read_as_java_reads_them(kernel: Kernel) -> None:
    headers = varint(1) + varint(5) + b"a\xff\xfeb\xc3" + varint(0)
    (found,) = records(decode(kernel, batch(record(headers=headers))))
    assert found.headers == (("a\ufffd\ufffdb\ufffd", b""),)


def test_an_empty_batch_has_no_records(kernel: Kernel) -> None:
    """Compaction leaves such batches to keep their producer's sequence."""
    assert decode(kernel, batch(), batch(last=100, attributes=1)).rows == 0


def test_columns_not_wanted_are_none(kernel: Kernel) -> None:
    data = batch(record(0), record(1, key=None))
    assert decode(kernel, data, want=0) == Columns(rows=2)
    only = decode(kernel, data, want=int(Want.VALUES))
    assert (only.rows, only.key, only.offsets, only.headers, only.timestamps) == (
        2,
        None,
        None,
        None,
        None,
    )
    assert only.value is not None
    assert (only.value.validity, only.value.null_count, bytes(only.value.data)) == (None, 0, b"vv")


def test_validity_is_a_bitmap_of_the_nulls(kernel: Kernel) -> None:
    rows = [record(n, key=None if n % 3 else b"k", value=None) for n in range(10)]
    columns = decode(kernel, batch(*rows))
    assert columns.key is not None
    assert columns.value is not None
    assert columns.key.validity is not None
    assert columns.value.validity is not None
    assert (bytes(columns.key.validity), columns.key.null_count) == (b"\x49\x02", 6)
    assert (bytes(columns.value.validity), columns.value.null_count) == (b"\0\0", 10)


@pytest.mark.parametrize(
    ("data", "kind", "at"),
    [
        (batch(record(), crc=1), KIND.CRC, -1),
        (batch(record(), size=48), KIND.MALFORMED, -1),
        (batch(record(), magic=3), KIND.MAGIC, -1),
        (batch(record(), magic=-1), KIND.MAGIC, -1),
        (batch(record(), count=-1), KIND.COUNT, -1),
        (batch(record(), count=2**31 - 1), KIND.COUNT, -1),
        (batch(record(), record(1), count=1), KIND.COUNT, -1),
        (batch(record(), record(1), count=3), KIND.COUNT, -1),
        (batch(record(), record(1, value=b"long enough for three"), count=3), KIND.MALFORMED, 2),
        (batch(record(), attributes=5), KIND.CODEC, -1),
        (batch(record(), attributes=7), KIND.CODEC, -1),
        (batch(record(), attributes=1), KIND.COMPRESSED, -1),
        (batch(record(), b"\0" * 9), KIND.MALFORMED, 1),
        (batch(record(), b"\x03" + b"\0" * 9), KIND.MALFORMED, 1),
        (batch(record(), b"\x80" * 10), KIND.MALFORMED, 1),
        (batch(record(), b"\xff\xff\xff\xff\x1f" + b"\0" * 9), KIND.MALFORMED, 1),
        (batch(record(), varint(100) + b"\0" * 9), KIND.MALFORMED, 1),
        (batch(varint(9) + b"\0\0\0\x03\x01" + b"\0" * 4), KIND.MALFORMED, 0),
        (batch(varint(9) + b"\0\0\0\x7f\x01" + b"\0" * 4), KIND.MALFORMED, 0),
        (batch(varint(9) + b"\0" + b"\xff" * 8), KIND.MALFORMED, 0),
        (batch(varint(13) + b"\0" + b"\xff" * 9 + b"\x02" + b"\0\0"), KIND.MALFORMED, 0),
        (batch(record(headers=varint(-1))), KIND.MALFORMED, 0),
        (batch(record(headers=varint(2) + varint(0) + varint(0))), KIND.MALFORMED, 0),
        (batch(record(headers=varint(1) + varint(-1) + varint(0))), KIND.MALFORMED, 0),
        (batch(record(headers=varint(1) + varint(0) + varint(-2))), KIND.MALFORMED, 0),
        (batch(record(headers=varint(0) + b"\0")), KIND.MALFORMED, 0),
        (batch(record(2**31 - 1), offset=2**63 - 2), KIND.MALFORMED, 0),
        (batch(record())[:60], KIND.MALFORMED, -1),
        (b"\0" * 16, KIND.MALFORMED, -1),
        (b"", KIND.MALFORMED, -1),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else str(value),
)
def test_each_defect_of_magic_2(kernel: Kernel, data: bytes, kind: KIND, at: int) -> None:
    good = batch(record())
    error = failure(kernel, good, data)
    assert (error.kind, error.span, error.record) == (kind, 1, at)


def test_crc_can_be_left_unchecked(kernel: Kernel) -> None:
    assert decode(kernel, batch(record(), crc=1), check_crc=False).rows == 1


def test_spans_outside_the_data_are_the_callers_fault(kernel: Kernel) -> None:
    for span in ((0, 10**6), (70, 60), (-5, 60), (0, -1)):
        with pytest.raises(KernelError) as caught:
            kernel.decode(batch(record()), span_table([span]), DecodeOptions())
        assert caught.value.kind is KIND.ARGUMENT


def test_limits_stop_between_spans_and_never_before_the_first(kernel: Kernel) -> None:
    parts = [batch(record(0), record(1)) for _ in range(5)]
    size = len(parts[0])
    spans = [(n * size, (n + 1) * size) for n in range(5)]

    def done(**limits: int) -> int:
        return kernel.decode(b"".join(parts), span_table(spans), DecodeOptions(**limits)).spans_done

    assert [done(max_rows=n) for n in (1, 2, 3, 4, 9, 10)] == [1, 1, 1, 2, 4, 5]
    record_bytes = size - 61
    assert [done(max_bytes=n) for n in (1, record_bytes, record_bytes + 1, 5 * record_bytes)] == [
        1,
        1,
        2,
        5,
    ]


def test_one_batch_may_decompress_to_its_limit_only(kernel: Kernel) -> None:
    columns = columns_from_records([Record(0, 0, 0, None, bytes(10_000))])
    for codec in (1, 2, 3, 4):
        data = bytes(kernel.encode(columns, None, 0, EncodeOptions(codec=codec)).data)
        assert decode(kernel, data).rows == 1
        assert failure(kernel, data, max_batch_bytes=10_000).kind is KIND.TOO_LARGE
        assert decode(kernel, data, max_batch_bytes=10_100).rows == 1


# ── magic 0 and 1 ────────────────────────────────────────────────────────────


def wrapped(kernel: Kernel, inner: bytes, codec: int = 1, **fields: Any) -> bytes:
    magic = fields.get("magic", 1)
    return message(
        **{
            "key": None,
            "value": bytes(kernel.compress(codec, inner, None, magic)),
            "attributes": codec,
            **fields,
        }
    )


def test_plain_messages(kernel: Kernel) -> None:
    run = message(3) + message(4, None, b"", attributes=8) + message(9, b"", None, magic=0)
    assert records(decode(kernel, run)) == [
        Record(3, 77, 0, b"k", b"v"),
        Record(4, 77, 1, None, b""),
        Record(9, -1, -1, b"", None),
    ]


def test_relative_inner_offsets_count_back_from_the_wrapper(kernel: Kernel) -> None:
    """KIP-31; the first two may have been compacted away."""
    data = wrapped(
        kernel, message(2, timestamp=5) + message(4, timestamp=-1), offset=104, timestamp=99
    )
    assert [
        (r.offset, r.timestamp_ms, r.timestamp_type) for r in records(decode(kernel, data))
    ] == [
        (102, 5, 0),
        (104, -1, 0),
    ]


def test_a_wrapper_offset_of_zero_leaves_offsets_as_they_are(kernel: Kernel) -> None:
    """What some releases of librdkafka produce; Java takes them so."""
    data = wrapped(kernel, message(0) + message(1), offset=0)
    assert [r.offset for r in records(decode(kernel, data))] == [0, 1]


def test_the_largest_offset_is_left_out_by_a_limit_only(kernel: Kernel) -> None:
    data = wrapped(kernel, message(2**63 - 1, magic=0) + message(2**63 - 2, magic=0), magic=0)
    assert [r.offset for r in records(decode(kernel, data))] == [2**63 - 1, 2**63 - 2]
    assert [r.offset for r in records(decode(kernel, data, end_offset=2**63 - 2))] == []
    assert [r.offset for r in records(decode(kernel, data, first_offset=2**63 - 1))] == [2**63 - 1]


def test_absolute_inner_offsets_of_magic_0(kernel: Kernel) -> None:
    data = wrapped(
        kernel, message(100, magic=0) + message(107, magic=0), offset=107, magic=0, codec=3
    )
    assert [(r.offset, r.timestamp_type) for r in records(decode(kernel, data))] == [
        (100, -1),
        (107, -1),
    ]


def test_append_time_of_a_wrapper_is_that_of_all(kernel: Kernel) -> None:
    """KIP-32: brokers set the wrapper and leave what is inside."""
    data = wrapped(
        kernel, message(0, timestamp=5) + message(1), offset=8, timestamp=99, attributes=9
    )
    assert [(r.timestamp_ms, r.timestamp_type) for r in records(decode(kernel, data))] == [
        (99, 1),
        (99, 1),
    ]


def test_only_the_range_asked_for(kernel: Kernel) -> None:
    data = wrapped(kernel, b"".join(message(n) for n in range(10)), offset=19)
    found = records(decode(kernel, data, first_offset=13, end_offset=16))
    assert [r.offset for r in found] == [13, 14, 15]


def test_each_defect_of_magic_0_and_1(kernel: Kernel) -> None:
    good = message(0)
    nested = wrapped(kernel, wrapped(kernel, good))
    zstd = wrapped(kernel, good, codec=4)
    cases: list[tuple[bytes, KIND]] = [
        (message(crc=1), KIND.CRC),
        (message(magic=2)[:40], KIND.MALFORMED),
        (message(tail=b"x"), KIND.MALFORMED),
        (message()[:-1], KIND.MALFORMED),
        (message() + b"\0" * 11, KIND.MALFORMED),
        (good + struct.pack(">qiIb", 0, 40, 0, 7) + bytes(40), KIND.MAGIC),
        (nested, KIND.NESTED),
        (zstd, KIND.CODEC),
        (message(value=None, attributes=1), KIND.MALFORMED),
        (message(value=b"junk", attributes=1), KIND.COMPRESSED),
        (message(value=b"junk", attributes=6), KIND.CODEC),
        (wrapped(kernel, b""), KIND.COUNT),
        (wrapped(kernel, message(crc=1)), KIND.CRC),
        (wrapped(kernel, good[:-1]), KIND.MALFORMED),
        (wrapped(kernel, message(50), offset=49), KIND.MALFORMED),
        (good + wrapped(kernel, good), KIND.MALFORMED),
        (wrapped(kernel, good) + good, KIND.MALFORMED),
    ]
    for data, kind in cases:
        error = failure(kernel, good, data)
        assert (error.kind, error.span) == (kind, 1)


def test_a_scan_takes_runs_of_one_kind(kernel: Kernel) -> None:
    run = message(1, timestamp=5) + message(2, timestamp=9) + message(4)
    data = (
        run
        + wrapped(kernel, message(0), offset=7)
        + message(8, attributes=8)
        + message(9, magic=0)
        + b"\0" * 25
    )
    found, at = [], 0
    while (span := kernel.scan_legacy(data, at, 100)) is not None:
        found.append(
            (
                span.entries,
                span.magic,
                span.codec,
                span.first_offset,
                span.last_offset,
                span.timestamp_type,
            )
        )
        at = span.end
    assert found == [
        (3, 1, 0, 1, 4, 0),
        (1, 1, 1, 7, 7, 0),
        (1, 1, 0, 8, 8, 1),
        (1, 0, 0, 9, 9, -1),
    ]
    first = kernel.scan_legacy(data, 0, 2)
    assert first is not None
    assert (first.entries, first.max_timestamp_ms, first.end) == (2, 9, len(run) - len(message(4)))
