"""kafka-python and aiokafka as witnesses: they read what is written here, and the other way round.

(What Java wrote, and whether it is written alike, is in tests/golden/test_records.py; whether Java
reads what is written here in test_java.py.)
"""

from __future__ import annotations

import warnings
from typing import Any

import aiokafka.codec
import pytest
from aiokafka.record.memory_records import MemoryRecords as AioRecords

from parley.records import (
    Record,
    WriteOptions,
    assign_offsets,
    columns_from_records,
    decode_columns,
    encode_batches,
    records,
)

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas through a deprecated importlib call when it is imported.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords as PythonRecords, MemoryRecordsBuilder

pytestmark = pytest.mark.foreign

ROWS = [
    Record(0, 1_700_000_000_123, 0, b"key", b"value"),
    Record(1, 1_700_000_000_000, 0, None, b""),
    Record(2, 1_699_999_999_999, 0, b"", None),
    Record(3, 1_700_000_100_000, 0, None, None),
    *(Record(n, 1_700_000_000_000 + n, 0, b"k%d" % n, b"text %d " % n * 60) for n in range(4, 300)),
]
HEADERS = (("h", b"x"), ("h", None), ("", b""), ("ключ", b"\xff"))
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if codec < 4 or magic == 2]


# aiokafka refuses the lz4 of magic 0 (KIP-57); a real
# 0.9 broker is the witness for that in tests/golden.
AIO_FORMATS = [form for form in FORMATS if form != (0, 3)]


def rows_for(magic: int) -> list[Record]:
    if magic == 0:
        return [row._replace(timestamp_ms=-1, timestamp_type=-1) for row in ROWS]
    return [
        row._replace(headers=HEADERS if magic == 2 and row.offset % 7 == 0 else ()) for row in ROWS
    ]


def ours(data: Any) -> list[Record]:
    return [row for chunk in decode_columns(data, first_offset=0) for row in records(chunk.columns)]


def theirs(log: Any) -> list[Record]:
    """Return what a foreign log reads, through the names both libraries share; CRCs are checked."""
    found = []
    while (batch := log.next_batch()) is not None:
        assert batch.validate_crc()
        for row in batch:
            stamp = -1 if row.timestamp is None else row.timestamp
            kind = -1 if row.timestamp_type is None else row.timestamp_type
            found.append(Record(row.offset, stamp, kind, row.key, row.value, tuple(row.headers)))
    return found


@pytest.mark.parametrize(("magic", "codec"), AIO_FORMATS)
def test_aiokafka_reads_ours(magic: int, codec: int) -> None:
    rows = rows_for(magic)
    made = encode_batches(
        columns_from_records(rows), None, WriteOptions(magic=magic, codec=codec, max_records=100)
    )
    data = b"".join(bytes(batch.data) for batch in made)
    assert theirs(AioRecords(data)) == rows


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[1] in (0, 1, 4)])
def test_kafka_python_reads_ours(magic: int, codec: int) -> None:
    rows = rows_for(magic)
    made = encode_batches(
        columns_from_records(rows), None, WriteOptions(magic=magic, codec=codec, max_records=100)
    )
    data = b"".join(bytes(batch.data) for batch in made)
    assert theirs(PythonRecords(data)) == rows


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[1] in (0, 1, 4)])
def test_ours_reads_kafka_pythons(magic: int, codec: int) -> None:
    rows = rows_for(magic)
    builder = MemoryRecordsBuilder(magic, codec, 10**7)
    for row in rows:
        more = {"headers": list(row.headers)} if magic == 2 else {}
        builder.append(
            timestamp=row.timestamp_ms if magic else None, key=row.key, value=row.value, **more
        )
    builder.close()
    assert ours(builder.buffer()) == rows
    if codec == 0:
        (made,) = encode_batches(
            columns_from_records(rows), None, WriteOptions(magic=magic, codec=codec)
        )
        # All but the leader epoch, which is the broker's to set: kafka-python sends 0, Java sends
        # -1.
        ours_sent, theirs_sent = bytes(made.data), bytes(builder.buffer())
        epoch = 4 if magic == 2 else 0
        assert (
            ours_sent[:12] + ours_sent[12 + epoch :] == theirs_sent[:12] + theirs_sent[12 + epoch :]
        )


@pytest.mark.parametrize(("magic", "codec"), AIO_FORMATS)
def test_ours_reads_aiokafkas(magic: int, codec: int) -> None:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder
    from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

    rows = rows_for(magic)
    builder: Any
    if magic == 2:
        builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 10**7)
        for row in rows:
            builder.append(row.offset, row.timestamp_ms, row.key, row.value, list(row.headers))
    else:
        builder = LegacyRecordBatchBuilder(magic, codec, 10**7)
        for row in rows:
            builder.append(row.offset, row.timestamp_ms if magic else None, row.key, row.value)
    data = bytearray(builder.build())
    if magic < 2 and codec:
        # aiokafka leaves the wrapper's offset at 0, whatever is inside: brokers take it and set it.
        data = bytearray(assign_offsets(data, 0))
    assert ours(data) == rows


def test_aiokafka_has_the_codecs_that_this_file_needs() -> None:
    """Without them the tests above would fail for want of a library, not for a defect."""
    assert all(
        has()
        for has in (aiokafka.codec.has_snappy, aiokafka.codec.has_lz4, aiokafka.codec.has_zstd)
    )
