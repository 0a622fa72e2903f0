"""Positions: when they are validated, what an answer makes of them, and that none
is reset silently (KIP-320).
"""

from __future__ import annotations

import pytest

from parley.client.fetch.positions import Cause, Duration, PartitionPosition, Position, Spec, Stage
from parley.client.fetch.state import RawFetch
from parley.client.offsets.leader_epochs import NOT_AVAILABLE
from parley.client.results import EARLIEST, LATEST, EpochEndOffset
from parley.errors import DataLossError, KafkaError, LogTruncationError, TopicRecreatedError
from parley.types import TopicPartition

TP = TopicPartition("t", 0)
OLD, NEW = b"a" * 16, b"b" * 16


def place(policy: Spec | None = EARLIEST, offset: int = 10, epoch: int = 3) -> PartitionPosition:
    """Return a position that awaits its validation at leader 1 of epoch 5."""
    made = PartitionPosition(TP, policy)
    made.seek(offset, epoch)
    made.meet(1, 5)
    return made


def reading(
    policy: Spec | None = EARLIEST, consumed: int = 10, fetched: int = 10, epoch: int = 3
) -> PartitionPosition:
    """Return a position that is being fetched at leader 1 of epoch 5,
    ahead of what was consumed.
    """
    made = place(policy, consumed, epoch)
    made.validated(made.fetch, EpochEndOffset(epoch, 10**6))
    if fetched > consumed:
        made.fetched(fetched, epoch)
    return made


def test_p01_a_seek_without_an_epoch_is_never_validated() -> None:
    state = place()
    assert state.stage is Stage.AWAIT_VALIDATION
    state.seek(4)
    assert state.stage is Stage.FETCHING, "it ends a validation under way"
    assert state.meet(1, 5) is state.meet(2, 6) is Stage.FETCHING
    assert state.fetch == Position(4, -1, 2, 6)


def test_p02_a_seek_with_an_epoch_awaits_validation_and_can_be_read() -> None:
    state = PartitionPosition(TP)
    state.seek(10, 3)
    assert state.stage is Stage.AWAIT_VALIDATION
    assert (state.fetch.offset, state.consumed.offset_epoch) == (10, 3)
    assert state.meet(1, 5) is Stage.AWAIT_VALIDATION


def test_p03_another_leader_while_awaiting_is_the_one_to_ask() -> None:
    state = place()
    assert state.meet(2, 6) is Stage.AWAIT_VALIDATION
    assert state.fetch[2:] == (2, 6)
    assert state.meet(3, -1) is Stage.FETCHING, "a leader without epoch cannot be asked"


def test_p03_a_new_leader_epoch_makes_a_position_await_validation() -> None:
    state = reading()
    assert state.meet(1, 5) is Stage.FETCHING, "the same leader"
    assert state.meet(2, 6) is Stage.AWAIT_VALIDATION


def test_p04_where_the_leader_cannot_report_the_validation_is_skipped() -> None:
    state = place()
    assert state.validated(state.fetch, NOT_AVAILABLE) is None
    assert (state.stage, state.fetch.offset) == (Stage.FETCHING, 10)


def test_p07_an_epoch_that_ends_behind_the_position_is_valid() -> None:
    for end in (10, 11):
        state = place()
        assert state.validated(state.fetch, EpochEndOffset(3, end)) is None
        assert (state.stage, state.fetch) == (Stage.FETCHING, Position(10, 3, 1, 5))


@pytest.mark.parametrize("policy", [EARLIEST, LATEST])
def test_p07_truncation_with_a_policy_goes_to_where_the_histories_part(policy: Spec) -> None:
    state = place(policy)
    loss = state.validated(state.fetch, EpochEndOffset(2, 7))
    assert loss is not None
    assert (loss.cause, loss.position.offset, loss.resumed_at) == (Cause.TRUNCATED, 10, 7)
    assert (state.stage, state.fetch, state.consumed) == (
        Stage.FETCHING,
        Position(7, 2, 1, 5),
        Position(7, 2, 1, 5),
    )


def test_p07_truncation_without_a_policy_stops_with_both_offsets() -> None:
    state = place(None)
    assert state.validated(state.fetch, EpochEndOffset(2, 7)) is None
    assert isinstance(state.error, LogTruncationError)
    assert (state.error.position, state.error.position_epoch) == (10, 3)
    assert (state.error.divergent_offset, state.error.divergent_epoch) == (7, 2)
    assert (state.stage, state.consumed.offset) == (Stage.STOPPED, 10), "the position stays"
    state.seek(7, 2)
    assert (state.stage, state.error) == (Stage.AWAIT_VALIDATION, None)


