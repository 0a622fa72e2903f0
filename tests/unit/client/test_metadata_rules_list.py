"""docs/proof/leadership/metadata.md names, for each of the rules M1 to M18, K1 to K17
and L15, tests that prove it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parley_laboratory.rule_lists import complaints, listed

ROOT = Path(__file__).parents[3]
DOCUMENT = "docs/proof/leadership/metadata.md"


@pytest.mark.parametrize(
    ("label", "rules"), [("M", range(1, 19)), ("K", range(1, 18)), ("L", [15])]
)
def test_every_rule_is_listed_with_tests_that_exist(label: str, rules: range) -> None:
    assert complaints(ROOT, DOCUMENT, label, rules) == []


def test_a_wrong_list_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(
        "def test_m01_a():\n    pass\n\n\ndef test_m02_b():\n    pass\n"
    )
    text = (
        "| M1 | it holds | `tests/test_x.py::test_m01_a`, `tests/test_x.py::test_m01_gone` |\n| "
        "M3 | so | none |\n"
    )
    (tmp_path / "list.md").write_text(text)
    assert listed(text, "M") == {
        1: [("tests/test_x.py", "test_m01_a"), ("tests/test_x.py", "test_m01_gone")],
        3: [],
    }
    assert complaints(tmp_path, "list.md", "M", [1, 2, 3]) == [
        "list.md lists [1, 3], not [1, 2, 3]",
        "M3 has no test",
        "tests/test_x.py has no test_m01_gone",
        "test_x.py: test_m02_b is not in list.md",
    ]
