"""Idempotent producers (KIP-98): duplicates, gaps, epochs, wrap-around, five batches in flight."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.devcluster.state.log.producers import ProducerRules
from parley.devcluster.state.log.replica import Appended, Prepared, Replica
from parley.devcluster.state.refused import Refused
from parley.errors.codes import (
    INVALID_PRODUCER_EPOCH,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_PRODUCER_ID,
)

Prepare = Callable[..., Prepared]
LARGEST = 2**31 - 1


@pytest.fixture
def leader(make_replica: Callable[..., Replica]) -> Replica:
    replica = make_replica(1)
    replica.lead(0, (1,))
    return replica


def send(leader: Replica, batch: Prepared) -> Appended:
    return leader.append([batch], now_ms=0)[0]


def refused(leader: Replica, batch: Prepared, **options: ProducerRules) -> int:
    before = (leader.log.end_offset, leader.log.size, len(leader.producers))
    with pytest.raises(Refused) as caught:
        leader.append([batch], now_ms=0, **options)
    assert (leader.log.end_offset, leader.log.size, len(leader.producers)) == before, (
        "nothing is kept"
    )
    return caught.value.code


def test_a_batch_sent_again_is_a_success_with_its_first_offset(
    leader: Replica, prepared: Prepare
) -> None:
    batches = [prepared(3, producer_id=7, producer_epoch=0, base_sequence=3 * n) for n in range(5)]
    for batch in batches:
        send(leader, batch)
    for number, batch in enumerate(batches):
        again = send(leader, batch)
        assert again == Appended(3 * number, 3 * number + 2, True, 1_002)
    assert leader.log.end_offset == 15


def test_only_five_batches_are_remembered(leader: Replica, prepared: Prepare) -> None:
    batches = [prepared(1, producer_id=7, producer_epoch=0, base_sequence=n) for n in range(6)]
    for batch in batches:
        send(leader, batch)
    assert refused(leader, batches[0]) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(leader, batches[1]).duplicate


@pytest.mark.parametrize("sequence", [0, 2, 4, 100, LARGEST])
def test_a_gap_is_refused(leader: Replica, prepared: Prepare, sequence: int) -> None:
    send(leader, prepared(3, producer_id=7, producer_epoch=0, base_sequence=0))
    assert refused(
        leader, prepared(1, producer_id=7, producer_epoch=0, base_sequence=sequence)
    ) == (OUT_OF_ORDER_SEQUENCE_NUMBER)
    send(leader, prepared(1, producer_id=7, producer_epoch=0, base_sequence=3))


def test_sequences_wrap_to_zero(leader: Replica, prepared: Prepare) -> None:
    # …, LARGEST, 0, 1
    first = prepared(4, producer_id=7, producer_epoch=0, base_sequence=LARGEST - 1)
    assert first.facts is not None
    assert first.facts.last_sequence == 1
    send(leader, first)
    assert send(leader, first).duplicate
    send(leader, prepared(1, producer_id=7, producer_epoch=0, base_sequence=2))
    other = prepared(1, producer_id=8, producer_epoch=0, base_sequence=LARGEST)
    send(leader, other)
    send(leader, prepared(1, producer_id=8, producer_epoch=0, base_sequence=0))
    assert leader.log.end_offset == 7


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero(
    leader: Replica, prepared: Prepare
) -> None:
    send(leader, prepared(2, producer_id=7, producer_epoch=1, base_sequence=0))
    assert (
        refused(leader, prepared(1, producer_id=7, producer_epoch=0, base_sequence=2))
        == INVALID_PRODUCER_EPOCH
    )
    assert refused(leader, prepared(1, producer_id=7, producer_epoch=2, base_sequence=2)) == (
        OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    send(leader, prepared(1, producer_id=7, producer_epoch=2, base_sequence=0))


def test_a_producer_without_state_may_begin_anywhere_since_kip_360(
    leader: Replica, prepared: Prepare
) -> None:
    batch = prepared(1, producer_id=7, producer_epoch=0, base_sequence=41)
    assert refused(leader, batch, rules=ProducerRules(UNKNOWN_PRODUCER_ID)) == UNKNOWN_PRODUCER_ID
    assert send(leader, batch).base_offset == 0


def test_producers_do_not_disturb_each_other(leader: Replica, prepared: Prepare) -> None:
    for producer in range(50):
        send(leader, prepared(2, producer_id=producer, producer_epoch=0, base_sequence=0))
    for producer in range(50):
        assert send(
            leader, prepared(2, producer_id=producer, producer_epoch=0, base_sequence=0)
        ).duplicate
        assert not send(
            leader, prepared(1, producer_id=producer, producer_epoch=0, base_sequence=2)
        ).duplicate


def test_batches_without_a_producer_are_never_duplicates(
    leader: Replica, prepared: Prepare
) -> None:
    batch = prepared(2)
    assert [send(leader, batch).base_offset for _ in range(3)] == [0, 2, 4]


def test_a_truncation_forgets_what_it_removes(leader: Replica, prepared: Prepare) -> None:
    batches = [prepared(1, producer_id=7, producer_epoch=0, base_sequence=n) for n in range(3)]
    for batch in batches:
        send(leader, batch)
    leader.truncate_to(2)
    assert send(leader, batches[1]).duplicate
    assert send(leader, batches[2]) == Appended(2, 2), "removed, so it is appended again"


def test_a_follower_knows_what_its_leader_knew(
    leader: Replica, make_replica: Callable[..., Replica], prepared: Prepare
) -> None:
    follower = make_replica(2)
    batch = prepared(2, producer_id=7, producer_epoch=0, base_sequence=0)
    for run in leader.append([batch], now_ms=0)[1]:
        follower.replicate(run, leader_epoch=0, now_ms=0)
    follower.lead(1, (2,))
    assert follower.append([batch], now_ms=0)[0] == Appended(0, 1, True, 1_001)
