"""One partition's batches while its leader moves or its topic is created again:
pauses, hops, numbering.
"""

from __future__ import annotations

import itertools

import pytest

from parley.client.cluster.retry import Backoff
from parley.client.produce.sequences import MAX_EPOCH, PartitionSequences
from parley.client.produce.state import AT_ONCE, InTransaction, OutBatch, PartitionLog, ProduceCall
from parley.types import ZERO_UUID, TopicPartition

TP = TopicPartition("t", 0)
OLD, NEW = b"o" * 16, b"n" * 16
BACKOFF = Backoff(100, 1000)


def out(log: PartitionLog, *, transaction: InTransaction | None = None) -> OutBatch:
    numbers = log.numbers
    batch = OutBatch(TP, b"", 1, 2, 0, ProduceCall(), -1, 10**9, 1000, transaction=transaction)
    if numbers is not None:
        batch.producer_id, batch.epoch, batch.base_sequence = (
            numbers.producer_id,
            numbers.epoch,
            numbers.reserve(1),
        )
    batch.call.opened()
    log.add(batch)
    return batch


def fail(log: PartitionLog, now_ms: int, epoch: int, *, immediate: bool = False) -> None:
    batch = log.sendable(now_ms, epoch, 5)
    assert batch is not None
    log.sent(batch)
    delay_ms = 0 if immediate else BACKOFF.delay_ms(log.attempts, lambda: 0.5)
    log.failed(batch, now_ms, delay_ms, epoch)
    log.put_back()


# ---- leaders (KIP-951) ---------------------------------------------------------------------------


def test_k05_a_new_leader_is_tried_at_once_and_the_same_one_after_the_backoff() -> None:
    log = PartitionLog(TP)
    out(log)
    fail(log, 0, epoch=5)
    assert log.sendable(0, 5, 5) is None
    assert log.sendable(0, 6, 5) is not None  # learned from ordinary Metadata
    fail(log, 0, epoch=6)
    assert log.sendable(199, 6, 5) is None
    assert log.sendable(200, 6, 5) is not None


def test_k06_the_backoff_goes_on_counting_across_leaders() -> None:
    log = PartitionLog(TP)
    out(log)
    pauses, now = [], 0
    for epoch in (5, 5, 6, 6, 7):
        fail(log, now, epoch)
        pauses.append(log.not_before_ms - now)
        now = log.not_before_ms
    assert pauses == [100, 200, 400, 800, 1000]


def test_k13_after_some_leaders_in_a_row_the_pause_holds_for_new_ones_too() -> None:
    log = PartitionLog(TP)
    out(log)
    epochs = itertools.count(5)
    for _ in range(AT_ONCE):
        fail(log, 0, next(epochs))
    assert log.sendable(0, next(epochs), 5) is not None
    fail(log, 0, next(epochs))
    assert log.sendable(0, next(epochs), 5) is None
    assert log.sendable(1000, next(epochs), 5) is not None


# ---- a topic created again -----------------------------------------------------------------------


def numbered(*, acked: int = 3) -> PartitionLog:
    """A log whose numbering the broker knows, with nothing open."""
    log = PartitionLog(TP, numbers=PartitionSequences(7))
    log.see_topic(OLD)
    for _ in range(acked):
        batch = out(log)
        log.sent(batch)
        log.acknowledged(batch)
    return log


def test_an_idle_partition_starts_over_under_the_next_epoch() -> None:
    log = numbered()
    log.see_topic(NEW)
    log.begin_again()
    assert (log.numbers.epoch, log.numbers.next, log.restamp, log.confirmed) == (1, 0, False, False)


def test_open_batches_are_numbered_again_when_all_are_answered() -> None:
    log = numbered()
    first, second = out(log), out(log)
    log.sent(first)
    log.see_topic(NEW)
    log.begin_again()
    assert not log.restamp  # one is in flight: its answer decides
    log.failed(first, 0, 0, 5)
    log.begin_again()
    assert log.restamp
    assert log.open_batches() == [first, second]


@pytest.mark.parametrize(
    ("lies", "restamp"), [(None, True), (OLD, True), (NEW, False), (ZERO_UUID, False)]
)
def test_a_batch_that_may_lie_in_the_new_topic_keeps_its_numbers(
    lies: bytes | None, restamp: bool
) -> None:
    """Its answer was lost. Sent by the old id it cannot be in the new
    topic; sent by name it can.
    """
    log = numbered()
    batch = out(log)
    log.sent(batch)
    batch.maybe_in = lies
    log.failed(batch, 0, 0, 5)
    log.see_topic(NEW)
    log.begin_again()
    assert log.restamp is restamp
    assert log.reborn is not restamp


def test_a_reset_that_is_wanted_already_is_not_cleared() -> None:
    log = numbered()
    out(log)
    log.restamp = True
    log.see_topic(NEW)
    log.begin_again()
    log.see_topic(ZERO_UUID)
    log.begin_again()
    assert log.restamp


def test_the_first_id_is_no_new_topic_and_no_id_neither() -> None:
    log = PartitionLog(TP, numbers=PartitionSequences(7))
    for topic_id in (ZERO_UUID, OLD, ZERO_UUID, OLD):
        log.see_topic(topic_id)
        assert not log.reborn


def test_without_epochs_left_a_new_producer_id_is_asked_for() -> None:
    log = PartitionLog(TP, numbers=PartitionSequences(7, MAX_EPOCH))
    log.see_topic(OLD)
    log.see_topic(NEW)
    log.begin_again()
    assert log.restamp


def test_a_transaction_keeps_its_epoch() -> None:
    log = numbered()
    out(log, transaction=InTransaction("tx", 1))
    log.see_topic(NEW)
    log.begin_again()
    assert not log.restamp
    assert log.reborn
