"""What counts as equal in a test of a flow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.pipelines.declared.trials import compare

ROWS = st.lists(
    st.dictionaries(
        st.sampled_from(["key", "value"]),
        st.one_of(st.integers(), st.text(), st.none(), st.lists(st.integers()), st.booleans()),
    )
)


@given(ROWS, st.randoms())
def test_what_is_there_is_expected_in_any_order(rows: list[dict[str, Any]], random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert compare("a", shuffled, rows).passed


@given(ROWS, st.integers(1, 3))
def test_each_row_counts_once(rows: list[dict[str, Any]], more: int) -> None:
    extra = {"key": "one more", "value": -1}
    found = compare("a", rows, [*rows, *[extra] * more])
    assert (len(found.missing), list(found.unexpected)) == (0, [extra] * more)
    found = compare("a", [*rows, *[extra] * more], rows)
    assert (len(found.missing), len(found.unexpected)) == (more, 0)


@pytest.mark.parametrize(
    ("wanted", "found", "equal"),
    [
        ({"n": 0.3}, {"n": 0.1 + 0.2}, True),
        ({"n": 3.0}, {"n": 3}, True),
        ({"n": {"m": 1}}, {"n": {"m": 1, "o": 2}}, True),
        ({"n": {"m": 1}}, {"n": 1}, False),
        ({"n": [1, {"m": 2}]}, {"n": [1, {"m": 2, "o": 3}]}, True),
        ({"n": [1]}, {"n": [1, 2]}, False),
        ({"n": 1}, {}, False),
        ({"at": "2026-01-01T00:00:00Z"}, {"at": datetime(2026, 1, 1, tzinfo=UTC)}, True),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, {"at": datetime(2026, 1, 1)}, True),
        ({"at": "soon"}, {"at": datetime(2026, 1, 1, tzinfo=UTC)}, False),
        ({"at": None}, {"at": datetime(2026, 1, 1, tzinfo=UTC)}, False),
    ],
)
def test_what_is_equal(wanted: dict[str, Any], found: dict[str, Any], equal: bool) -> None:
    assert compare("a", [wanted], [found]).passed is equal
