"""Who shares a worker under `-n`: tests of one Spark session, and tests of shared
real brokers; the rest is free.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from ...support.ours import copy_rules

TEST = """
import os, pathlib, pytest
from typing import Any

@pytest.fixture
def {fixture}() -> None: ...

@pytest.mark.parametrize("number", range({count}))
def test_{name}(number, {fixture}: Any):
    with open({notes!r}, "a") as notes:
        notes.write(os.environ["PYTEST_XDIST_WORKER"] + " {name}\\n")
"""
FILES = {
    "spark/test_read.py": "spark",
    "spark/test_stream.py": "stream",
    "spark/write/test_exactly_once.py": "spark",
    "spark/unit/test_options.py": "options",
    "pipelines/test_demo.py": "spark",
    "real/test_client.py": "real_broker",
    "real/test_consumer.py": "real_cluster",
    "real/test_tls.py": "cluster_of_its_own",
    "golden/test_exchanges.py": "java",
    "unit/test_wire.py": "data",
    "unit/test_codecs.py": "data",
    "cluster/test_life.py": "cluster",
}
"""Files, and the fixture that their tests take."""
SESSION = ("spark_test_read", "spark_test_stream", "spark_write_test_exactly_once")
BROKERS = ("real_test_client", "real_test_consumer")


def workers_of(folder: Path, *options: str) -> dict[str, set[str]]:
    """Run the files on two workers; return each file's name with the workers that ran its tests."""
    notes, folder = folder / "notes", folder / "tests"
    for path, fixture in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        name = path.replace("/", "_").removesuffix(".py")
        (folder / path).write_text(
            TEST.format(name=name, fixture=fixture, notes=str(notes), count=4)
        )
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI"))
    }
    # Nothing may be skipped here for want of Java: what is asked is where a test runs.
    rules = copy_rules(folder, more="\n\ndef missing(need: str) -> None: ...\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *options,
         *rules],
        capture_output=True, text=True, check=False, env=environ, cwd=folder.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    found: dict[str, set[str]] = defaultdict(set)
    for line in notes.read_text().splitlines():
        worker, name = line.split()
        found[name].add(worker)
    assert len(found) == len(FILES)
    return found


@pytest.mark.matrix
def test_a_session_has_one_worker_and_shared_brokers_have_another(tmp_path: Path) -> None:
    found = workers_of(tmp_path)
    session = set().union(*(found[name] for name in SESSION))
    brokers = set().union(*(found[name] for name in BROKERS))
    assert (len(session), len(brokers)) == (1, 1)
    assert session != brokers
    assert all(len(workers) == 1 for workers in found.values()), (
        "a file's tests share its fixtures: one worker each"
    )


@pytest.mark.matrix
def test_another_distribution_is_obeyed(tmp_path: Path) -> None:
    found = workers_of(tmp_path, "--dist", "each")
    assert all(workers == {"gw0", "gw1"} for workers in found.values())
