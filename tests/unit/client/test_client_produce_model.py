"""The idempotent producer against a model of a
broker that loses, repeats and refuses what it likes.

The broker's half follows Kafka's ProducerStateManager: duplicates of the last five batches are
acknowledged again, a gap is refused, a new epoch begins at 0, an old one is fenced. Whatever
happens in between, each value of a call that was acknowledged is in the log once, and in order.
"""

import itertools
import random
from collections import deque

import pytest

from parley.client.produce.answers import Action, judge
from parley.client.produce.rebatch import rebatch
from parley.client.produce.resend import goes_as_it_is
from parley.client.produce.sequences import PartitionSequences, next_sequence
from parley.client.produce.state import OutBatch, PartitionLog, ProduceCall
from parley.client.produce.wire import ProduceAnswer
from parley.errors import NetworkError, broker_error
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
INVALID_RECORD = 87


class Broker:
    """One partition's log and what it remembers of producers."""

    def __init__(self, max_bytes=2**31):
        self.values = []
        self.producers = {}
        self.max_bytes = max_bytes

    def append(self, data):
        """Return an error code, 0 for success."""
        if len(data) > self.max_bytes:
            return 10
        batch = split(data)[0]
        epoch, last, recent = self.producers.get(batch.producer_id, (None, None, deque(maxlen=5)))
        if epoch is not None and batch.producer_epoch < epoch:
            return 47
        span = (batch.producer_epoch, batch.base_sequence, batch.record_count)
        if span in recent:
            return 0
        if epoch is not None:
            expected = 0 if batch.producer_epoch > epoch else next_sequence(last, 1)
            if batch.base_sequence != expected:
                return 45
        if epoch is None or batch.producer_epoch > epoch:
            recent = deque(maxlen=5)
        recent.append(span)
        end = next_sequence(batch.base_sequence, batch.record_count - 1)
        self.producers[batch.producer_id] = (batch.producer_epoch, end, recent)
        for chunk in decode_columns(data, first_offset=0):
            self.values += [int(row.value) for row in records(chunk.columns)]
        return 0


