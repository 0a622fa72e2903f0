"""Which tests of long matrices of releases `make test`
runs, and which ones only `make test-matrix` does.

A test that runs for more than MOST_RELEASES releases runs in `make test` for the oldest, for one in
the middle and for the newest; the rest gets the marker `matrix`. So a new release in a list makes
`make test` no longer, and no test is left out of both. Real brokers take seconds to start: of their
releases `make test` has the oldest and the newest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

MOST_RELEASES, MOST_REAL_RELEASES = 3, 2
MIDDLE = "2.4"
"""The release in the middle, where a test has it: the last with ZooKeeper's
ways and without topic ids.
"""
_RELEASE = re.compile(r"\d+\.\d+(\.\d+){0,2}")


def mark_matrix(items: Iterable[pytest.Item]) -> None:
    """Give the marker to the tests of the releases between."""
    by_test: dict[tuple[str, str], list[tuple[pytest.Item, str]]] = defaultdict(list)
    for item in items:
        for name, value in _parameters(item):
            if isinstance(value, str) and _RELEASE.fullmatch(value):
                by_test[item.nodeid.partition("[")[0], name].append((item, value))
    for runs in by_test.values():
        is_real = any(item.nodeid.startswith("tests/real/") for item, _ in runs)
        kept = representative(
            {value for _, value in runs}, MOST_REAL_RELEASES if is_real else MOST_RELEASES
        )
        for item, value in runs:
            if value not in kept:
                item.add_marker(pytest.mark.matrix)


def representative(releases: Iterable[str], most: int = MOST_RELEASES) -> set[str]:
    """Return the releases that stand for all, `most` at most: oldest and
    newest, and one between.
    """
    ordered = sorted(set(releases), key=lambda text: [int(part) for part in text.split(".")])
    if len(ordered) <= most:
        return set(ordered)
    if most == MOST_REAL_RELEASES:
        return {ordered[0], ordered[-1]}
    middle = [name for name in ordered[1:-1] if f"{name}.".startswith(f"{MIDDLE}.")] or ordered[
        len(ordered) // 2 :
    ]
    return {ordered[0], middle[0], ordered[-1]}


def _parameters(item: pytest.Item) -> Iterable[tuple[str, Any]]:
    callspec = getattr(item, "callspec", None)
    return callspec.params.items() if callspec is not None else ()
