"""The table of what changed with each release: oldest first, one row each, every row a change."""

from __future__ import annotations

from itertools import pairwise

from parley.devcluster.release.behaviour import Behaviour
from parley.devcluster.release.profile import BEHAVIOURS, behaviour_of
from parley.versions import releases
from parley.versions.releases import release_number


def test_each_release_has_one_row_and_the_oldest_comes_first() -> None:
    numbers = [release_number(since) for since, _ in BEHAVIOURS]
    assert all(before < after for before, after in pairwise(numbers))


def test_each_row_begins_with_a_release_that_was_measured() -> None:
    measured = [found.number for found in releases().values()]
    for since, _ in BEHAVIOURS:
        number = release_number(since)
        assert any(one[: len(number)] == number for one in measured), since


def test_each_row_changes_something() -> None:
    was = Behaviour()
    for since, change in BEHAVIOURS:
        now = change(was)
        assert now != was, f"{since} has a row that changes nothing"
        was = now


def test_a_release_has_the_changes_of_all_before_it_and_of_none_after_it() -> None:
    expected = {release_number("0"): Behaviour()}
    for since, change in BEHAVIOURS:
        expected[release_number(since)] = change(list(expected.values())[-1])
    for found in releases().values():
        border = max(one for one in expected if one <= found.number)
        assert behaviour_of(found) == expected[border]
