"""Batches of very many records or headers: refused as one piece, cut into
several, equal in both kernels.
"""

from __future__ import annotations

import functools
import struct
from array import array
from collections.abc import Iterator
from dataclasses import replace

import pytest

from parley.kernel import reference
from parley.kernel.contract import (
    MAX_FRAMES,
    MAX_SPAN_HEADERS,
    DecodeOptions,
    EncodeOptions,
    KernelError,
    KernelErrorKind,
    Want,
    span_table,
)
from parley.kernel.functions import Kernel
from parley.kernel.reference import columns as reference_columns
from parley.records import Record, columns_from_records, records
from parley_laboratory.hostile import codec_shapes
from parley_laboratory.hostile.record_shapes import batch, message, raw_batch, record, varint

FORMS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if magic == 2 or 0 < codec < 4]
EVERYTHING = DecodeOptions()


def made(magic: int, codec: int, count: int = 50, **options: int) -> tuple[bytes, list[Record]]:
    kind = 0 if magic else -1
    rows = [
        Record(
            7 + 2 * i, 1_000 + i if magic else -1, kind, b"k" if i % 3 else None, b"v" * (i % 40)
        )
        for i in range(count)
    ]
    if magic == 2:
        rows = [
            row._replace(headers=(("h", b"x"), ("i", None))[: i % 3]) for i, row in enumerate(rows)
        ]
    encoded = reference.encode(
        columns_from_records(rows), None, 0, EncodeOptions(magic=magic, codec=codec, **options)
    )
    return bytes(encoded.data), rows


def pieces(kernel: Kernel, data: bytes, most: int) -> Iterator[tuple[list[Record], int]]:
    """Yield the records of each piece and the position after it."""
    plain, spans = kernel.cut_batch(data, 0, len(data), EVERYTHING, most)
    table = array("q", bytes(spans))
    for at in range(0, len(table), 4):
        found = kernel.decode(plain, table[at : at + 4].tobytes(), DecodeOptions(check_crc=False))
        assert found.spans_done == 1
        yield records(found.columns), table[at + 2]


def failure(
    kernel: Kernel, data: bytes, most: int = 10, **options: int
) -> tuple[KernelErrorKind, int]:
    with pytest.raises(KernelError) as caught:
        kernel.cut_batch(data, 0, len(data), replace(EVERYTHING, **options), most)
    return caught.value.kind, caught.value.record


@pytest.mark.parametrize(("magic", "codec"), FORMS)
@pytest.mark.parametrize("most", [1, 7, 50, 51])
def test_the_pieces_have_all_records(kernel: Kernel, magic: int, codec: int, most: int) -> None:
    data, rows = made(magic, codec)
    found = list(pieces(kernel, data, most))
    assert [one for some, _ in found for one in some] == rows
    assert [len(some) for some, _ in found[:-1]] == [most] * (len(found) - 1)
    assert [position for _, position in found] == [some[-1].offset + 1 for some, _ in found]


def test_a_batch_without_records_is_one_piece_that_passes_nothing(kernel: Kernel) -> None:
    data = batch(b"", 0)
    plain, spans = kernel.cut_batch(data, 0, len(data), EVERYTHING, 1)
    assert bytes(plain) == data
    assert array("q", bytes(spans)).tolist() == [0, len(data), -(2**63), -1]


@pytest.mark.parametrize(("magic", "codec"), [(1, 1), (2, 0), (2, 4)])
def test_log_append_time_is_kept(kernel: Kernel, magic: int, codec: int) -> None:
    data, rows = made(magic, codec, log_append_time_ms=5_555)
    expected = [row._replace(timestamp_ms=5_555, timestamp_type=1) for row in rows]
    assert [one for some, _ in pieces(kernel, data, 7) for one in some] == expected


