"""Shared fixtures of these tests themselves: a failed start is tried
again, what died is replaced.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ...support import GENEROUS_S

REPOSITORY = Path(__file__).parents[3]
CONFTEST = """
    from tests.support.lasting import Lasting

    def pytest_configure(config):
        config.pluginmanager.register(Lasting(), "lasting")
"""
HEAD = """
    import pytest
    from parley.client import Client
    from parley.devcluster import LocalCluster

    starts = []

    def offset(client):
        return client.metadata().controller_id
"""


def run(folder: Path, tests: str) -> str:
    """Run tests with the plugin in a pytest of their own; return the outcome of
    each and the last line.
    """
    (folder / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    (folder / "test_it.py").write_text(textwrap.dedent(HEAD) + textwrap.dedent(tests))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "test_it.py",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=GENEROUS_S,
        env=environment,
    )
    return done.stdout


def outcomes(printed: str) -> dict[str, str]:
    """Return {test: outcome} of pytest's summary."""
    words = [
        line.split()
        for line in printed.splitlines()
        if line.startswith(("PASSED", "FAILED", "ERROR"))
    ]
    return {line[1].partition("::")[2]: line[0] for line in words if "::" in line[1]}


def test_a_start_that_failed_once_fails_one_test(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
        @pytest.fixture(scope="session")
        def cluster():
            starts.append(1)
            if len(starts) == 1:
                raise TimeoutError("too busy")
            with LocalCluster(brokers=1) as running:
                yield running

        def test_1(cluster): pass
        def test_2(cluster): assert cluster.brokers
        def test_3(cluster): assert len(starts) == 2
        """,
    )
    assert outcomes(printed) == {"test_1": "ERROR", "test_2": "PASSED", "test_3": "PASSED"}, printed


@pytest.mark.matrix
def test_a_start_that_never_succeeds_is_not_tried_for_each_test(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
        @pytest.fixture(scope="module")
        def broken():
            starts.append(1)
            raise TimeoutError("too busy")

        @pytest.mark.parametrize("number", range(6))
        def test_it(broken, number): pass

        def test_last(): assert len(starts) == 3
        """,
    )
    assert outcomes(printed).pop("test_last") == "PASSED", printed
    assert "1 passed, 6 errors" in printed


def test_what_died_is_replaced_with_all_that_was_made_of_it(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
        @pytest.fixture(scope="session")
        def cluster():
            starts.append(1)
            with LocalCluster(brokers=1) as running:
                yield running

        @pytest.fixture(scope="session")
        def client(cluster):
            with Client(bootstrap_servers=cluster.bootstrap_servers) as found:
                yield found

        def test_1(client): assert offset(client) == 1
        def test_2(cluster): cluster.close()
        def test_3(client): assert offset(client) == 1
        def test_4(client): assert len(starts) == 2
        """,
    )
    assert set(outcomes(printed).values()) == {"PASSED"}, printed
    assert len(outcomes(printed)) == 4


@pytest.mark.matrix
def test_a_failed_test_leaves_no_faults_to_the_next(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
        @pytest.fixture(scope="module")
        def cluster():
            with LocalCluster(brokers=1) as running:
                yield running

        def test_1(cluster):
            cluster.create_topic("left")
            assert False

        def test_2(cluster): cluster.create_topic("left")
        """,
    )
    assert outcomes(printed) == {"test_1": "FAILED", "test_2": "PASSED"}, printed
