"""A transactional id step by step (KIP-98, KIP-360, KIP-890): what each request makes
of it, and what is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import LARGEST_EPOCH, ProducerIdentity
from parley.devcluster.state.transactions.transaction import (
    State,
    Transaction,
    completed,
    due_ms,
    ended,
    ended_second,
    fenced,
    initialised,
    missing_partitions,
    with_partitions,
)
from parley.errors.codes import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
)

PARTITION = ("t", 0)
HELD = Transaction("tx", 7, epoch=3, last_epoch=2, timeout_ms=1_000, updated_ms=50)
OPEN = with_partitions(HELD, HELD.identity, [PARTITION], now_ms=100)


def code(step: Callable[[], object]) -> int:
    with pytest.raises(Refused) as caught:
        step()
    return caught.value.code


def init(held: Transaction, claimed: tuple[int, int] | None = None) -> Transaction:
    identity = None if claimed is None else ProducerIdentity(*claimed)
    return initialised(held, identity, timeout_ms=60_000, now_ms=200, new_id=lambda: 99)


def end(
    held: Transaction | None, commit: bool, epoch: int = 3, producer_id: int = 7
) -> Transaction | None:
    return ended(held, ProducerIdentity(producer_id, epoch), commit=commit, now_ms=300)


def end_second(
    held: Transaction | None, commit: bool, epoch: int = 3, producer_id: int = 7
) -> Transaction | None:
    producer = ProducerIdentity(producer_id, epoch)
    return ended_second(held, producer, commit=commit, now_ms=300, new_id=lambda: 99)


def done(held: Transaction | None) -> Transaction:
    assert held is not None
    return completed(held, now_ms=400)


# -- InitProducerId --------------------------------------------------------------------------------


def test_a_new_id_begins_at_epoch_0_and_each_init_raises_it() -> None:
    first = init(Transaction("tx", 7))
    assert (first.identity, first.state, first.timeout_ms) == ((7, 0), State.EMPTY, 60_000)
    assert init(first).identity == (7, 1)


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ((7, 3), (7, 4)),  # the newest epoch goes on
        ((7, 2), (7, 3)),  # the one before: the answer was lost, the same one again
    ],
)
def test_a_producer_that_names_its_identity_goes_on(
    claimed: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert init(HELD, claimed).identity == expected


@pytest.mark.parametrize("claimed", [(7, 1), (7, 9), (8, 3)])
def test_a_producer_that_names_another_identity_is_fenced(claimed: tuple[int, int]) -> None:
    assert code(lambda: init(HELD, claimed)) == PRODUCER_FENCED


@pytest.mark.parametrize("claimed", [None, (7, LARGEST_EPOCH)])
def test_used_up_epochs_give_a_new_producer_id(claimed: tuple[int, int] | None) -> None:
    last = replace(HELD, epoch=LARGEST_EPOCH)
    rotated = init(last, claimed)
    assert rotated.identity == (99, 0)
    if claimed is not None:
        assert init(rotated, claimed).identity == (99, 0), "asked again, the same answer"
    assert code(lambda: init(rotated, (7, 5))) == PRODUCER_FENCED


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_while_a_transaction_is_being_ended_nothing_else_goes(state: State) -> None:
    ending = replace(OPEN, state=state)
    assert code(lambda: init(ending)) == CONCURRENT_TRANSACTIONS
    assert (
        code(lambda: with_partitions(ending, ending.identity, [PARTITION], now_ms=0))
        == CONCURRENT_TRANSACTIONS
    )
    assert code(lambda: end(ending, state is State.PREPARE_COMMIT)) == CONCURRENT_TRANSACTIONS
    assert code(lambda: end(ending, state is State.PREPARE_ABORT)) == INVALID_TXN_STATE


# -- partitions ------------------------------------------------------------------------------------


def test_the_first_partition_begins_the_transaction_and_known_ones_change_nothing() -> None:
    assert (OPEN.state, OPEN.started_ms, OPEN.partitions) == (State.ONGOING, 100, {PARTITION})
    assert with_partitions(OPEN, OPEN.identity, [PARTITION], now_ms=500) is OPEN
    more = with_partitions(OPEN, OPEN.identity, [("t", 1)], now_ms=500)
    assert (more.partitions, more.started_ms) == ({PARTITION, ("t", 1)}, 100)
    again = with_partitions(done(end(more, True)), more.identity, [("u", 0)], now_ms=900)
    assert (again.partitions, again.started_ms) == ({("u", 0)}, 900)


def test_partitions_that_are_not_part_of_the_transaction_are_named() -> None:
    assert missing_partitions(OPEN, OPEN.identity, [PARTITION, ("u", 0)]) == {("u", 0)}
    assert missing_partitions(HELD, HELD.identity, [PARTITION]) == {PARTITION}


@pytest.mark.parametrize(
    ("held", "producer", "expected"),
    [
        (None, (7, 3), INVALID_PRODUCER_ID_MAPPING),
        (HELD, (8, 3), INVALID_PRODUCER_ID_MAPPING),
        (HELD, (7, 2), PRODUCER_FENCED),
        (HELD, (7, 4), PRODUCER_FENCED),
    ],
)
def test_another_producer_can_do_nothing(
    held: Transaction | None, producer: tuple[int, int], expected: int
) -> None:
    identity = ProducerIdentity(*producer)
    assert code(lambda: with_partitions(held, identity, [PARTITION], now_ms=0)) == expected
    assert code(lambda: missing_partitions(held, identity, [PARTITION])) == expected
    assert code(lambda: end(held, True, producer[1], producer[0])) == expected


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_may_be_asked_for_again_but_not_the_other_one(commit: bool) -> None:
    assert code(lambda: end(HELD, commit)) == INVALID_TXN_STATE, "nothing was begun"
    ending = end(OPEN, commit)
    assert ending is not None
    assert (ending.commits, ending.partitions, ending.epoch) == (commit, {PARTITION}, 3)
    after = done(ending)
    assert after.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert (after.partitions, after.identity) == (frozenset(), (7, 3))
    assert end(after, commit) is None
    assert code(lambda: end(after, not commit)) == INVALID_TXN_STATE


def test_releases_before_2_5_let_a_higher_epoch_pass_where_nothing_is_open() -> None:
    higher = ProducerIdentity(7, 9)
    committed = done(end(OPEN, True))
    assert ended(committed, higher, commit=True, now_ms=0, strict=False) is None
    assert code(lambda: ended(OPEN, higher, commit=True, now_ms=0, strict=False)) == PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_each_end_of_the_second_generation_raises_the_epoch(commit: bool) -> None:
    ending = end_second(OPEN, commit)
    assert ending is not None
    assert ending.identity == (7, 4), "the marker has it too"
    after = done(ending)
    assert after.identity == (7, 4)
    assert end_second(after, commit, epoch=3) is None, "asked again"
    assert code(lambda: end_second(after, not commit, epoch=3)) == INVALID_TXN_STATE
    assert code(lambda: end_second(after, commit, epoch=2)) == PRODUCER_FENCED
    assert code(lambda: end_second(after, True, epoch=4)) == INVALID_TXN_STATE, "nothing to commit"
    nothing = end_second(after, False, epoch=4)
    assert nothing is not None, "an abort may end nothing"
    assert (nothing.identity, nothing.partitions) == ((7, 5), frozenset())


def test_the_second_generation_takes_a_new_producer_id_when_epochs_are_used_up() -> None:
    last = replace(OPEN, epoch=LARGEST_EPOCH)
    ending = end_second(last, True, epoch=LARGEST_EPOCH)
    assert ending is not None
    assert ending.identity == (7, LARGEST_EPOCH + 1), "only the marker has the highest epoch"
    after = done(ending)
    assert after.identity == (99, 0)
    assert end_second(after, True, epoch=LARGEST_EPOCH) is None, "asked again, by the old identity"
    assert code(lambda: end_second(after, True, epoch=3)) == INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("second", [False, True])
def test_a_fence_raises_the_epoch_once_and_aborts(second: bool) -> None:
    shut = fenced(replace(OPEN, second_generation=second), now_ms=300)
    assert (shut.identity, shut.state, shut.partitions) == (
        (7, 4),
        State.PREPARE_ABORT,
        {PARTITION},
    )
    after = done(shut)
    assert code(lambda: end(after, False)) == PRODUCER_FENCED
    assert init(after).identity == (7, 5)
    assert code(lambda: init(after, (7, 3))) == PRODUCER_FENCED


def test_a_fence_of_the_last_epoch_leads_to_a_new_producer_id() -> None:
    shut = done(fenced(replace(OPEN, epoch=LARGEST_EPOCH), now_ms=300))
    assert shut.epoch == LARGEST_EPOCH + 1
    assert init(shut).identity == (99, 0)


def test_when_something_is_due() -> None:
    assert due_ms(OPEN, 5_000) == 1_100
    assert due_ms(HELD, 5_000) == 5_050
    assert due_ms(replace(OPEN, state=State.PREPARE_ABORT), 5_000) is None


def test_no_sequence_of_requests_leaves_the_epochs_order() -> None:
    """Whatever a client asks in whatever order, the pair (producer id, epoch) never goes back."""
    for commits in itertools.product((True, False), repeat=4):
        held, seen = init(Transaction("tx", 7)), []
        for number, commit in enumerate(commits):
            held = with_partitions(
                held, held.identity, [PARTITION], now_ms=number, second_generation=True
            )
            if number == 2:
                held = done(fenced(held, now_ms=number))
            else:
                held = done(end_second(held, commit, held.epoch, held.producer_id))
            seen.append(held.identity)
        assert seen == sorted(set(seen))
