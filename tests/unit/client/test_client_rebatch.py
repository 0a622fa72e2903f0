"""Batches rewritten: halves, other formats, new sequences; the old bytes stay as they are."""

import pytest

from parley.client.produce.rebatch import rebatch
from parley.client.produce.sequences import PartitionSequences
from parley.client.produce.state import OutBatch, ProduceCall
from parley.errors import UnsupportedVersionError
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
    records,
    split,
)
from parley.types import TopicPartition

TP = TopicPartition("t", 0)


def rows(count, headers=()):
    return [
        Record(-1, 1000 + i, 0, f"k{i}".encode(), None if i % 3 == 0 else b"v" * i, headers)
        for i in range(count)
    ]


def batch(count=10, magic=2, codec=0, headers=(), sequence=100):
    options = WriteOptions(magic=magic, codec=codec, max_batch_bytes=10**6)
    if magic == 2 and sequence >= 0:
        options = WriteOptions(
            magic=2,
            codec=codec,
            max_batch_bytes=10**6,
            producer_id=7,
            producer_epoch=1,
            base_sequence=sequence,
        )
    data = encode_batches(
        columns_from_records(rows(count, headers), with_offsets=False), None, options
    )[0].data
    made = OutBatch(TP, bytes(data), count, magic, codec, ProduceCall(), -1, 0, 0)
    if magic == 2 and sequence >= 0:
        made.producer_id, made.epoch, made.base_sequence = 7, 1, sequence
    made.serial = (3,)
    return made


def content(pieces):
    return [
        (row.timestamp_ms, row.key, row.value, row.headers)
        for piece in pieces
        for chunk in decode_columns(piece.data, first_offset=0)
        for row in records(chunk.columns)
    ]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("count", [2, 3, 11])
def test_halves_hold_the_same_records_and_share_the_sequences(count, codec):
    old = batch(count, codec=codec, headers=(("h", b"x"),), sequence=2**31 - 1)
    old.must_split = True
    before = bytes(old.data)
    (pieces,) = rebatch([old], None)
    assert len(pieces) == 2
    assert content(pieces) == content([old])
    assert bytes(old.data) == before
    sequence = 2**31 - 1
    for piece in pieces:
        header = split(piece.data)[0]
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, sequence)
        assert (piece.base_sequence, piece.must_split, header.codec) == (sequence, False, codec)
        sequence = (sequence + piece.records) % 2**31
    assert [piece.serial for piece in pieces] == [(3, 0), (3, 1)]
    assert sum(piece.records for piece in pieces) == count


def test_stamping_again_gives_consecutive_sequences_and_valid_checksums():
    old = [batch(4, sequence=50), batch(3, codec=4, sequence=54)]
    before = [bytes(one.data) for one in old]
    numbers = PartitionSequences(7, epoch=2)
    made = [piece for pieces in rebatch(old, numbers) for piece in pieces]
    assert [(p.epoch, p.base_sequence) for p in made] == [(2, 0), (2, 4)]
    assert numbers.next == 7
    assert content(made) == content(old)  # decoding checks the CRC
    assert [bytes(one.data) for one in old] == before


@pytest.mark.parametrize(("magic", "to"), [(2, 1), (2, 0), (1, 0), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("codec", [0, 1, 2])
def test_a_leader_of_another_release_gets_its_own_format(magic, to, codec):
    old = batch(5, magic=magic, codec=codec, sequence=-1)
    old.convert_to = to
    (pieces,) = rebatch([old], None)
    assert all(found.magic == to for piece in pieces for found in split(piece.data))
    assert all(piece.magic == to and piece.convert_to is None for piece in pieces)
    timed = magic > 0 and to > 0
    expected = [
        (time if timed else -1, key, value, head) for time, key, value, head in content([old])
    ]
    assert content(pieces) == expected
    assert sum(piece.records for piece in pieces) == 5


def test_headers_are_never_dropped_on_the_way_down():
    old = batch(5, headers=(("h", b"x"),), sequence=-1)
    old.convert_to = 1
    with pytest.raises(UnsupportedVersionError, match="headers"):
        rebatch([old], None)
