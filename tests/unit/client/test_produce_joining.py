"""Small batches that wait become one: order, sequences, deadlines, the outcome of each record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import pytest
from hypothesis import given, settings, strategies as st

from parley.client.produce.chunk import BatchCall, RecordChunk
from parley.client.produce.joining import JointCall, join_first
from parley.client.produce.rebatch import rebatch
from parley.client.produce.sequences import PartitionSequences
from parley.client.produce.state import OutBatch, PartitionLog, ProduceCall
from parley.errors import KafkaError
from parley.records import (
    Record,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
    iter_batches,
    records,
)
from parley.types import TopicPartition

TP = TopicPartition("t", 0)
MOST = 10**6


class World:
    """A partition's queue, filled from one chunk after the other."""

    def __init__(self, magic: int = 2, codec: int = 0) -> None:
        self.magic, self.codec = magic, codec
        self.log = PartitionLog(TP)
        self.numbers = PartitionSequences(7, 1) if magic == 2 else None
        self.chunks: list[RecordChunk] = []
        self.sent = 0
        self.on_ended: Callable[[RecordChunk, BatchCall], None] = lambda chunk, call: None

    def send(self, count: int, deadline_ms: int = 1_000) -> OutBatch:
        rows = [
            Record(-1, 1_000 + n, 0, b"k%d" % n, None if n % 3 == 0 else b"v" * (n % 50))
            for n in range(self.sent, self.sent + count)
        ]
        self.sent += count
        chunk = RecordChunk("t", 0, 10**6, Lock(), self.on_ended)
        chunk.rows = count
        call = BatchCall(chunk, TP, 0, count)
        chunk.made([call], None, memoryview(bytes(8 * count)).cast("q"))
        self.chunks.append(chunk)
        first = -1 if self.numbers is None else self.numbers.reserve(count)
        options = WriteOptions(
            magic=self.magic,
            codec=self.codec,
            producer_id=-1 if first < 0 else 7,
            producer_epoch=-1 if first < 0 else 1,
            base_sequence=first,
        )
        (made,) = encode_batches(columns_from_records(rows, with_offsets=False), None, options)
        batch = OutBatch(TP, made.data, count, self.magic, self.codec, call, -1, deadline_ms, 100)
        if first >= 0:
            batch.producer_id, batch.epoch, batch.base_sequence = 7, 1, first
        call.opened()
        self.log.add(batch)
        return batch

    def outcomes(self) -> list[tuple[bool, int, KafkaError | None, bool]]:
        """Return what is known of each record, in the order of sending: done, offset, error."""
        found = []
        for chunk in self.chunks:
            for row in range(chunk.rows):
                call = chunk.call_of(row)
                assert call is not None
                offset = chunk.metadata(row, call).offset
                found.append((call.done, offset, call.error, call.in_doubt))
        return found


def joined_first(log: PartitionLog, most_bytes: int) -> OutBatch | None:
    waiting = list(log.queue)
    found = join_first(log, most_bytes)
    if found is None:
        return None
    assert found.parts == waiting[: len(found.parts)]
    return found.batch


def keys(batches: Sequence[OutBatch]) -> list[bytes | None]:
    return [
        row.key
        for batch in batches
        for chunk in decode_columns(bytes(batch.data), first_offset=0)
        for row in records(chunk.columns)
    ]


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(magic, codec) for magic in (0, 1, 2) for codec in range(5 if magic == 2 else 4)],
)
def test_a_joined_batch_has_all_records_in_order_and_the_sequences_of_its_parts(
    magic: int, codec: int
) -> None:
    world = World(magic, codec)
    parts = [world.send(3, 900), world.send(1, 700), world.send(5, 800)]
    before = keys(parts)
    joined = joined_first(world.log, MOST)
    assert joined is not None
    assert list(world.log.queue) == [joined]
    assert keys([joined]) == before == [b"k%d" % n for n in range(9)]
    assert (joined.records, joined.deadline_ms) == (9, 700)
    assert all(part.settled for part in parts)
    assert joined.serial == parts[0].serial
    if magic == 2:
        (found,) = iter_batches(bytes(joined.data))
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 1, 0)
        assert found.record_count == 9
    joined.call.acknowledged(joined, 100, -1)
    assert world.outcomes() == [(True, 100 + n, None, False) for n in range(9)]


