"""A batch of a few keyed records, without columns: what brokers write into their own topics."""

from __future__ import annotations

from collections.abc import Sequence

from parley.kernel import active
from parley.records import layout


def keyed_batch(
    records: Sequence[tuple[bytes, bytes | None]],
    *,
    timestamp_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
) -> bytearray:
    """Return keys and values as one batch of magic 2 at offset 0, all of one time, uncompressed.

    A producer's batch has no sequence: a coordinator writes it on behalf of the producer.
    """
    body = bytearray(layout.BATCH_HEADER_BYTES)
    for at, (key, value) in enumerate(records):
        size = _varint(len(key))
        record = b"\0\0" + _varint(at) + size + key  # attributes, and no difference in time
        record += b"\1\0" if value is None else _varint(len(value)) + value + b"\0"  # no headers
        body += _varint(len(record))
        body += record
    last = len(records) - 1
    layout.BATCH_HEADER.pack_into(
        body, 0,
        0, len(body) - layout.LOG_OVERHEAD, -1, 2, 0, layout.TRANSACTIONAL if transactional else 0,
        last, timestamp_ms, timestamp_ms, producer_id, producer_epoch, -1, last + 1,
    )  # fmt: skip
    crc = active.crc32c(memoryview(body)[layout.ATTRIBUTES_AT :])
    layout.UINT32.pack_into(body, layout.CRC_AT, crc)
    return body


_SMALL = [bytes((number << 1,)) for number in range(64)]


def _varint(number: int) -> bytes:
    """Return a number from 0 on as Kafka's records have it: zigzag, seven bits a byte."""
    if number < 64:
        return _SMALL[number]
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)
