"""The pytest plugin: what its fixtures give, what its marker takes, and that loading it costs nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "parley.testing.pytest_plugin"
REGISTERED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", *(() if REGISTERED else ("-p", PLUGIN)))


def run(directory: Path, text: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", *OPTIONS, str(directory / "test_it.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=directory, check=False)


def test_the_fixtures_give_running_clusters(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
import pytest

def test_new(kafka_cluster):
    assert len(kafka_cluster.bootstrap_servers.split(",")) == 3
    kafka_cluster.create_topic("t")

def test_another(kafka_cluster):
    kafka_cluster.create_topic("t")

@pytest.mark.kafka(versions=["2.0", "3.9", "4.3"])
def test_versions(kafka_cluster):
    assert [broker.release for broker in kafka_cluster.brokers] == ["2.0.1", "3.9.1", "4.3.0"]

@pytest.mark.kafka(brokers=1, release="3.9")
def test_one(kafka_cluster):
    assert [broker.release for broker in kafka_cluster.brokers] == ["3.9.1"]

ids = set()

@pytest.mark.parametrize("turn", [1, 2])
def test_shared(kafka_cluster_session, turn):
    ids.add(kafka_cluster_session.cluster_id)
    assert len(ids) == 1
""",
    )
    assert "6 passed" in ended.stdout, ended.stdout + ended.stderr


WRONG = {
    "broker=3": "does not know broker",
    "'3.9'": "keywords only",
    "brokers=1, versions=['2.4', '3.9']": "2 versions for 1 brokers",
}
"""Arguments of the marker, and what is said of each."""


def test_a_wrong_marker_is_told(tmp_path: Path) -> None:
    tests = [
        f"@pytest.mark.kafka({marker})\ndef test_{number}(kafka_cluster): pass\n" for number, marker in enumerate(WRONG)
    ]
    ended = run(tmp_path, "import pytest\n" + "".join(tests))
    assert "3 errors" in ended.stdout, ended.stdout + ended.stderr
    for text in WRONG.values():
        assert text in ended.stdout


def test_loading_it_imports_nothing_heavy() -> None:
    code = (
        f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; "
        "print(sorted(m for m in set(sys.modules) - before if not m.startswith('parley.errors')))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    loaded = [name for name in eval(ended.stdout) if name.startswith("parley.") or "." not in name]
    assert not [name for name in loaded if name.startswith(("parley.devcluster", "parley.net", "pyarrow", "asyncio"))]
