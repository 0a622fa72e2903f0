"""The account of skipped tests: the last line of a run, and a failure where CI is set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ...support.ours import copy_rules

TESTS = """
import pytest

@pytest.mark.skip(reason="the moon is wrong")
def test_a(): pass

@pytest.mark.skip(reason="the moon is wrong")
def test_b(): pass

def test_c(): pytest.skip("no mvn")

def test_d(): pass

@pytest.mark.real
def test_e(): pass
"""


def run(
    folder: Path, *, ci: bool, path: str | None = None, select: str = ""
) -> subprocess.CompletedProcess[str]:
    folder /= "tests"
    rules = copy_rules(folder)
    (folder / "test_some.py").write_text(TESTS)
    environ = {
        name: value for name, value in os.environ.items() if name not in {"CI", "PYTEST_ADDOPTS"}
    }
    environ |= {"CI": "true"} if ci else {}
    environ["PATH"] = path if path is not None else environ["PATH"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        *rules,
    ]
    return subprocess.run(
        [*command, *(["-k", select] if select else [])],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )


@pytest.fixture
def no_tools(tmp_path: Path) -> str:
    (tmp_path / "bin").mkdir()
    return str(tmp_path / "bin")


def test_the_last_line_counts_every_reason(tmp_path: Path, no_tools: str) -> None:
    done = run(tmp_path, ci=False, path=no_tools)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == (
        "skipped 4: 2 x the moon is wrong; 1 x no mvn; 1 x no mvn: real brokers "
        "and the kafka-clients jars come from Maven"
    )


@pytest.mark.matrix
def test_where_ci_is_set_a_skip_fails_the_run(tmp_path: Path, no_tools: str) -> None:
    done = run(tmp_path, ci=True, path=no_tools)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].endswith(
        "(CI is set: nothing may be skipped, so this run fails)"
    )


@pytest.mark.matrix
def test_a_run_without_skips_says_so_and_passes_in_ci(tmp_path: Path) -> None:
    done = run(tmp_path, ci=True, select="test_d")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "skipped 0")
