"""docs/proof/negotiation.md names, for each of the rules V1 to V16, tests that
exist and carry its number.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| V(\d+) \|.*\| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[^`:]+)::(test_v(\d+)_\w+)`")


def listed() -> dict[int, list[tuple[str, str, int]]]:
    text = (ROOT / "docs" / "proof" / "negotiation.md").read_text(encoding="utf-8")
    return {
        int(rule): [(path, name, int(number)) for path, name, number in NAMED.findall(tests)]
        for rule, tests in ROW.findall(text)
    }


def test_every_rule_is_there_once_and_has_a_test() -> None:
    assert list(listed()) == list(range(1, 17))
    assert all(listed().values())


def test_every_named_test_exists_and_carries_the_number_of_its_rule() -> None:
    for rule, tests in listed().items():
        for path, name, number in tests:
            assert number == rule, name
            assert re.search(
                rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE
            ), name


def test_no_numbered_test_is_left_out() -> None:
    named = {name for tests in listed().values() for _, name, _ in tests}
    for folder in ("unit/protocol", "unit/net", "cluster"):
        for path in (ROOT / "tests" / folder).glob("test_*.py"):
            found = set(
                re.findall(
                    r"^(?:async )?def (test_v\d\d_\w+)\(",
                    path.read_text(encoding="utf-8"),
                    re.MULTILINE,
                )
            )
            assert found <= named, f"{path.name}: {found - named} not in docs/proof/negotiation.md"