def test_create_time_inside_a_wrapper_is_the_wrappers_to_report(kernel: Kernel) -> None:
    inner = bytearray(message(0) + message(1))
    inner[17] |= 8  # log append time of an inner message alone: brokers set it on the wrapper
    struct.pack_into(">I", inner, 12, reference.crc32(bytes(inner[16 : len(inner) // 2])))
    data = message(1, codec=1, value=bytes(reference.compress(1, bytes(inner), None, 1)))
    whole = kernel.decode(data, span_table([(0, len(data))]), EVERYTHING)
    assert [one for some, _ in pieces(kernel, data, 1) for one in some] == records(whole.columns)


@pytest.mark.parametrize(("magic", "codec"), FORMS)
def test_a_span_of_too_many_records_is_refused(kernel: Kernel, magic: int, codec: int) -> None:
    data, _ = made(magic, codec)
    spans = span_table([(0, len(data))] * 2)
    with pytest.raises(KernelError) as caught:
        kernel.decode(data, spans, DecodeOptions(max_span_rows=49))
    assert (caught.value.kind, caught.value.span) == (KernelErrorKind.TOO_MANY, 0)
    assert kernel.decode(data, spans, DecodeOptions(max_span_rows=50)).columns.rows == 100


def test_what_is_wrong_with_a_batch_is_found_before_it_is_cut(kernel: Kernel) -> None:
    data, _ = made(2, 0)
    broken = bytearray(data)
    broken[61] = 1  # the length of the first record: -1
    assert failure(kernel, bytes(broken)) == (KernelErrorKind.CRC, -1)
    assert failure(kernel, bytes(broken), check_crc=False) == (KernelErrorKind.MALFORMED, 0)
    lying = bytearray(data)
    struct.pack_into(">i", lying, 57, 2**31 - 1)
    assert failure(kernel, bytes(lying), check_crc=False) == (KernelErrorKind.COUNT, -1)
    assert failure(kernel, data[:10]) == (KernelErrorKind.MALFORMED, -1)
    assert failure(kernel, data[:16] + b"\x03" + data[17:]) == (KernelErrorKind.MAGIC, -1)
    assert failure(kernel, data, most=0) == (KernelErrorKind.ARGUMENT, -1)
    assert failure(kernel, message(0)) == (KernelErrorKind.ARGUMENT, -1)


def headers(count: int) -> bytes:
    return b"\x00\x01" * count


def test_a_record_has_so_many_headers_and_no_more(kernel: Kernel) -> None:
    for want in (Want.ALL, Want.VALUES):
        found = [
            batch(record(headers=headers(count), count=count), 1)
            for count in (MAX_SPAN_HEADERS, MAX_SPAN_HEADERS + 1)
        ]
        options = DecodeOptions(want=int(want))
        assert kernel.decode(found[0], span_table([(0, len(found[0]))]), options).columns.rows == 1
        with pytest.raises(KernelError) as caught:
            kernel.decode(found[1], span_table([(0, len(found[1]))]), options)
        assert (caught.value.kind, caught.value.record) == (KernelErrorKind.TOO_LARGE, 0)


def test_headers_cut_a_batch_and_end_a_decode(kernel: Kernel) -> None:
    each = MAX_SPAN_HEADERS // 2
    one = record(headers=headers(each), count=each)
    data = batch(one * 3, 3, last=2)
    with pytest.raises(KernelError) as caught:
        kernel.decode(data, span_table([(0, len(data))]), EVERYTHING)
    assert (caught.value.kind, caught.value.span, caught.value.record) == (
        KernelErrorKind.TOO_MANY,
        0,
        2,
    )
    assert (
        kernel.decode(
            data, span_table([(0, len(data))]), DecodeOptions(want=int(Want.VALUES))
        ).columns.rows
        == 3
    )
    _, spans = kernel.cut_batch(data, 0, len(data), EVERYTHING, 1_000)
    assert len(bytes(spans)) == 2 * 32, "two records, and one"
    two = batch(one * 2, 2)
    found = kernel.decode(
        two * 2, span_table([(0, len(two)), (len(two), 2 * len(two))]), EVERYTHING
    )
    assert found.spans_done == 1, "the next span would pass what is held at once"


@pytest.mark.parametrize(
    ("codec", "one"),
    [(1, codec_shapes.BYTE_MEMBER), (3, codec_shapes.lz4_head() + b"\1\0\0\x80x" + bytes(4))],
)
def test_a_batch_has_so_many_frames_and_no_more(kernel: Kernel, codec: int, one: bytes) -> None:
    assert bytes(kernel.decompress(codec, one * MAX_FRAMES, 10_000, 2)) == b"x" * MAX_FRAMES
    with pytest.raises(KernelError) as caught:
        kernel.decompress(codec, one * (MAX_FRAMES + 1), 10_000, 2)
    assert caught.value.kind is KernelErrorKind.COMPRESSED


@pytest.mark.long
def test_header_keys_end_where_their_offsets_do() -> None:
    """What replaces malformed UTF-8 is longer: a later key may pass 2 GiB although
    it is whole. Takes 5 GiB.
    """
    native = pytest.importorskip("parley.kernel.native", exc_type=ImportError)
    bad = (2**31 - 2) // 3
    keys = [b"\xff" * bad, b"ab"]
    fields = b"".join(varint(len(key)) + key + b"\x01" for key in keys)
    data = raw_batch(record(headers=fields, count=2), 1)
    with pytest.raises(KernelError) as caught:
        native.decode(data, span_table([(0, len(data))]), DecodeOptions(check_crc=False))
    assert (caught.value.kind, caught.value.record) == (KernelErrorKind.TOO_LARGE, 0)


def test_the_limit_of_header_keys_counts_what_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_columns, "MAX_COLUMN_BYTES", 6)
    for last, fits in ((b"", True), (b"a", False)):
        fields = b"".join(varint(len(key)) + key + b"\x01" for key in (b"\xff\xff", last))
        data = batch(record(headers=fields, count=2), 1)
        call = functools.partial(reference.decode, data, span_table([(0, len(data))]), EVERYTHING)
        if fits:
            assert call().columns.rows == 1
        else:
            with pytest.raises(KernelError, match="2 GiB"):
                call()