def test_p07_what_was_only_fetched_ahead_is_no_loss() -> None:
    state = reading(None, consumed=10, fetched=50)
    position_epoch = state.position_epoch
    state.meet(2, 6)
    assert state.validated(state.fetch, EpochEndOffset(3, 20)) is None
    assert (state.stage, state.fetch.offset, state.error) == (Stage.FETCHING, 10, None)
    assert state.position_epoch > position_epoch, "what waits from before is not handed out"


def test_p07_a_fetch_answer_that_names_the_divergence_counts_the_same() -> None:
    state = reading(LATEST)
    loss = state.diverged(state.fetch, EpochEndOffset(2, 7))
    assert loss is not None
    assert (loss.resumed_at, state.fetch.offset, state.fetch.offset_epoch) == (7, 7, 2)


def test_p07_a_log_written_again_to_the_same_length_is_found_out_by_the_fetch() -> None:
    state = reading(LATEST)
    loss = state.diverged(state.fetch, EpochEndOffset(2, 15))
    assert loss is not None, "never silent"
    assert state.fetch == Position(10, 2, 1, 5), "the offset stays, under the epoch that is there"
    stopping = reading(None)
    assert stopping.diverged(stopping.fetch, EpochEndOffset(2, 15)) is None
    assert isinstance(stopping.error, LogTruncationError)


def test_p07_an_epoch_in_which_nothing_was_written_is_no_truncation() -> None:
    """A leader that wrote nothing leaves no trace in the logs of its successors."""
    state = PartitionPosition(TP)
    state.seek(0, 8, planned=True)
    state.meet(2, 9)
    assert state.validated(state.fetch, EpochEndOffset(0, 100)) is None
    assert state.diverged(state.fetch, EpochEndOffset(0, 100)) is None
    assert (state.stage, state.fetch.offset, state.fetch.offset_epoch) == (Stage.FETCHING, 0, 0)
    state.seek(70, 8, planned=True)
    state.meet(2, 9)
    state.validated(state.fetch, EpochEndOffset(0, 100))
    state.diverged(state.fetch, EpochEndOffset(0, 60))
    assert isinstance(state.error, LogTruncationError), (
        "a log that ends in front of it is another history"
    )


def test_p07_a_log_that_ends_early_in_its_leaders_own_epoch_is_another_topic() -> None:
    """A log is cut only when another leader comes, with an epoch of its own; on 2.7
    nothing else shows a new topic.
    """
    state = PartitionPosition(TP, LATEST)
    state.seek(100, 0)
    state.meet(1, 0)
    state.validated(state.fetch, EpochEndOffset(0, 100))
    assert state.diverged(state.fetch, EpochEndOffset(0, 60), has_id=False) is None
    assert (state.stage, state.reset) == (Stage.AWAIT_RESET, EARLIEST)
    loss = state.reset_to(EARLIEST, 0)
    assert loss is not None
    assert (loss.cause, loss.resumed_at) == (Cause.RECREATED, 0)


@pytest.mark.parametrize(
    "found", [EpochEndOffset(-1, -1), EpochEndOffset(-1, 5), EpochEndOffset(3, -1)]
)
def test_p08_an_epoch_that_the_leader_does_not_know(found: EpochEndOffset) -> None:
    state = place(LATEST)
    assert state.validated(state.fetch, found) is None
    assert (state.stage, state.reset) == (Stage.AWAIT_RESET, LATEST)
    loss = state.reset_to(LATEST, 25)
    assert loss is not None
    assert (loss.cause, loss.position.offset, loss.resumed_at) == (Cause.TRUNCATED, 10, 25)
    stopping = place(None)
    stopping.validated(stopping.fetch, found)
    assert isinstance(stopping.error, LogTruncationError)
    assert stopping.error.divergent_offset is None


def test_p09_an_answer_after_the_position_changed_is_ignored() -> None:
    state = place()
    asked = state.fetch
    state.seek(20, 4)
    state.meet(1, 5)
    assert state.validated(asked, EpochEndOffset(1, 1)) is None
    assert (state.stage, state.fetch.offset) == (Stage.AWAIT_VALIDATION, 20)
    state.request_reset(LATEST)
    assert state.validated(asked, EpochEndOffset(1, 1)) is None
    assert (state.stage, state.reset) == (Stage.AWAIT_RESET, LATEST), (
        "a reset that was asked for remains"
    )


def test_p09_a_reset_that_was_overtaken_is_ignored() -> None:
    state = PartitionPosition(TP, EARLIEST)
    state.request_reset(EARLIEST)
    state.request_reset(LATEST)
    assert state.reset_to(EARLIEST, 0) is None
    assert state.stage is Stage.AWAIT_RESET
    state.seek(7)
    state.reset_to(LATEST, 99)
    assert (state.stage, state.fetch.offset) == (Stage.FETCHING, 7)


