"""The table of the state machine's transitions is written by one command, and the
document is what it writes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "proof" / "leadership" / "transitions.md"
RULES = 18


def rows(text: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]


@pytest.mark.timeout(900)  # some seconds on a quiet machine
@pytest.mark.matrix
def test_the_command_writes_a_table_in_which_no_transition_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "tools/write_transitions.py", "--worlds", "2", "--steps", "10"]
    subprocess.run(
        [*command, "--output", str(tmp_path / "t.md")], cwd=ROOT, check=True, capture_output=True
    )
    written, kept = (tmp_path / "t.md").read_text("utf-8"), DOCUMENT.read_text("utf-8")
    assert "None is missing." in written
    assert "`python tools/write_transitions.py --worlds 2 --steps 10 --seed 1`" in written
    assert [row[0] for row in rows(written)] == [row[0] for row in rows(kept)]


def test_the_document_has_every_transition_of_at_least_twenty_thousand_steps() -> None:
    text = DOCUMENT.read_text("utf-8")
    found = re.search(r"^([\d,]+) steps; (\d+) of (\d+) transitions", text, re.MULTILINE)
    assert found is not None
    assert int(found[1].replace(",", "")) >= 20_000
    assert found[2] == found[3] == str(RULES * (RULES + 1))
    counts = [int(count) for row in rows(text)[2:] for count in row[1:]]
    assert (len(counts), min(counts) > 0) == (RULES * (RULES + 1), True)
    assert sum(counts) == int(found[1].replace(",", ""))
