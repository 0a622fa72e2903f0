"""Record sets that make a reader work: floods of records,
headers, batches, markers and aborted transactions.

Each maker takes about how many bytes to make. All but what says that it lies is valid.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from parley.kernel import reference
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    encode_batches,
    end_marker,
    layout,
)
from parley_laboratory.hostile.codec_shapes import ordinary


class RecordSet(NamedTuple):
    """Bytes as a Fetch returns them, with its aborted transactions: (producer id, first offset)."""

    data: bytes
    aborted: tuple[tuple[int, int], ...] = ()


Maker = Callable[[int], RecordSet]
TRANSACTIONAL = 0x10


def varint(number: int) -> bytes:
    """Return a zigzag varint."""
    folded, out = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while folded >= 0x80:
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    return bytes((*out, folded))


def batch(
    records: bytes,
    count: int,
    *,
    codec: int = 0,
    base: int = 0,
    last: int | None = None,
    flags: int = 0,
    producer: int = -1,
) -> bytes:
    """Return a batch of magic 2 around the bytes of its records, which are compressed here."""
    packed = bytes(reference.compress(codec, records, None, 2)) if codec else records
    return raw_batch(
        packed, count, codec=codec, base=base, last=last, flags=flags, producer=producer
    )


def raw_batch(
    packed: bytes,
    count: int,
    *,
    codec: int = 0,
    base: int = 0,
    last: int | None = None,
    flags: int = 0,
    producer: int = -1,
) -> bytes:
    """Return a batch of magic 2 around compressed bytes."""
    data = bytearray(layout.BATCH_HEADER_BYTES) + packed
    last_delta = count - 1 if last is None else last - base
    layout.BATCH_HEADER.pack_into(
        data,
        0,
        base,
        len(data) - layout.LOG_OVERHEAD,
        0,
        2,
        0,
        codec | flags,
        last_delta,
        0,
        0,
        producer,
        -1,
        -1,
        count,
    )
    layout.UINT32.pack_into(data, layout.CRC_AT, reference.crc32c(data[layout.ATTRIBUTES_AT :]))
    return bytes(data)


def record(
    offset_delta: int = 0, *, value: bytes | None = None, headers: bytes = b"", count: int = 0
) -> bytes:
    """Return one record without a key; the shortest has seven bytes."""
    content = b"\x01" if value is None else varint(len(value)) + value
    body = b"\0\0" + varint(offset_delta) + b"\x01" + content + varint(count) + headers
    return varint(len(body)) + body


# -- yardsticks: what ordinary producers write -----------------------------------------------------


def ordinary_batches(
    codec: int = 0, magic: int = 2, batch_bytes: int = 16_384, headers: int = 0
) -> Maker:
    """Return the maker of batches of records of 100 bytes; messages of magic 0 and 1 are
    compressed or stand alone.
    """

    def make(size: int) -> RecordSet:
        count = size // 110 + 1
        text = ordinary(100 * count)
        some = tuple((f"header-{number}", b"some content") for number in range(headers))
        rows = [
            Record(i, 1_000 + i, 0, b"k%d" % i, text[100 * i : 100 * i + 100], some)
            for i in range(count)
        ]
        options = WriteOptions(max_batch_bytes=batch_bytes, codec=codec, magic=magic)
        made, base = [], 0
        for one in encode_batches(columns_from_records(rows, with_offsets=False), None, options):
            data = bytearray(one.data)
            # A compressed message has the offset of the last one in it.
            layout.INT64.pack_into(data, 0, base if magic == 2 else base + one.records - 1)
            made.append(bytes(data))
            base += one.records
        return RecordSet(b"".join(made))

    return make


# -- floods ----------------------------------------------------------------------------------------


def small_records(size: int) -> RecordSet:
    """Return batches of the shortest records, of about 16 KB."""
    each = 2_340
    body = b"".join(record(i) for i in range(each))
    return RecordSet(
        b"".join(batch(body, each, base=each * i) for i in range(max(1, size // len(body))))
    )


def one_large_batch(size: int) -> RecordSet:
    """Return a batch of the shortest records, all of them."""
    count = max(1, size // 9)
    return RecordSet(batch(b"".join(record(i) for i in range(count)), count))


def compressed_records(codec: int) -> Maker:
    """Return the maker of one batch of equal records, which become a thousandth or less."""

    def make(size: int) -> RecordSet:
        count = max(1, 20 * size // 7)
        return RecordSet(batch(record() * count, count, codec=codec, last=count - 1))

    return make


def headers_of(key: bytes, value: bytes | None) -> Maker:
    """Return the maker of batches of records with many headers."""
    one = varint(len(key)) + key + (b"\x01" if value is None else varint(len(value)) + value)

    def make(size: int) -> RecordSet:
        count = 1_000
        rows = max(1, size // (count * len(one)))
        body = b"".join(record(i, headers=one * count, count=count) for i in range(rows))
        return RecordSet(batch(body, rows))

    return make


def one_record_of_headers(size: int) -> RecordSet:
    """Return a record of as many headers as fit."""
    count = max(1, size // 2)
    return RecordSet(batch(record(headers=b"\x00\x01" * count, count=count), 1))


def lone_batches(size: int) -> RecordSet:
    """Return batches of one short record each."""
    one = record()
    return RecordSet(b"".join(batch(one, 1, base=i) for i in range(max(1, size // 68))))


def empty_batches(size: int) -> RecordSet:
    """Return batches that compaction left without records."""
    return RecordSet(b"".join(batch(b"", 0, base=i, last=i) for i in range(max(1, size // 61))))


def markers(size: int) -> RecordSet:
    """Return abort markers of as many producers, all with an aborted transaction."""
    count = max(1, size // layout.MARKER_BYTES)
    made = []
    for number in range(count):
        marker = bytearray(end_marker(number, 0, 0, commit=False, now_ms=0))
        layout.INT64.pack_into(marker, 0, number)
        made.append(bytes(marker))
    return RecordSet(b"".join(made), tuple((number, number) for number in range(count)))


def compressed_markers(size: int) -> RecordSet:
    """Return abort markers that are compressed, of two records each: no broker writes them."""
    marker = end_marker(0, 0, 0, commit=False, now_ms=0)[layout.BATCH_HEADER_BYTES :]
    packed = bytes(reference.compress(1, marker * 2, None, 2))
    count = max(1, size // (layout.BATCH_HEADER_BYTES + len(packed)))
    flags = TRANSACTIONAL | layout.CONTROL
    made = [
        raw_batch(packed, 2, codec=1, base=i, last=i, flags=flags, producer=i) for i in range(count)
    ]
    return RecordSet(b"".join(made), tuple((number, number) for number in range(count)))


def overlapping_batches(size: int) -> RecordSet:
    """Return batches that all begin at 0, each with one record behind those before it."""
    made = [batch(record(i), 1, last=i) for i in range(max(1, size // 70))]
    return RecordSet(b"".join(made))


def batches_of_two_epochs(size: int) -> RecordSet:
    """Return batches of one short record, no two beside each other of one leader epoch."""
    data = bytearray(lone_batches(size).data)
    for number in range(len(data) // 68):
        layout.INT32.pack_into(data, 68 * number + layout.LEADER_EPOCH_AT, number % 2)
    return RecordSet(bytes(data))


def aborted(size: int) -> RecordSet:
    """Return aborted batches of as many producers: none of them ordinary."""
    one, count = record(), max(1, size // 68)
    made = [batch(one, 1, base=i, flags=TRANSACTIONAL, producer=i) for i in range(count)]
    return RecordSet(b"".join(made), tuple((number, number) for number in range(count)))


def committed(size: int) -> RecordSet:
    """Return committed batches of one producer beside as many aborted transactions of others."""
    one, count = record(), max(1, size // 68)
    made = [batch(one, 1, base=i, flags=TRANSACTIONAL, producer=10**6 + 1) for i in range(count)]
    return RecordSet(b"".join(made), tuple((number, 0) for number in range(count)))


def lying_counts(size: int) -> RecordSet:
    """Return a batch that says to have 2^31 - 1 records behind many that do not."""
    honest = lone_batches(size).data
    lying = bytearray(batch(record(), 1, base=10**9))
    layout.INT32.pack_into(lying, layout.BATCH_HEADER_BYTES - 4, 2**31 - 1)
    layout.UINT32.pack_into(lying, layout.CRC_AT, reference.crc32c(lying[layout.ATTRIBUTES_AT :]))
    return RecordSet(honest + bytes(lying))


def message(offset: int, *, magic: int = 1, codec: int = 0, value: bytes | None = None) -> bytes:
    """Return a message of magic 0 or 1; the shortest has 26 or 34 bytes."""
    time = struct.pack(">q", 5) if magic else b""
    content = struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    body = bytes((magic, codec)) + time + struct.pack(">i", -1) + content
    return struct.pack(">qiI", offset, len(body) + 4, reference.crc32(body)) + body


def messages(size: int) -> RecordSet:
    """Return the shortest messages."""
    return RecordSet(b"".join(message(i, magic=0) for i in range(max(1, size // 26))))


def alternating_messages(size: int) -> RecordSet:
    """Return messages of which no two beside each other have one format: each is a span."""
    return RecordSet(b"".join(message(i, magic=i % 2) for i in range(max(1, size // 30))))


def wrapped_messages(size: int) -> RecordSet:
    """Return one compressed message of equal ones."""
    count = max(1, 10 * size // 34)
    inner = message(0) * count
    return RecordSet(message(count, codec=1, value=bytes(reference.compress(1, inner, None, 1))))


def wrappers(size: int) -> RecordSet:
    """Return compressed messages of one short message each."""
    inner = bytes(reference.compress(1, message(0), None, 1))
    one = len(message(0, codec=1, value=inner))
    return RecordSet(b"".join(message(i, codec=1, value=inner) for i in range(max(1, size // one))))


class Shape(NamedTuple):
    """A flood, and what is ordinary of its kind; `hides` says that it shows few records or none."""

    make: Maker
    yardstick: Maker
    hides: bool = False


_PLAIN, _HEADERS, _LONE = (
    ordinary_batches(),
    ordinary_batches(headers=4),
    ordinary_batches(batch_bytes=1),
)
_MESSAGES, _WRAPPERS = (
    ordinary_batches(magic=1, batch_bytes=1),
    ordinary_batches(magic=1, codec=1, batch_bytes=1),
)

SHAPES: dict[str, Shape] = {
    "small records": Shape(small_records, _PLAIN),
    "one large batch": Shape(one_large_batch, _PLAIN),
    "equal records, gzip": Shape(compressed_records(1), ordinary_batches(1)),
    "equal records, snappy": Shape(compressed_records(2), ordinary_batches(2)),
    "equal records, lz4": Shape(compressed_records(3), ordinary_batches(3)),
    "equal records, zstd": Shape(compressed_records(4), ordinary_batches(4)),
    "headers without anything": Shape(headers_of(b"", None), _HEADERS),
    "headers": Shape(headers_of(b"k", b"v"), _HEADERS),
    "header keys that are no UTF-8": Shape(headers_of(b"\xff" * 20, None), _HEADERS),
    "one record of headers": Shape(one_record_of_headers, _HEADERS),
    "batches of a record": Shape(lone_batches, _LONE),
    "batches without records": Shape(empty_batches, _LONE, hides=True),
    "abort markers": Shape(markers, _LONE, hides=True),
    "abort markers, compressed": Shape(
        compressed_markers, ordinary_batches(codec=1, batch_bytes=1), hides=True
    ),
    "batches that overlap": Shape(overlapping_batches, _LONE),
    "batches of two epochs": Shape(batches_of_two_epochs, _LONE),
    "aborted transactions": Shape(aborted, _LONE, hides=True),
    "committed beside aborted transactions": Shape(committed, _LONE, hides=True),
    "a count that lies": Shape(lying_counts, _LONE),
    "messages": Shape(messages, _MESSAGES),
    "messages of two formats": Shape(alternating_messages, _MESSAGES),
    "one compressed message": Shape(wrapped_messages, ordinary_batches(codec=1, magic=1)),
    "compressed messages": Shape(wrappers, _WRAPPERS),
}
"""Name → shape."""
