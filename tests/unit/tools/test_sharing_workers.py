"""Who shares a worker under `-n`: Spark's tests one, the real brokers' another, the rest wherever there is room."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

CONFTEST = Path(__file__).parents[2] / "conftest.py"
TEST = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_{name}(number):
    with open({notes!r}, "a") as notes:
        notes.write(os.environ["PYTEST_XDIST_WORKER"] + " {name}\\n")
"""
FILES = {
    "spark/test_read.py": "spark",
    "spark/unit/test_options.py": "spark",
    "pipelines/test_demo.py": "spark",
    "real/test_client.py": "real",
    "real/test_tls.py": "real",
    "golden/test_exchanges.py": "real",
    "unit/test_wire.py": "",
    "unit/test_codecs.py": "",
    "cluster/test_life.py": "",
}


def workers_of(folder: Path, *options: str) -> dict[str, set[str]]:
    """Run the files on two workers; return each file's name with the workers that ran its tests."""
    notes = folder / "notes"
    for path, mark in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        marked = f"import pytest\npytestmark = pytest.mark.{mark}\n" if mark and not path.startswith(mark) else ""
        name = path.replace("/", "_").removesuffix(".py")
        (folder / path).write_text(marked + TEST.format(name=name, notes=str(notes), count=4))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI"))}
    # Nothing may be skipped here for want of Java: what is asked is where a test runs.
    (folder / "conftest.py").write_text(CONFTEST.read_text() + "\n\ndef missing(need: str) -> None: ...\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *options, str(folder)],
        capture_output=True, text=True, check=False, env=environ, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    found: dict[str, set[str]] = defaultdict(set)
    for line in notes.read_text().splitlines():
        worker, name = line.split()
        found[name].add(worker)
    assert len(found) == len(FILES)
    return found


def test_spark_has_one_worker_and_real_brokers_the_other(tmp_path: Path) -> None:
    found = workers_of(tmp_path)
    spark = [found[path.replace("/", "_").removesuffix(".py")] for path, kind in FILES.items() if kind == "spark"]
    real = [found[path.replace("/", "_").removesuffix(".py")] for path, kind in FILES.items() if kind == "real"]
    assert len(set.union(*spark)) == 1
    assert len(set.union(*real)) == 1
    assert set.union(*spark) != set.union(*real)
    assert all(len(workers) == 1 for workers in found.values()), "a file's tests share its fixtures: one worker each"


def test_another_distribution_is_obeyed(tmp_path: Path) -> None:
    found = workers_of(tmp_path, "--dist", "each")
    assert all(workers == {"gw0", "gw1"} for workers in found.values())
