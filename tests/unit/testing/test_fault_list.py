"""docs/proof/faults.md names tests for each fault around a client (C), a
broker (B) and Spark (S).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parley_laboratory.rule_lists import complaints

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("label", "faults"),
    [("C", [*range(1, 13), *range(15, 19)]), ("B", range(1, 11)), ("S", range(1, 15))],
)
def test_every_fault_is_listed_with_tests_that_exist(label: str, faults: range) -> None:
    assert complaints(ROOT, "docs/proof/faults.md", label, faults) == []
