"""docs/compatibility.md: a run changes the cells that it tried and no others, and the same outcomes
make the same text.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from parley.testing.realbroker import REAL_RELEASES

_PATH = Path(__file__).parents[2] / "real" / "compat" / "document.py"


@pytest.fixture
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parley_tests_compat_document", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def whole(made: ModuleType) -> dict[str, dict[str, str]]:
    return {row: dict.fromkeys(REAL_RELEASES, "works") for row in made.rows()}


def test_a_run_changes_what_it_tried_and_no_other_cell(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "PATH", tmp_path / "compatibility.md")
    made.PATH.write_text(made.document({}), encoding="utf-8")
    assert not any(made.outcomes_of(made.PATH.read_text(encoding="utf-8")).values())
    tried = {"codec zstd": {REAL_RELEASES[0]: "refused"}, "acls": {REAL_RELEASES[4]: "works"}}
    made.write(tried)
    found = made.outcomes_of(made.PATH.read_text(encoding="utf-8"))
    assert {row: cells for row, cells in found.items() if cells} == tried
    made.write({"codec zstd": {REAL_RELEASES[1]: "works"}})
    found = made.outcomes_of(made.PATH.read_text(encoding="utf-8"))
    assert found["codec zstd"] == {REAL_RELEASES[0]: "refused", REAL_RELEASES[1]: "works"}
    assert found["acls"] == tried["acls"]


def test_the_same_outcomes_make_the_same_text(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "PATH", tmp_path / "compatibility.md")
    outcomes = whole(made)
    made.PATH.write_text(made.document(outcomes), encoding="utf-8")
    first = made.PATH.read_text(encoding="utf-8")
    assert made.outcomes_of(first) == outcomes
    made.write({row: dict(reversed(cells.items())) for row, cells in reversed(outcomes.items())})
    assert made.PATH.read_text(encoding="utf-8") == first


def test_the_page_in_the_repository_is_as_it_would_be_written(made: ModuleType) -> None:
    text = made.PATH.read_text(encoding="utf-8")
    assert made.document(made.outcomes_of(text)) == text


def test_a_cell_shows_its_outcome(made: ModuleType) -> None:
    outcomes = whole(made)
    outcomes["zstd"] = dict(
        zip(
            REAL_RELEASES,
            ["refused", "older", "off", "elsewhere"] + ["works"] * (len(REAL_RELEASES) - 4),
            strict=True,
        )
    )
    del outcomes["zstd"][REAL_RELEASES[5]]
    (row,) = [
        line for line in made.document(outcomes).splitlines() if line.startswith("| zstd | 2.1")
    ]
    assert [cell.strip() for cell in row.split("|")[4:10]] == ["–", "↓", "○", "·", "✓", ""]