class World:
    """A producer's partition, a wire that may break, and the broker."""

    def __init__(self, seed, first_sequence=0, max_bytes=2**31):
        self.rng = random.Random(seed)
        self.broker = Broker(max_bytes)
        self.log = PartitionLog(TP, numbers=PartitionSequences(7, 0, first_sequence))
        self.wire = deque()
        self.calls = []
        self.now = 0
        self.numbers = itertools.count()
        self.worst_in_flight = 0

    def produce(self, batches, most_records=4):
        call, values = ProduceCall(), []
        for _ in range(batches):
            count = self.rng.randrange(1, most_records + 1)
            mine = [next(self.numbers) for _ in range(count)]
            values.append(mine)
            rows = [Record(-1, 0, 0, None, str(value).encode(), ()) for value in mine]
            numbers = self.log.numbers
            options = WriteOptions(
                producer_id=7,
                producer_epoch=numbers.epoch,
                base_sequence=numbers.reserve(count),
                max_batch_bytes=10**6,
            )
            data = encode_batches(columns_from_records(rows, with_offsets=False), None, options)[
                0
            ].data
            call.opened()
            self.log.add(
                OutBatch(
                    TP,
                    data,
                    count,
                    2,
                    0,
                    call,
                    -1,
                    10**9,
                    1000,
                    7,
                    numbers.epoch,
                    (numbers.next - count) % 2**31,
                )
            )
        self.calls.append((call, [value for mine in values for value in mine]))

    def send(self):
        batch = self.log.sendable(self.now, 1, 5)
        if batch is not None:
            self.log.sent(batch)
            self.wire.append(batch)
            self.worst_in_flight = max(self.worst_in_flight, len(self.log.in_flight))

    def break_wire(self):
        """The connection is lost: a prefix of what is on the wire arrived, no answer did."""
        arrived = self.rng.randrange(len(self.wire) + 1)
        for index, batch in enumerate(list(self.wire)):
            if index < arrived:
                self.broker.append(batch.data)
            self.again(batch, NetworkError("lost"))
        self.wire.clear()

    def again(self, batch, error):
        self.log.last_error = error
        self.log.failed(batch, self.now, self.rng.choice((0, 3)), 1)

    def answer(self, trouble):
        batch = self.wire.popleft()
        code = 0
        if self.rng.random() < trouble:
            code = self.rng.choice(
                (6, 7, 19, 20, 3, INVALID_RECORD if self.rng.random() < 0.2 else 5)
            )
            if code in (7, 20):  # refused, though it was appended
                code = self.broker.append(batch.data) or code
        else:
            code = self.broker.append(batch.data)
        follow_up = judge(
            self.log, batch, ProduceAnswer(TP, code, 0, -1, 0, None, None), 9, hinted=False
        )
        if follow_up.action is Action.DONE:
            self.log.acknowledged(batch)
            batch.call.acknowledged(batch, 0, -1)
        elif follow_up.action is Action.FAIL:
            self.log.dropped(batch)
            batch.call.failed(follow_up.error)
            for other in self.log.open_batches():
                if other.call is batch.call and other not in self.log.in_flight:
                    self.log.dropped(other)
        else:
            batch.must_split = batch.must_split or follow_up.action is Action.SPLIT
            self.log.restamp = self.log.restamp or follow_up.action is Action.RESTAMP
            self.again(batch, follow_up.error)

    def settle(self):
        log = self.log
        if not log.settled:
            return
        if goes_as_it_is(log):
            log.put_back()
            return
        todo = sorted(log.to_retry, key=lambda batch: batch.serial)
        numbers = log.numbers if log.restamp else None
        if numbers is not None:
            assert numbers.start_over()
            todo += log.queue
        made = rebatch(todo, numbers)
        if numbers is not None:
            log.numbered_again()
            log.restamp = False
        kept = []
        for batch, pieces in zip(todo, made, strict=True):
            batch.call.replaced(pieces)
            kept += [piece for piece in pieces if piece.call.error is None]
            batch.settled = batch not in kept
        log.put_back(kept)

    def run(self, steps, trouble):
        for _ in range(steps):
            self.step(trouble)
        for _ in range(10_000):
            if self.log.is_empty and not self.wire:
                return
            self.step(0)
        raise AssertionError("the producer did not come to an end")

    def step(self, trouble):
        self.now += 1
        self.settle()
        what = self.rng.random()
        if what < 0.05 and trouble:
            self.produce(self.rng.randrange(1, 6))
        elif what < 0.05 + trouble / 4 and self.wire:
            self.break_wire()
        elif what < 0.6:
            self.send()
        elif self.wire:
            self.answer(trouble)


@pytest.mark.parametrize("seed", range(150))
def test_every_acknowledged_value_is_in_the_log_once_and_in_order(seed):
    world = World(seed, first_sequence=2**31 - 20 if seed % 10 == 0 else 0)
    world.produce(3)
    world.run(300, trouble=(0.0, 0.1, 0.3, 0.6)[seed % 4])
    check(world)


@pytest.mark.parametrize("seed", range(24))
def test_batches_that_are_too_large_are_split_with_others_in_flight(seed):
    world = World(seed, max_bytes=90)
    for _ in range(2):
        world.produce(12, most_records=10)
    world.run(300, trouble=(0.0, 0.1, 0.3, 0.6)[seed % 4])
    check(world)


def check(world):
    """Everything has an outcome; what was acknowledged is in the log, once and in order."""
    log = world.broker.values
    assert len(log) == len(set(log)), "duplicated"
    for call, values in world.calls:
        assert call.settled
        present = [value for value in log if value in set(values)]
        assert present == sorted(present), "reordered"
        if call.error is None:
            assert present == values, "lost"
        else:
            assert call.error.code == INVALID_RECORD
    kept = [
        value
        for value in log
        if any(value in values for call, values in world.calls if call.error is None)
    ]
    assert kept == sorted(kept)


