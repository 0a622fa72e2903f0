"""Offsets as text: canonical, stable on an idle stream, readable whoever wrote them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from parley.client import TopicPartition
from parley.errors import ConfigError
from parley.spark.values.offsets import Offsets, advance, recreated, stepped_back

A0, A1, A10, B0 = (
    TopicPartition("a", 0),
    TopicPartition("a", 1),
    TopicPartition("a", 10),
    TopicPartition("b", 0),
)
partitions = st.builds(
    TopicPartition, st.sampled_from(["a", "b.c", "Z", "-x", "9"]), st.integers(0, 12)
)
offsets = st.builds(
    Offsets,
    st.dictionaries(partitions, st.integers(0, 2**63 - 1), max_size=8),
    st.dictionaries(st.sampled_from(["a", "b.c", "Z"]), st.text("abc", min_size=22, max_size=22)),
    st.dictionaries(partitions, st.integers(0, 2**31 - 1), max_size=8),
)


def test_the_form_is_the_documented_one() -> None:
    found = Offsets({B0: 7, A10: 3, A1: 2, A0: 5}, {"a": "id-of-a", "gone": "x"}, {A0: 12, B0: -1})
    assert json.dumps(found.to_json(), separators=(",", ":")) == (
        '{"@parley":1,"@ids":{"a":"id-of-a"},"@epochs":{"a":{"0":12}},'
        '"a":{"0":5,"1":2,"10":3},"b":{"0":7}}'
    )  # fmt: skip


def test_what_is_not_known_is_left_out() -> None:
    assert Offsets({A0: 5}).to_json() == {"@parley": 1, "a": {"0": 5}}
    assert Offsets({}).to_json() == {"@parley": 1}


@given(offsets)
def test_offsets_survive_the_checkpoint(state: Offsets) -> None:
    once = state.to_json()
    again = Offsets.from_json(json.loads(json.dumps(once)))
    assert again.positions == state.positions
    assert json.dumps(again.to_json()) == json.dumps(once)


@given(offsets, st.randoms(use_true_random=False))
def test_the_text_does_not_depend_on_the_order_in_which_things_were_learnt(
    state: Offsets, rng: object
) -> None:
    items = list(state.positions.items())
    rng.shuffle(items)  # type: ignore[attr-defined]
    assert json.dumps(Offsets(dict(items), state.ids, state.epochs).to_json()) == json.dumps(
        state.to_json()
    )


def test_the_plain_form_of_sparks_own_source_is_read() -> None:
    found = Offsets.from_json({"a": {"0": 5, "10": 3}})
    assert (found.positions, found.ids, found.epochs) == ({A0: 5, A10: 3}, {}, {})


@pytest.mark.parametrize(
    "found",
    [
        {"a": 5},
        {"a": {"x": 5}},
        {"a": {"0": "5"}},
        {"a": {"0": True}},
        {"@epochs": [], "a": {"0": 5}},
    ],
)
def test_another_sources_checkpoint_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(
        ConfigError, match=r"not offsets of parley.*checkpoint location that of another query"
    ):
        Offsets.from_json(found)


def test_a_later_format_is_refused_and_not_guessed() -> None:
    with pytest.raises(ConfigError, match="format 2; this parley reads format 1"):
        Offsets.from_json({"@parley": 2, "a": {"0": 5}})


def test_nothing_moved_gives_the_very_start_whatever_the_leaders_did() -> None:
    start = Offsets({A0: 5, A1: 0}, {}, {A0: 3, A1: 3})
    assert advance(start, Offsets({A0: 5, A1: 0}, {"a": "id"}, {A0: 9, A1: 9})) is start


def test_an_epoch_changes_with_its_position_only() -> None:
    start = Offsets({A0: 5, A1: 0}, {"a": "id"}, {A0: 3, A1: 3})
    end = advance(start, Offsets({A0: 6, A1: 0}, {"a": "id"}, {A0: 9, A1: 9}))
    assert end.epochs == {A0: 9, A1: 3}


def test_an_epoch_learnt_later_is_taken_with_the_next_move() -> None:
    start = Offsets({A0: 5, A1: 0})
    end = advance(start, Offsets({A0: 6, A1: 0}, {"a": "id"}, {A0: 9, A1: 9}))
    assert (end.ids, end.epochs) == ({"a": "id"}, {A0: 9, A1: 9})


def test_an_id_once_known_is_kept_when_an_old_broker_answers() -> None:
    start = Offsets({A0: 5}, {"a": "id"}, {A0: 3})
    end = advance(start, Offsets({A0: 6}))
    assert (end.ids, end.epochs) == ({"a": "id"}, {})


def test_a_recreated_topic_has_moved_even_to_equal_offsets() -> None:
    start = Offsets({A0: 5}, {"a": "old"}, {A0: 3})
    end = advance(start, Offsets({A0: 5}, {"a": "new"}, {A0: 0}))
    assert end is not start
    assert (end.ids, end.epochs) == ({"a": "new"}, {A0: 0})


@pytest.mark.parametrize("end", [Offsets({A0: 5}), Offsets({A0: 5, A1: 0, B0: 0})])
def test_partitions_that_come_or_go_are_a_move(end: Offsets) -> None:
    assert advance(Offsets({A0: 5, A1: 0}), end).positions == end.positions


@pytest.mark.parametrize(
    "found",
    [
        {"logOffset": 3},
        {"t": {"zero": 5}},
        {"t": {"0": "5"}},
        {"t": 5},
        {"@epochs": 3, "t": {"0": 1}},
    ],
)
def test_the_checkpoint_of_another_source_is_reported(found: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="Is the checkpoint location that of another query"):
        Offsets.from_json(found)


@pytest.mark.parametrize(
    ("held", "found", "end", "other", "back"),
    [
        (5, 0, 9, True, False),  # fell onto those of a new topic
        (5, 2, 9, True, False),
        (5, 3, 9, False, True),  # fell, but not so far
        (2, 0, 9, False, True),
        (5, 5, 9, False, False),
        (5, 6, 1, False, False),  # a truncation: histories are asked
        (5, 5, 1, True, False),  # shorter, and no election came between
    ],
)
def test_without_ids_epochs_report_what_they_can(
    held: int, found: int, end: int, other: bool, back: bool
) -> None:
    start, now = Offsets({A0: 5}, {}, {A0: held}), Offsets({A0: end}, {}, {A0: found})
    assert ("a" in recreated(start, now), stepped_back(start, now) == [A0]) == (other, back)
    # where both ids are known, they alone decide
    same = Offsets({A0: end}, {"a": "id"}, {A0: found})
    assert not recreated(Offsets({A0: 5}, {"a": "id"}, {A0: held}), same)
    assert not stepped_back(Offsets({A0: 5}, {"a": "id"}, {A0: held}), same)


def test_the_id_of_a_topic_that_is_gone_is_not_kept_for_its_successor() -> None:
    """An old broker answered; the id that a newer one reports next is the successor's
    own, and no further change.
    """
    start = Offsets({A0: 5, B0: 1}, {"a": "old", "b": "id"}, {A0: 7})
    end = advance(start, Offsets({A0: 5, B0: 1}, {}, {A0: 0}))
    assert (end.ids, end.epochs) == ({"b": "id"}, {A0: 0})
    assert recreated(end, Offsets({A0: 6, B0: 1}, {"a": "new", "b": "id"}, {A0: 0})) == {}


def test_an_epoch_that_fell_is_recorded_even_if_nothing_moved() -> None:
    start = Offsets({A0: 5, A1: 5}, {}, {A0: 2, A1: 2})
    assert advance(start, Offsets({A0: 5, A1: 5}, {}, {A0: 0, A1: 3})).epochs == {A0: 0, A1: 2}
