"""Documents that list rules by label, each with the
tests that prove it: read, and held against the tests.

A row is `| M3 | what holds | `tests/…/test_x.py::test_m03_…`, … |`. A test proves the rule whose
label and number its name begins with, as `test_m03_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_NAMED = re.compile(r"`(tests/[^`:]+)::(test_\w+)`")


def listed(text: str, label: str) -> dict[int, list[tuple[str, str]]]:
    """Return rule number → (file, test) of each row of a document whose label has this letter."""
    rows = re.compile(rf"^\| {label}(\d+) \|.*\| (.+) \|$", re.MULTILINE)
    return {int(rule): _NAMED.findall(tests) for rule, tests in rows.findall(text)}


def complaints(root: Path, document: str, label: str, rules: Iterable[int]) -> list[str]:
    """Return what is wrong with a document's list: rules
    that are missing or unproven, tests that do not exist.

    `rules` are the numbers that must be there, once each and in order. A test with one of the
    list's labels that the document leaves out is a complaint too.
    """
    found = listed((root / document).read_text(encoding="utf-8"), label)
    wanted = list(rules)
    wrong = [] if list(found) == wanted else [f"{document} lists {list(found)}, not {wanted}"]
    wrong += [f"{label}{rule} has no test" for rule, tests in found.items() if not tests]
    letter = label.lower()
    for rule, tests in found.items():
        for path, name in tests:
            if not re.search(rf"_{letter}{rule:02d}_", name):
                wrong.append(f"{name} does not carry the number of {label}{rule}")
            elif not re.search(rf"^(async )?def {name}\(", _text(root / path), re.MULTILINE):
                wrong.append(f"{path} has no {name}")
    named = {name for tests in found.values() for _, name in tests}
    for source in sorted((root / "tests").rglob("test_*.py")):
        for name, number in re.findall(
            rf"^(?:async )?def (test_{letter}(\d\d)_\w+)\(", _text(source), re.MULTILINE
        ):
            if int(number) in wanted and name not in named:
                wrong.append(f"{source.name}: {name} is not in {document}")
    return wrong


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
