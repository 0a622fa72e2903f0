"""The pytest plugin: what its fixtures give, what its marker takes, and that
loading it costs nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from parley.testing import pytest_plugin

from ...support import GENEROUS_S

PLUGIN = "parley.testing.pytest_plugin"
REGISTERED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "testing.md"
OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    *(() if REGISTERED else ("-p", PLUGIN)),
)


def run(directory: Path, text: str, conftest: str = "") -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(text)
    (directory / "conftest.py").write_text(conftest)
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", *OPTIONS, str(directory / "test_it.py")]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=GENEROUS_S, cwd=directory, check=False
    )


def test_the_markers_of_a_test_its_class_and_its_module_are_one(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
import pytest

pytestmark = pytest.mark.kafka(brokers=2, topics={"of-module": 3})

@pytest.mark.kafka(release="3.9")
class TestIt:
    @pytest.mark.kafka(topics=["own"])
    def test_merged(self, kafka_cluster):
        assert [broker.release for broker in kafka_cluster.brokers] == ["3.9.1"] * 2
        assert set(kafka_cluster.leaders("own")) == {0}

    @pytest.mark.kafka(versions=["2.4"])
    def test_brokers_are_one_choice(self, kafka_cluster):
        assert [broker.release for broker in kafka_cluster.brokers] == ["2.4.1"]
        assert set(kafka_cluster.leaders("of-module")) == {0, 1, 2}
""",
    )
    assert ended.returncode == 0, ended.stdout


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


def test_the_marker_takes_topics_security_a_folder_and_settings(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
import pytest
from parley.devcluster import ClusterSettings, Security

@pytest.mark.kafka(brokers=1, topics=["a", "b"])
def test_names(kafka_cluster):
    assert len(kafka_cluster.leaders("a")) == len(kafka_cluster.leaders("b")) == 1

@pytest.mark.kafka(topics={"a": 6, "b": {"partitions": 2, "replication_factor": 1}})
def test_numbers(kafka_cluster):
    assert (len(kafka_cluster.leaders("a")), len(kafka_cluster.leaders("b"))) == (6, 2)

@pytest.mark.kafka(security=Security("SASL_PLAINTEXT", users={"ann": "secret"}))
def test_login(kafka_cluster):
    assert kafka_cluster.client_properties("ann")["security.protocol"] == "SASL_PLAINTEXT"

@pytest.mark.kafka(security="SSL", brokers=1)
def test_tls(kafka_cluster):
    assert "BEGIN CERTIFICATE" in kafka_cluster.ca_pem

@pytest.mark.kafka(brokers=1, data_dir=True, topics=["kept"])
def test_folder(kafka_cluster, tmp_path_factory):
    found = tmp_path_factory.getbasetemp().glob("kafka*/**/*")
    assert [path for path in found if "kept" in path.name]

@pytest.mark.kafka(brokers=1, settings={"num_partitions": 5})
def test_settings(kafka_cluster):
    assert kafka_cluster._async().settings == ClusterSettings(num_partitions=5)

@pytest.mark.kafka(releases={2: "2.4"})
def test_releases(kafka_cluster):
    assert [broker.release for broker in kafka_cluster.brokers][1] == "2.4.1"
""",
    )
    assert "7 passed" in ended.stdout, ended.stdout + ended.stderr


def test_one_fixture_configures_all_clusters_and_the_marker_comes_before_it(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
import pytest

def test_session(kafka_cluster_session):
    assert [broker.release for broker in kafka_cluster_session.brokers] == ["3.9.1", "2.4.1"]
    assert len(kafka_cluster_session.leaders("orders")) == 6

def test_plain(kafka_cluster):
    assert [broker.release for broker in kafka_cluster.brokers] == ["3.9.1", "2.4.1"]

@pytest.mark.kafka(brokers=1, release="4.3")
def test_marked(kafka_cluster):
    assert [broker.release for broker in kafka_cluster.brokers] == ["4.3.0"]
    assert len(kafka_cluster.leaders("orders")) == 6

@pytest.mark.kafka(topics=None)
def test_without_the_topics(kafka_cluster):
    kafka_cluster.create_topic("orders")

def test_several(kafka_cluster_factory):
    first, second = kafka_cluster_factory(), kafka_cluster_factory(brokers=1, topics=["other"])
    assert first.cluster_id != second.cluster_id
    assert (len(first.brokers), len(second.brokers)) == (2, 1)
    assert len(second.leaders("other")) == 1
""",
        """
import pytest

@pytest.fixture(scope="session")
def kafka_cluster_options():
    return {"versions": ["3.9", "2.4"], "topics": {"orders": 6}}
""",
    )
    assert "5 passed" in ended.stdout, ended.stdout + ended.stderr


def test_the_examples_of_the_document_run(tmp_path: Path) -> None:
    blocks = re.findall(
        r"(?<!-->\n)```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
    )
    tests = [block for block in blocks if "def test_" in block]
    (conftest,) = [block for block in blocks if "def test_" not in block]
    ended = run(tmp_path, "\n".join(tests), conftest)
    assert f"{sum(block.count('def test_') for block in tests)} passed" in ended.stdout, (
        ended.stdout + ended.stderr
    )


def test_the_document_names_every_fixture_and_every_option() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    fixtures = {name for name in dir(pytest_plugin) if name.startswith("kafka_")}
    assert named == fixtures | set(pytest_plugin.OPTIONS)
    assert all(f"{option}=" in pytest_plugin.MARKER for option in pytest_plugin.OPTIONS)


WRONG = {
    "broker=3": "do not know broker",
    "'3.9'": "keywords only",
    "brokers=1, versions=['2.4', '3.9']": "2 versions for 1 brokers",
    "versions='3.9'": "versions is a list",
    "topics='orders'": "topics is a list of names or a table",
}
"""Arguments of the marker, and what is said of each."""


def test_a_wrong_marker_is_reported(tmp_path: Path) -> None:
    tests = [
        f"@pytest.mark.kafka({marker})\ndef test_{number}(kafka_cluster): pass\n"
        for number, marker in enumerate(WRONG)
    ]
    ended = run(tmp_path, "import pytest\n" + "".join(tests))
    assert f"{len(WRONG)} errors" in ended.stdout, ended.stdout + ended.stderr
    for text in WRONG.values():
        assert text in ended.stdout


def test_a_marker_that_would_change_nothing_is_refused(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        "import pytest\n@pytest.mark.kafka(brokers=1)\ndef test_it(kafka_cluster_session): pass\n",
    )
    assert "test_it: @pytest.mark.kafka is for kafka_cluster" in ended.stdout + ended.stderr
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR


def test_loading_it_imports_nothing_heavy() -> None:
    code = (
        f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; print(sorted(m for m in "
        "set(sys.modules) - before if not m.startswith('parley.errors')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=GENEROUS_S, check=True
    )
    loaded = [name for name in eval(ended.stdout) if name.startswith("parley.") or "." not in name]
    assert not [
        name
        for name in loaded
        if name.startswith(("parley.devcluster", "parley.net", "pyarrow", "asyncio"))
    ]


def test_a_wrong_setting_is_reported() -> None:
    with pytest.raises(pytest.UsageError, match='Did you mean "auto_create_topics"'):
        pytest_plugin.cluster_arguments({"settings": {"auto_create_topic": False}})
