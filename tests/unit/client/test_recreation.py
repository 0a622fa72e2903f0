"""Another topic under the name: what counts as evidence, release by release (KIP-516)."""

from __future__ import annotations

from parley.client.fetch.recreation import ROUNDS, Incarnation
from parley.types import ZERO_UUID

OLD, NEW, OTHER = b"a" * 16, b"b" * 16, b"c" * 16


def test_by_id_one_rejection_confirms_what_metadata_names() -> None:
    topic = Incarnation(OLD)
    assert not topic.observe(NEW, 1, 0, by_wire=True)
    assert not topic.observe(NEW, 2, 0, by_wire=True), (
        "metadata alone does not, where a broker would say it"
    )
    assert topic.in_doubt
    topic.refused()
    assert topic.observe(NEW, 2, 0, by_wire=True)
    assert topic.accept(5) == (OLD, NEW)
    assert not topic.in_doubt
    assert not topic.observe(NEW, 3, 0, by_wire=True)


def test_a_rejection_alone_is_a_broker_that_is_behind() -> None:
    topic = Incarnation(OLD)
    topic.refused()
    assert not topic.observe(OLD, 1, 0, by_wire=True)
    topic.served()
    assert not topic.observe(NEW, 2, 0, by_wire=True), "it has served the held id since"


def test_with_ids_in_metadata_only_two_answers_in_a_row_confirm() -> None:
    topic = Incarnation(OLD)
    assert not topic.observe(NEW, 1, 0, by_wire=False)
    assert not topic.observe(NEW, 1, 0, by_wire=False), "the same answer counts once"
    assert topic.observe(NEW, 2, 0, by_wire=False)
    swaying = Incarnation(OLD)
    assert not swaying.observe(NEW, 1, 0, by_wire=False)
    assert not swaying.observe(OLD, 2, 0, by_wire=False)
    assert not swaying.observe(NEW, 3, 0, by_wire=False), "not in a row"
    assert not swaying.observe(OTHER, 4, 0, by_wire=False), "not the same"


def test_an_id_held_for_more_than_a_minute_is_believed_at_once_to_have_changed() -> None:
    topic = Incarnation()
    topic.observe(OLD, 1, 1_000, by_wire=False)
    assert not topic.observe(NEW, 2, 61_000, by_wire=False)
    again = Incarnation(OLD, held_since_ms=1_000)
    assert again.observe(NEW, 2, 61_001, by_wire=False)


def test_a_change_back_needs_a_broker_to_confirm_it() -> None:
    topic = Incarnation(OLD)
    topic.observe(NEW, 1, 0, by_wire=False)
    assert topic.observe(NEW, 2, 0, by_wire=False)
    topic.accept(0)
    for answer in range(3, 9):
        assert not topic.observe(OLD, answer, 10**9, by_wire=False), (
            "ids are never used again: stale metadata"
        )
    topic.refused()
    assert topic.observe(OLD, 9, 10**9, by_wire=False)


def test_an_id_learned_late_and_one_that_is_not_reported_change_nothing() -> None:
    topic = Incarnation()
    assert not topic.observe(ZERO_UUID, 1, 0, by_wire=True)
    assert not topic.observe(OLD, 2, 0, by_wire=True)
    assert not topic.observe(ZERO_UUID, 3, 0, by_wire=True)
    assert (topic.held, topic.in_doubt) == (OLD, False)


def test_rounds_of_metadata_are_bounded() -> None:
    topic = Incarnation(OLD)
    topic.observe(NEW, 1, 0, by_wire=True)
    rounds = 0
    while topic.asks:
        topic.rounds += 1
        rounds += 1
        assert not topic.observe(NEW, 1, 0, by_wire=True)
    assert rounds == ROUNDS == 8
