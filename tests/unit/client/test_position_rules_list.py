"""docs/proof/leadership/positions.md names, for each of the rules P1 to P19 and L1
to L14, tests that prove it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parley_laboratory.rule_lists import complaints

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("label", "rules"), [("P", range(1, 20)), ("L", [*range(1, 11), 12, 13, 14])]
)
def test_every_rule_is_listed_with_tests_that_exist(label: str, rules: range) -> None:
    assert complaints(ROOT, "docs/proof/leadership/positions.md", label, rules) == []
