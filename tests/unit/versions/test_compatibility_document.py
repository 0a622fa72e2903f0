"""docs/compatibility.md: only a whole run may write it, and the same
outcomes make the same text.
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


def test_a_partial_run_leaves_the_document_alone(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "PATH", tmp_path / "compatibility.md")
    whole = {row: dict.fromkeys(REAL_RELEASES, "works") for row in made.rows()}
    fewer = {row: dict.fromkeys(REAL_RELEASES[1:], "works") for row in made.rows()}
    lacking = {row: cells for row, cells in whole.items() if row != "codec zstd"}
    for partial in ({}, fewer, lacking):
        assert not made.write_if_whole(partial)
        assert not made.PATH.exists()
    assert made.write_if_whole(whole)
    first = made.PATH.read_text(encoding="utf-8")
    backwards = {row: dict(reversed(cells.items())) for row, cells in reversed(whole.items())}
    assert made.write_if_whole(backwards)
    assert made.PATH.read_text(encoding="utf-8") == first


def test_a_cell_shows_its_outcome(made: ModuleType) -> None:
    outcomes = {row: dict.fromkeys(REAL_RELEASES, "works") for row in made.rows()}
    outcomes["zstd"] = dict(
        zip(
            REAL_RELEASES,
            ["refused", "older", "off"] + ["works"] * (len(REAL_RELEASES) - 3),
            strict=True,
        )
    )
    (row,) = [
        line for line in made.document(outcomes).splitlines() if line.startswith("| zstd | 2.1")
    ]
    assert row.split(" | ")[3:7] == ["–", "↓", "○", "✓"]