def test_what_was_sent_once_is_never_joined_for_it_may_be_in_the_log() -> None:
    world = World()
    first = world.send(2)
    world.log.sent(first)
    world.log.failed(first, 0, 0, 1)
    world.log.put_back()
    second, third = world.send(2), world.send(2)
    assert joined_first(world.log, MOST) is None
    assert list(world.log.queue) == [first, second, third]


def test_batches_of_other_calls_epochs_and_sequences_are_left_alone() -> None:
    world = World()
    world.send(2)
    rows = world.send(2)
    rows.call = ProduceCall()  # Arrow rows
    assert joined_first(world.log, MOST) is None
    world = World()
    world.send(2)
    world.send(2).epoch = 2
    assert joined_first(world.log, MOST) is None
    world = World()
    world.send(2)
    gap = world.send(2)
    gap.base_sequence += 1
    assert joined_first(world.log, MOST) is None


def test_batches_of_another_producer_are_left_alone() -> None:
    world = World()
    world.send(2), world.send(2)
    world.on_ended = lambda chunk, call: None
    world.send(2), world.send(2)
    joined = joined_first(world.log, MOST)
    assert joined is not None
    assert [batch.records for batch in world.log.queue] == [4, 2, 2]
    assert joined_first(world.log, MOST) is None


def test_batches_are_joined_as_far_as_they_fit() -> None:
    world = World()
    sizes = [world.send(4).size for _ in range(5)]
    joined = joined_first(world.log, sum(sizes[:3]))
    assert joined is not None
    assert [batch.records for batch in world.log.queue] == [12, 4, 4]


def test_an_error_is_that_of_all_parts_and_doubt_too() -> None:
    world = World()
    world.send(2), world.send(3)
    joined = joined_first(world.log, MOST)
    assert joined is not None
    error = KafkaError("gone")
    joined.call.failed(error, in_doubt=True)
    assert world.outcomes() == [(True, -1, error, True)] * 5
    assert joined.call.error is error


def test_a_joined_batch_can_be_joined_again() -> None:
    world = World()
    world.send(2), world.send(3)
    assert joined_first(world.log, MOST) is not None
    world.send(4)
    joined = joined_first(world.log, MOST)
    assert joined is not None
    assert isinstance(joined.call, JointCall)
    assert [part.records for part in joined.call.parts] == [2, 3, 4]
    joined.call.acknowledged(joined, 10, -1)
    assert [offset for _, offset, _, _ in world.outcomes()] == list(range(10, 19))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=6), st.data())
def test_split_again_and_again_each_record_gets_its_own_outcome(
    counts: list[int], data: st.DataObject
) -> None:
    world = World()
    for count in counts:
        world.send(count)
    joined = joined_first(world.log, MOST)
    assert joined is not None
    pieces = [joined]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(pieces) - 1))
        if pieces[at].records > 1:
            pieces[at].must_split = True
            (halves,) = rebatch([pieces[at]], None)
            pieces[at].call.replaced(halves)
            pieces[at : at + 1] = halves
    assert keys(pieces) == [b"k%d" % n for n in range(sum(counts))]
    expected: list[tuple[bool, int, KafkaError | None, bool]] = []
    offset = 50
    for piece in pieces:
        if data.draw(st.booleans()):
            piece.call.acknowledged(piece, offset, -1)
            expected += [(True, offset + n, None, False) for n in range(piece.records)]
            offset += piece.records + 1  # another writer's record
        else:
            error = KafkaError("no")
            piece.call.failed(error)
            expected += [(True, -1, error, False)] * piece.records
    assert world.outcomes() == expected
    assert all(chunk.settled for chunk in world.chunks)
