"""Which part of a matrix of releases stays in `make test`, and that the rest
runs in `make test-matrix`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from ...support import GENEROUS_S
from ...support.matrix import MOST_REAL_RELEASES, representative
from ...support.ours import copy_rules

TESTS = """
import pytest

@pytest.mark.parametrize("case", ["3.9", "a"])
@pytest.mark.parametrize("release", ["4.3", "0.9.0.1", "2.4", "3.9", "0.10.2"])
def test_wide(release, case): pass

@pytest.mark.parametrize("release", ["2.8", "3.9", "4.3"])
def test_narrow(release): pass
"""


@pytest.mark.parametrize(
    ("releases", "kept"),
    [
        (("4.3",), {"4.3"}),
        (("0.11.0", "3.9", "4.3"), {"0.11.0", "3.9", "4.3"}),
        (("4.3.0", "3.9.1", "2.4.1", "0.9.0.1", "0.10.0.1", "2.40"), {"0.9.0.1", "2.4.1", "4.3.0"}),
        (("2.8", "3.3", "3.9", "4.3"), {"2.8", "3.9", "4.3"}),
    ],
)
def test_the_oldest_the_newest_and_one_between_stay(
    releases: Iterable[str], kept: set[str]
) -> None:
    assert representative(releases) == kept


def test_of_real_brokers_the_oldest_and_the_newest_stay() -> None:
    assert representative(("2.4.1", "4.3.0", "0.9.0.1"), MOST_REAL_RELEASES) == {"0.9.0.1", "4.3.0"}


@pytest.mark.matrix
def test_each_test_runs_in_one_of_the_two(tmp_path: Path) -> None:
    rules = copy_rules(tmp_path / "tests")
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)

    def selected(markers: str) -> set[str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--collect-only",
            "-p",
            "no:cacheprovider",
            "-m",
            markers,
            *rules,
        ]
        environ = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=GENEROUS_S,
            env=environ,
        )
        return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}

    short, rest = selected("not matrix"), selected("matrix")
    assert not short & rest
    assert short | rest == selected("")
    assert len(short | rest) == 13
    assert rest == {
        f"test_wide[{release}-{case}]" for release in ("0.10.2", "3.9") for case in ("3.9", "a")
    }
