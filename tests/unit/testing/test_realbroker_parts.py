"""The pure parts of parley.testing.realbroker, and its promise that no
process outlives its starter.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from parley.errors import ConfigError
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.ports import PortPool
from parley.testing.realbroker.process import JavaProcess, StartError
from parley.testing.realbroker.properties import NodeFacts, node_properties, properties_text
from parley.testing.realbroker.releases import (
    REAL_RELEASES,
    broker_artifacts,
    full_release,
    version_tuple,
)
from parley.versions import releases

from ...support import GENEROUS_S


def facts(release: str, **changes: object) -> NodeFacts:
    values: dict[str, object] = {
        "id": 1, "release": release, "directory": Path("/data"), "ports": {"PLAINTEXT": 1234},
        "roles": ("broker",), "oldest_release": release, "mixed": False, "controller": (9, 4321),
        "zookeeper_port": 99,
    }  # fmt: skip
    return NodeFacts(**(values | changes))  # type: ignore[arg-type]


def test_releases_are_in_order_and_complete() -> None:
    assert tuple(releases()) == REAL_RELEASES, "those that are measured are those that are tested"
    assert list(REAL_RELEASES) == sorted(REAL_RELEASES, key=version_tuple)


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("3.9", "3.9.1"),
        ("0.10", "0.10.2.2"),
        ("4", "4.3.0"),
        ("3.8.1", "3.8.1"),
        ("0.9", "0.9.0.1"),
    ],
)
def test_full_release(given: str, full: str) -> None:
    assert full_release(given) == full


@pytest.mark.parametrize("given", ["", "5", "0.8.2.2", "3.9.x", "trunk"])
def test_unknown_release_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="no Kafka release"):
        full_release(given)


@pytest.mark.parametrize(
    ("release", "scala"), [("0.11.0.3", "2.11"), ("1.0.2", "2.12"), ("2.4.1", "2.13")]
)
def test_artifacts_follow_the_release(release: str, scala: str) -> None:
    artifacts = broker_artifacts(release)
    assert artifacts[0] == f"org.apache.kafka:kafka_{scala}:{release}"
    assert any("zookeeper" in name for name in artifacts) == (version_tuple(release) < (2, 4))


def test_properties_of_both_kinds_of_metadata() -> None:
    old = node_properties(facts("2.4.1"))
    assert (old["broker.id"], old["zookeeper.connect"]) == ("1", "127.0.0.1:99")
    assert "inter.broker.protocol.version" not in old
    new = node_properties(
        facts(
            "4.3.0", ports={"PLAINTEXT": 1234, "CONTROLLER": 4321}, roles=("broker", "controller")
        )
    )
    assert new["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1234"
    assert new["listeners"] == "PLAINTEXT://127.0.0.1:1234,CONTROLLER://127.0.0.1:4321"
    assert new["controller.quorum.voters"] == "9@127.0.0.1:4321"
    assert "broker.id" not in new


def test_mixed_brokers_speak_as_the_oldest() -> None:
    mixed = node_properties(facts("2.4.1", mixed=True, oldest_release="0.11.0.3"))
    assert mixed["inter.broker.protocol.version"] == mixed["log.message.format.version"] == "0.11.0"


def test_given_properties_have_the_last_word() -> None:
    assert node_properties(facts("3.9.1", extra={"num.partitions": "7"}))["num.partitions"] == "7"
    assert properties_text({"a": "b\\c"}) == "a=b\\\\c\n"


def test_ports_are_not_shared() -> None:
    first, second = PortPool(), PortPool()
    ports = [pool.take() for pool in (first, second) for _ in range(50)]
    assert len(set(ports)) == 100
    first.release()
    second.release()


def test_process_that_ends_early_shows_its_log(tmp_path: Path) -> None:
    process = JavaProcess("thing", ["/bin/sh", "-c", "echo the reason; exit 3"], tmp_path / "log")
    with pytest.raises(
        StartError, match=r"(?s)thing ended with status 3 before it sang.*the reason"
    ):
        process.wait_until(lambda: False, "it sang", GENEROUS_S)
    process.kill()


def test_process_that_hangs_runs_into_the_deadline(tmp_path: Path) -> None:
    process = JavaProcess("thing", ["sleep", "1000"], tmp_path / "log")
    with pytest.raises(StartError, match="until it sang"):
        process.wait_until(lambda: False, "it sang", 0.2)
    process.stop()
    assert not process.running


_STARTER = """
import os, signal, sys
from pathlib import Path
from parley.testing.realbroker.process import JavaProcess, temporary_folder
folder = temporary_folder(Path(sys.argv[1]).parent)
(folder / "data").mkdir()
gone = JavaProcess("gone", ["sleep", "1000"], Path(sys.argv[1]))
left = [JavaProcess("left", ["sleep", "1000"], Path(sys.argv[1])) for _ in range(2)]
gone.kill()
print(folder, *(process.pid for process in left), flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["killed", "ended"])
def test_no_process_outlives_its_starter(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", _STARTER, str(tmp_path / "log"), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GENEROUS_S)
    assert done.returncode == (-signal.SIGKILL if how == "killed" else 0), done.stderr
    folder, *pids = done.stdout.split()
    assert Path(folder).parent == tmp_path
    left = [int(pid) for pid in pids]
    assert len(left) == 2
    for pid in left:
        # pidfd_open gives a handle that becomes readable
        # when the process ends; none is there once it has.
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(handle) as watched:
            assert select.select([watched], [], [], 30)[0], f"process {pid} is still there"
    for _ in range(3000):  # the guard is no child of ours: nothing can be waited for but the effect
        if not Path(folder).exists():
            break
        select.select([], [], [], 0.01)
    assert not Path(folder).exists()


def test_class_path_is_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Maven nor a network is needed once a class path was resolved; a lost
    jar makes it resolve again.
    """
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    jar = tmp_path / "a.jar"
    jar.touch()
    maven.write_text(
        "#!/bin/sh\nfor word; do case $word in -Dmdep.outputFile=*) out=${word#*=};; esac; done\n"
        f'echo {jar} > "$out"\necho run >> {tmp_path}/runs\n'
    )
    maven.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{maven.parent}:{os.environ['PATH']}")
    assert class_path(["g:a:1"]) == class_path(["g:a:1"]) == str(jar)
    assert (tmp_path / "runs").read_text().count("run") == 1
    jar.unlink()
    jar.with_name("b.jar").touch()
    maven.write_text(maven.read_text().replace("a.jar", "b.jar"))
    assert class_path(["g:a:1"]).endswith("b.jar")


def test_zookeeper_and_kraft_do_not_mix() -> None:
    with pytest.raises(ConfigError, match="ZooKeeper"):
        RealCluster("3.9", brokers=2, releases={2: "2.4"})
