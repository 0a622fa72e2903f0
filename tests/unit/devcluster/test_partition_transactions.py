"""Transactions on one partition: last stable offset, aborted ones, markers; after
truncation and restart as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.replica import Prepared, Replica
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from parley.records import end_marker

Prepare = Callable[..., Prepared]


class Partition:
    """A leader, driven by hand."""

    def __init__(self, replica: Replica, prepared: Prepare) -> None:
        self.replica = replica
        self._prepared = prepared
        self._sequences: dict[tuple[int, int], int] = {}

    def write(
        self, producer: int, count: int = 1, *, epoch: int = 0, transactional: bool = True
    ) -> int:
        sequence = self._sequences.get((producer, epoch), 0)
        batch = self._prepared(
            count,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        appended, _ = self.replica.append([batch], now_ms=0)
        self._sequences[producer, epoch] = sequence + count
        return appended.base_offset

    def end(self, producer: int, *, commit: bool, epoch: int = 0) -> None:
        data = end_marker(producer, epoch, 5, commit=commit, now_ms=77)
        self.replica.append([Prepared(data, read_facts(data))], now_ms=0)

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        found = self.replica.producers.transactions.aborted_within(start, end)
        return [(entry.producer_id, entry.first_offset) for entry in found]

    @property
    def stable(self) -> int:
        return self.replica.last_stable_offset


@pytest.fixture
def leader(make_replica: Callable[..., Replica], prepared: Prepare) -> Partition:
    replica = make_replica(1)
    replica.lead(0, (1,))
    return Partition(replica, prepared)


def test_the_last_stable_offset_is_that_of_the_oldest_open_transaction(leader: Partition) -> None:
    leader.write(1, transactional=False)
    assert leader.stable == 1
    leader.write(7)
    leader.write(8)
    leader.write(1, transactional=False)
    assert leader.stable == 1
    leader.end(8, commit=True)
    assert leader.stable == 1, "7's is older and still open"
    leader.end(7, commit=True)
    assert leader.stable == leader.replica.log.end_offset == 6


def test_a_decision_counts_when_it_cannot_be_lost(leader: Partition) -> None:
    """KIP-98: the last stable offset waits for the marker to be replicated."""
    leader.replica.lead(0, (1, 2))
    leader.write(7)
    leader.end(7, commit=True)
    leader.replica.follower_at(2, 1)
    assert (leader.replica.high_watermark, leader.stable) == (1, 0), (
        "the follower has the record, not the marker"
    )
    leader.replica.follower_at(2, 2)
    assert leader.stable == 2


def test_aborted_transactions_are_listed_where_they_matter(leader: Partition) -> None:
    leader.write(7)  # 0
    leader.write(8)  # 1
    leader.end(7, commit=False)  # 2
    leader.write(8)  # 3
    leader.end(8, commit=False)  # 4
    leader.write(9)  # 5
    leader.end(9, commit=True)  # 6
    leader.write(7)  # 7
    leader.end(7, commit=False)  # 8
    assert leader.aborted(0, 9) == [(7, 0), (8, 1), (7, 7)]
    assert leader.aborted(3, 7) == [(8, 1)]
    assert leader.aborted(5, 7) == []
    assert leader.aborted(0, 1) == [(7, 0)]
    assert leader.aborted(8, 9) == [(7, 7)], "its marker is there to be read"


def test_a_marker_without_records_decides_nothing(leader: Partition) -> None:
    leader.end(7, commit=False)
    assert (leader.stable, leader.aborted(0, 9)) == (1, [])


def test_one_producer_does_not_mix_plain_batches_into_its_transaction(leader: Partition) -> None:
    leader.write(7)
    with pytest.raises(Refused) as caught:
        leader.write(7, transactional=False)
    assert caught.value.code == INVALID_TXN_STATE
    leader.write(7)
    leader.end(7, commit=True)
    leader.write(7, transactional=False)


def test_a_marker_with_a_newer_epoch_shuts_the_old_producer_out(leader: Partition) -> None:
    leader.write(7, epoch=3)
    leader.end(7, commit=False, epoch=4)
    with pytest.raises(Refused) as caught:
        leader.write(7, epoch=3)
    assert caught.value.code == INVALID_PRODUCER_EPOCH
    leader._sequences[7, 4] = 1
    with pytest.raises(Refused) as caught:
        leader.write(7, epoch=4)
    assert caught.value.code == OUT_OF_ORDER_SEQUENCE_NUMBER, "the new epoch begins at sequence 0"
    leader._sequences[7, 4] = 0
    leader.write(7, epoch=4)


def state_of(replica: Replica) -> Any:
    found = replica.producers
    producers = [
        (
            s.producer_id,
            s.epoch,
            s.last_sequence,
            s.coordinator_epoch,
            found.transactions.first_offset(s.producer_id),
        )
        for s in found.states()
    ]
    return producers, found.transactions.aborted_within(0, 100), replica.last_stable_offset


def test_a_truncation_opens_again_what_it_removes_the_end_of(leader: Partition) -> None:
    leader.write(7)
    leader.write(8)
    before = state_of(leader.replica)
    leader.end(7, commit=False)
    leader.end(8, commit=True)
    assert leader.stable == 4
    leader.replica.truncate_to(2)
    assert state_of(leader.replica) == before


def test_a_follower_knows_what_its_leader_knows(
    leader: Partition, make_replica: Callable[..., Replica]
) -> None:
    follower = make_replica(2)
    for step in (
        lambda: leader.write(7, 2), lambda: leader.write(8), lambda: leader.end(7, commit=False),
        lambda: leader.write(9), lambda: leader.end(8, commit=True),
    ):  # fmt: skip
        step()
    for facts, data in leader.replica.log.batches_from(0):
        follower.replicate(((facts,), bytes(data)), leader_epoch=0, now_ms=0)
    follower.heard_high_watermark(leader.replica.high_watermark)
    assert state_of(follower) == state_of(leader.replica)
    follower.lead(1, (2,))
    assert follower.last_stable_offset == leader.stable


def test_records_deleted_below_an_open_transaction_do_not_hide_what_is_left(
    leader: Partition,
) -> None:
    leader.write(7, 3)
    leader.write(1, transactional=False)
    leader.replica.log.advance_start(2)
    assert leader.stable == 2
