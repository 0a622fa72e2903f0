"""What `make test` draws: the same examples and the same order each time, and
others where a seed is given.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ...support import GENEROUS_S
from ...support.ours import copy_rules

TESTS = """
import random
import pytest
from hypothesis import given, strategies as st

NOTES = open({notes!r}, "a")

@given(st.integers(), st.binary())
def test_examples(number, data):
    print("example", number, data, file=NOTES)

@pytest.mark.parametrize("name", "abcdefgh")
def test_order(name):
    print("test", name, random.random(), file=NOTES)
"""


def notes_of(folder: Path, *options: str, profile: str = "") -> list[str]:
    """Run the tests; return what they drew, in the order that they drew it."""
    folder.mkdir()
    rules = copy_rules(folder / "tests")
    (folder / "tests" / "test_it.py").write_text(TESTS.format(notes=str(folder / "notes")))
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTEST_ADDOPTS", "HYPOTHESIS_PROFILE"}
    }
    environ |= {"HYPOTHESIS_PROFILE": profile} if profile else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *rules]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environ,
        cwd=folder,
        timeout=GENEROUS_S,
    )
    assert done.returncode == 0, done.stdout
    assert all(option in done.stdout for option in options if option.startswith("--randomly")), (
        done.stdout
    )
    return (folder / "notes").read_text().splitlines()


@pytest.mark.matrix
def test_two_runs_draw_the_same(tmp_path: Path) -> None:
    first, second = (notes_of(tmp_path / name) for name in ("first", "second"))
    assert first == second
    assert len(first) > 100


@pytest.mark.matrix
def test_a_seed_repeats_a_long_run_and_another_differs(tmp_path: Path) -> None:
    def long(name: str, seed: int) -> list[str]:
        seeds = (f"--randomly-seed={seed}", f"--hypothesis-seed={seed}")
        return notes_of(tmp_path / name, *seeds, profile="long")

    first, again, other = long("first", 1), long("again", 1), long("other", 2)
    assert first == again
    examples = [{line for line in found if line.startswith("example")} for found in (first, other)]
    assert len(examples[0] - examples[1]) > 500
