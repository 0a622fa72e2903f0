"""The pool of transactional ids: no id is ever known to two attempts that can still run."""

from __future__ import annotations

from hypothesis import given, strategies as st

from parley.spark.write.turns import (
    MOST_EARLIER_TURNS,
    Slot,
    Turn,
    after_sweep,
    choose,
    earlier,
    id_name,
    query_id_name,
    turn_id_name,
)

SPARE = Turn(500, 3)
RECORDED = Slot(Turn(1000, 7), SPARE)


def test_the_attempt_with_the_very_next_turn_writes_under_the_spare_id() -> None:
    assert choose(RECORDED, Turn(1000, 8)) == SPARE


def test_any_other_attempt_writes_under_an_id_named_after_its_own_turn() -> None:
    for turn in (Turn(1000, 9), Turn(1000, 7), Turn(2000, 8), Turn(2000, 0)):
        assert choose(RECORDED, turn) == turn
    assert choose(Slot(Turn(1000, 7)), Turn(1000, 8)) == Turn(1000, 8)
    assert choose(None, Turn(1000, 0)) == Turn(1000, 0)


def test_what_others_left_is_named_without_the_attempts_own_id() -> None:
    assert list(earlier(RECORDED, Turn(1000, 8))) == []
    assert list(earlier(RECORDED, Turn(1000, 10))) == [Turn(1000, 9), Turn(1000, 8), SPARE]
    assert list(earlier(None, Turn(1000, 2))) == [Turn(1000, 1), Turn(1000, 0)]
    # the coordinator gave a new producer id
    assert list(earlier(RECORDED, Turn(2000, 1))) == [Turn(2000, 0)]
    assert len(list(earlier(None, Turn(1000, 30_000)))) == MOST_EARLIER_TURNS


def test_a_spare_stays_one_only_where_no_attempt_came_before_the_sweep() -> None:
    assert after_sweep(RECORDED, Turn(1000, 8)) == Slot(Turn(1000, 8), SPARE)
    assert after_sweep(RECORDED, Turn(1000, 9)) == Slot(Turn(1000, 9))
    assert after_sweep(RECORDED, Turn(2000, 0)) == Slot(Turn(2000, 0))


def test_names_report_query_task_and_turn_apart() -> None:
    names = {
        query_id_name("q"),
        turn_id_name("q", 1),
        turn_id_name("q", 11),
        id_name("q", 1, Turn(1, 11)),
    }
    assert names == {"q-driver", "q-1", "q-11", "q-1-1.11"}


class Coordinator:
    """Hands out turns of one task, as InitProducerId does."""

    def __init__(self) -> None:
        self.turn = Turn(1000, -1)

    def next(self) -> Turn:
        self.turn = Turn(self.turn.producer_id, self.turn.epoch + 1)
        return self.turn


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5), st.booleans()), max_size=30))
def test_no_two_attempts_share_an_id_unless_the_one_before_has_reported(
    batches: list[tuple[int, int, bool]],
) -> None:
    """Batches of several attempts each, one of which counts, with sweeps in
    between: as plans would have it.
    """
    coordinator, recorded = Coordinator(), None
    known_to: dict[Turn, int] = {}
    over: set[int] = set()
    for attempts, counts, sweep in batches:
        if sweep and recorded is not None:
            recorded = after_sweep(recorded, coordinator.next())
        turns = [coordinator.next() for _ in range(attempts)]
        for turn in turns:
            name = choose(recorded, turn)
            assert name not in known_to or known_to[name] in over
            known_to[name] = turn.epoch
        winner = turns[counts % attempts]
        assert choose(recorded, winner) not in list(earlier(recorded, winner))
        over.add(winner.epoch)
        recorded = Slot(winner, choose(recorded, winner))
