"""Sequences and epochs of the idempotent producer."""

import pytest

from parley.client.produce.sequences import (
    MAX_EPOCH,
    PartitionSequences,
    SequenceReaction,
    next_sequence,
    react,
)
from parley.errors import LocalProtocolError


def test_sequences_follow_each_other_and_start_over():
    numbers = PartitionSequences(producer_id=7)
    assert [numbers.reserve(n) for n in (3, 1, 5)] == [0, 3, 4]
    assert numbers.next == 9
    numbers.next = 2**31 - 2
    assert numbers.reserve(2) == 2**31 - 2
    assert numbers.next == 0
    with pytest.raises(LocalProtocolError):
        numbers.reserve(0)


@pytest.mark.parametrize("start", [0, 5, 2**31 - 1, 2**31 - 3])
@pytest.mark.parametrize("count", [1, 2, 3, 1000])
def test_the_next_sequence_is_what_counting_one_by_one_gives(start, count):
    # Java's DefaultRecordBatch.incrementSequence, step by step
    expected = start
    for _ in range(count):
        expected = 0 if expected == 2**31 - 1 else expected + 1
    assert next_sequence(start, count) == expected


def test_a_new_epoch_begins_at_zero_until_none_is_left():
    numbers = PartitionSequences(7, epoch=MAX_EPOCH - 1, next=55)
    assert numbers.start_over()
    assert (numbers.epoch, numbers.next) == (MAX_EPOCH, 0)
    numbers.reserve(2)
    assert not numbers.start_over()
    numbers.renew(8, 0)
    assert (numbers.producer_id, numbers.epoch, numbers.next) == (8, 0, 0)


@pytest.mark.parametrize(
    ("code", "lowest", "current", "log_start", "reaction"),
    [
        (46, True, True, 0, SequenceReaction.ACKNOWLEDGED),
        (46, False, True, 0, SequenceReaction.ACKNOWLEDGED),
        (45, True, True, 0, SequenceReaction.RESTAMP),
        (45, False, True, 0, SequenceReaction.RETRY),  # an earlier batch has not been answered yet
        (45, True, False, 0, SequenceReaction.RETRY),  # stamped again meanwhile
        (59, True, True, 10, SequenceReaction.RESTAMP),
        (59, True, True, -1, SequenceReaction.RETRY),  # the partition is moving
        (59, False, True, 10, SequenceReaction.RETRY),
        (47, True, True, 0, SequenceReaction.FAIL),
        (47, True, False, 0, SequenceReaction.RETRY),
        (6, True, True, 0, None),
        (0, True, True, 0, None),
    ],
)
def test_what_errors_about_sequences_lead_to(code, lowest, current, log_start, reaction):
    assert react(code, is_lowest=lowest, is_current=current, log_start_offset=log_start) is reaction
