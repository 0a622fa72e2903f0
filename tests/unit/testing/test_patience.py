"""Waiting for a condition in tests."""

from __future__ import annotations

import pytest

from ...support import eventually, eventually_async


def test_what_comes_true_is_returned() -> None:
    found = iter([0, None, "", "here"])
    assert eventually(lambda: next(found)) == "here"


async def test_an_assertion_that_fails_is_tried_again() -> None:
    left = [3, 2, 1]

    def look() -> bool:
        assert left.pop() == 3
        return True

    assert await eventually_async(look)


def test_what_never_comes_is_said_with_what_was_found_last() -> None:
    with pytest.raises(
        AssertionError, match=r"the sun did not come to be within 0 s; found last: \[\]"
    ):
        eventually(list, "the sun", within_s=0)


def test_another_error_ends_the_wait() -> None:
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0)