def test_p10_an_answer_for_another_leader_epoch_does_not_complete() -> None:
    state = place()
    asked = state.fetch
    state.meet(1, 6)
    state.validated(asked, EpochEndOffset(3, 99))
    assert state.stage is Stage.AWAIT_VALIDATION
    state.validated(state.fetch, EpochEndOffset(3, 99))
    assert state.stage is Stage.FETCHING


def test_p12_the_epoch_of_a_position_follows_the_batches() -> None:
    state = reading()
    state.fetched(20, 4)
    state.passed(20, 4)
    assert (state.fetch[:2], state.consumed[:2]) == ((20, 4), (20, 4))
    state.fetched(30, -1)
    assert state.meet(2, 9) is Stage.FETCHING, "format 0 and 1 have no epochs: nothing to validate"
    raw = RawFetch(TP, 0, None, memoryview(b""), (), 9, ((3, 1), (7, 2), (9, 5)))
    assert [raw.epoch_before(offset) for offset in (1, 3, 4, 7, 8, 9)] == [1, 1, 2, 2, 5, 5]


def test_p15_out_of_range_for_another_position_is_ignored() -> None:
    state = reading(LATEST)
    state.out_of_range(9, DataLossError("gone"))
    assert state.stage is Stage.FETCHING
    state.out_of_range(10, DataLossError("gone"))
    assert (state.stage, state.reset) == (Stage.AWAIT_RESET, LATEST)
    stopping, error = reading(None), DataLossError("t-0: offset 10 is gone")
    stopping.out_of_range(10, error)
    assert stopping.error is error


def test_p15_out_of_range_follows_the_policy_whatever_was_read() -> None:
    for policy in (EARLIEST, LATEST, Duration(60_000)):
        state = reading(policy)
        state.passed(10, 3)
        state.out_of_range(10, DataLossError("gone"))
        assert state.reset == policy
        loss = state.reset_to(policy, 40)
        assert loss is not None
        assert (loss.cause, loss.resumed_at) == (Cause.OUT_OF_RANGE, 40)


def test_a_topic_created_again_begins_at_its_beginning_whatever_the_policy_says() -> None:
    state = reading(LATEST)
    state.passed(10, 3)
    state.recreated(OLD, NEW)
    assert (state.stage, state.reset) == (Stage.AWAIT_RESET, EARLIEST)
    loss = state.reset_to(EARLIEST, 0)
    assert loss is not None
    assert (loss.cause, loss.position.offset, loss.resumed_at) == (Cause.RECREATED, 10, 0)
    stopping = reading(None)
    stopping.recreated(OLD, NEW)
    assert isinstance(stopping.error, TopicRecreatedError)
    assert (stopping.error.planned_id, stopping.error.found_id) == (OLD, NEW)


def test_l03_the_question_carries_the_epoch_of_the_newest_leader() -> None:
    state = place()
    for epoch in (6, 7):
        state.meet(2, epoch)
    assert state.fetch.leader_epoch == 7
    state.validated(state.fetch, EpochEndOffset(3, 99))
    assert state.stage is Stage.FETCHING, "no endless loop"


def test_l05_a_partition_without_leader_is_validated_when_it_comes_back_unchanged() -> None:
    state = place()
    assert state.meet(-1, -1) is Stage.AWAIT_VALIDATION
    assert state.meet(1, 5) is Stage.AWAIT_VALIDATION
    state.validated(state.fetch, EpochEndOffset(3, 99))
    assert state.stage is Stage.FETCHING


def test_l06_a_second_leader_without_epochs_is_fetched_from_at_once() -> None:
    state = reading()
    assert state.meet(2, -1) is Stage.FETCHING
    again = reading()
    assert again.meet(2, 5) is Stage.FETCHING, "the same epoch: nothing to validate"


def test_an_error_stands_until_a_seek_and_one_that_may_be_over_until_it_was_reported() -> None:
    state, error = reading(), KafkaError("no")
    state.stop(error)
    assert (state.meet(2, 9), state.error) == (Stage.STOPPED, error)
    state.go_on()
    assert (state.stage, state.error) == (Stage.AWAIT_VALIDATION, None)
    state.seek(3)
    assert state.stage is Stage.FETCHING


def test_a_position_that_was_being_looked_up_is_looked_up_again_after_an_error() -> None:
    state = reading()
    state.request_reset(LATEST)
    state.stop(KafkaError("no"))
    state.go_on()
    assert (state.stage, state.reset, state.error) == (Stage.AWAIT_RESET, LATEST, None)