def test_several_batches_are_in_flight_once_the_broker_knows_the_producer():
    world = World(1)
    world.produce(20)
    world.send()
    world.answer(0)
    for _ in range(9):
        world.send()
    assert len(world.wire) == 5


def test_the_first_batch_of_an_epoch_goes_alone():
    world = World(1)
    world.produce(5)
    world.send()
    world.send()
    assert len(world.wire) == 1
    world.answer(0)
    for _ in range(9):
        world.send()
    assert len(world.wire) == 4


def test_without_sequences_one_batch_is_in_flight():
    log, call = PartitionLog(TP), ProduceCall()
    for _ in range(3):
        call.opened()
        log.add(OutBatch(TP, b"x", 1, 1, 0, call, 1, 100, 100))
    first = log.sendable(0, 1, 5)
    log.sent(first)
    assert log.sendable(0, 1, 5) is None
    log.failed(first, 0, 10, leader_epoch=1)
    assert log.sendable(50, 1, 5) is None  # nothing overtakes what is to be sent again
    assert log.settled
    log.put_back()
    assert log.sendable(5, 1, 5) is None  # the backoff
    assert log.sendable(5, 2, 5) is first  # a new leader ends it (K5)
    assert log.sendable(10, 1, 5) is first


def test_backoff_counts_on_across_leaders_and_ends_with_success():
    log, call = PartitionLog(TP), ProduceCall()
    call.opened()
    batch = OutBatch(TP, b"x", 1, 1, 0, call, 1, 100, 100)
    log.add(batch)
    for attempt, epoch in enumerate((1, 2, 3), 1):
        log.sent(log.sendable(10**6, epoch, 5))
        log.failed(batch, 0, 10, leader_epoch=epoch)
        assert log.attempts == attempt  # K6
        log.put_back()
    log.sent(log.sendable(10**6, 3, 5))
    log.acknowledged(batch)
    assert (log.attempts, log.failed_epoch, log.is_empty) == (0, None, True)


def test_a_failed_call_stays_failed():
    call = ProduceCall()
    batch = OutBatch(TP, b"x", 1, 2, 0, call, -1, 100, 100)
    call.opened()
    error = broker_error(29)
    call.failed(error)
    call.opened()
    call.acknowledged(batch, 5, -1)
    assert call.error is error
    call.failed(broker_error(7))
    assert call.error is error


def test_a_call_that_failed_is_not_sent_again():
    log, call = PartitionLog(TP), ProduceCall()
    call.opened()
    batch = OutBatch(TP, b"x", 1, 1, 0, call, 1, 100, 100)
    log.add(batch)
    log.sent(batch)
    call.error = broker_error(7)
    log.failed(batch, 0, 0, 1)
    assert log.is_empty


def test_each_batch_is_overdue_in_its_own_time_whatever_stands_before_it():
    log = PartitionLog(TP)
    batches = []
    for deadline_ms in (900, 300, 500, 300):
        batch = OutBatch(TP, b"x", 1, 1, 0, ProduceCall(), 1, deadline_ms, 100)
        batch.call.opened()
        log.add(batch)
        batches.append(batch)
    long, short, failed, also_short = batches
    log.sent(long)
    failed.call.error = broker_error(7)
    assert (log.overdue(299), log.look_again_ms) == ([], 300)
    assert (log.overdue(300), log.look_again_ms) == ([short, also_short], 900)
    for batch in (short, failed, also_short):
        log.dropped(batch)
    log.failed(long, 0, 0, 1)
    assert (log.overdue(900), log.look_again_ms) == ([long], None)


def test_when_a_batch_is_overdue_is_known_behind_one_whose_call_failed():
    log = PartitionLog(TP)
    for deadline_ms in (200, 400):
        batch = OutBatch(TP, b"x", 1, 1, 0, ProduceCall(), 1, deadline_ms, 100)
        log.add(batch)
        log.sent(batch)
    log.in_flight[0].call.error = broker_error(7)
    assert (log.overdue(200), log.look_again_ms) == ([], 400)
    assert log.overdue(400) == [batch]
