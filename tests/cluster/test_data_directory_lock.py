"""One cluster at a time on a data directory; whoever comes second is refused before
anything is read or changed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.devcluster import LocalCluster
from parley.devcluster.directory_lock import LOCK_FILE, DirectoryLock
from parley.devcluster.state.keeper import CLEAN_STOP
from parley.errors import ConfigError, NetworkError

from ..support import GENEROUS_S

COMMAND = [sys.executable, "-m", "parley", "cluster", "start", "--brokers", "1", "--data-dir"]


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.fixture
def start() -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def begin(directory: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stderr is not None
        while "running;" not in (line := process.stderr.readline()):
            assert line, "the command ended"
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_second_command_is_refused_and_changes_nothing(
    start: Callable[[Path], subprocess.Popen[str]], tmp_path: Path
) -> None:
    first = start(tmp_path)
    before = contents(tmp_path)
    second = subprocess.run(
        [*COMMAND, str(tmp_path)], capture_output=True, text=True, timeout=GENEROUS_S, check=False
    )
    assert second.returncode != 0
    assert f"in use by the cluster of process {first.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    assert contents(tmp_path) == before
    with pytest.raises(ConfigError, match=f"process {first.pid}"):
        LocalCluster(brokers=1, data_dir=tmp_path).start()
    assert contents(tmp_path) == before
    first.send_signal(signal.SIGTERM)
    assert first.wait(GENEROUS_S) == 0
    assert CLEAN_STOP in contents(tmp_path)


def test_what_was_made_after_the_refusal_survives_kill_9(
    start: Callable[[Path], subprocess.Popen[str]], tmp_path: Path
) -> None:
    first = start(tmp_path)
    with pytest.raises(ConfigError):
        LocalCluster(brokers=1, data_dir=tmp_path).start()
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "parley",
            "cluster",
            "ctl",
            "--data-dir",
            str(tmp_path),
            "create-topic",
            "--name",
            "t",
        ],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    first.kill()
    first.wait()
    assert CLEAN_STOP not in contents(tmp_path)
    with LocalCluster(brokers=1, data_dir=tmp_path) as again:
        assert again.leaders("t")[0][0] == 1


def test_two_clusters_of_one_process(tmp_path: Path) -> None:
    with LocalCluster(brokers=1, data_dir=tmp_path) as cluster:
        cluster.create_topic("t")
        with pytest.raises(
            ConfigError, match=rf"another cluster of this process \({os.getpid()}\)"
        ):
            LocalCluster(brokers=1, data_dir=tmp_path).start()
        cluster.create_topic("u")
    with LocalCluster(brokers=1, data_dir=tmp_path) as cluster:
        assert cluster.leaders("t").keys() == cluster.leaders("u").keys() == {0}


def test_a_start_that_fails_gives_the_directory_back(tmp_path: Path) -> None:
    with LocalCluster(brokers=1) as other:
        port = int(other.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(NetworkError):
            LocalCluster(brokers=1, data_dir=tmp_path, port=port).start()
    (tmp_path / "cluster.journal").write_bytes(b"damaged\n")
    with pytest.raises(Exception, match="damaged"):
        LocalCluster(brokers=1, data_dir=tmp_path).start()
    (tmp_path / "cluster.journal").unlink()
    with LocalCluster(brokers=1, data_dir=tmp_path):
        pass


def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        lock.release()  # as if this process had died: the child lives on
        DirectoryLock(tmp_path).release()
    finally:
        os.write(done[1], b"x")
        os.waitpid(child, 0)
        for end in (*ready, *done):
            os.close(end)


def test_only_this_user_reads_the_lock_file(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path / "data")
    assert (tmp_path / "data" / LOCK_FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data" / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    lock.release()
    lock.release()
