"""The demo job as a person runs it: the command, its output, its exit status."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from parley import Client
from parley.devcluster import LocalCluster

from ..support import GENEROUS_S

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

ROWS = 3_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "kind", "amount", "note"])
        writer.writerows(
            [n, "abc"[n % 3], n / 4, f'"quoted", ü {n}' if n % 7 else ""] for n in range(ROWS)
        )
    return path


@pytest.fixture
def command(source: Path, tmp_path: Path) -> list[str]:
    parley = [
        sys.executable,
        "-m",
        "parley",
        "demo",
        "--input",
        str(source),
        "--output",
        str(tmp_path / "out"),
    ]
    return [*parley, "--key", "kind", "--key", "id"]


@pytest.mark.matrix
def test_everything_that_went_in_comes_out_while_brokers_are_upgraded(
    source: Path, command: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [*command, "--rate", "400", "--format", "json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    account = json.loads(done.stdout)
    assert (account["rows_in"], account["rows_acknowledged"], account["balanced"]) == (
        ROWS,
        ROWS,
        True,
    )
    assert account["table"] == {
        "rows": ROWS,
        "lost": 0,
        "duplicated": 0,
        "altered": 0,
        "foreign": 0,
    }
    assert account["rows_copied"] == ROWS
    assert (account["proof"]["records"], account["proof"]["difference"]) == (ROWS, None)
    assert account["aggregates"]["rows"] == ROWS
    assert all(moves > 4 * 4 for moves in account["leader_moves"].values())
    assert [(broker["cluster"], *broker["releases"]) for broker in account["brokers"]] == [
        ("old", "2.4.1"), ("old", "2.4.1"), ("old", "2.4.1"),
        ("new", "3.9.1", "4.3.0"), ("new", "4.2.0", "4.3.0"), ("new", "4.2.0", "4.3.0"),
    ]  # fmt: skip
    for broker in account["brokers"]:
        assert {"Produce", "Fetch"} <= broker["api_versions"].keys()
    # of any one broker of a cluster metadata are asked
    asked = {one["cluster"] for one in account["brokers"] if "Metadata" in one["api_versions"]}
    assert asked == {"old", "new"}
    for text in ("copy: create events", "old cluster: broker 2 is killed",
                 "new cluster: broker 3 starts as 4.3"):  # fmt: skip
        assert text in done.stderr
    assert json.loads((tmp_path / "out" / "account.json").read_text())["balanced"] is True

    # The file against the table, row by row, with nothing of parley in between.
    table = DeltaTable(tmp_path / "out" / "events").to_pyarrow_table()
    found = sorted(
        zip(
            *(table.column(name).to_pylist() for name in ("id", "kind", "amount", "note")),
            strict=True,
        )
    )
    with source.open(newline="") as file:
        wanted = [(int(a), b, float(c), d or None) for a, b, c, d in list(csv.reader(file))[1:]]
    assert found == wanted


@pytest.mark.matrix
def test_brokers_of_ones_own_are_written_to_and_left_alone(source: Path, tmp_path: Path) -> None:
    """The oldest source, whose topic is made by asking for it, and a target that is ours."""
    command = [sys.executable, "-m", "parley", "demo", "--input", str(source)]
    command += ["--output", str(tmp_path / "out"), "--format", "json"]
    with LocalCluster(1, "0.9") as old, LocalCluster(2, "4.3") as new:
        sides = ["--source", old.bootstrap_servers, "--target", new.bootstrap_servers]
        done = subprocess.run([*command, *sides], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with Client(bootstrap_servers=new.bootstrap_servers) as client:
            topics = [name for name in client.metadata().topics if name.startswith("events-")]
    account = json.loads(done.stdout)
    assert account["balanced"], account["problems"]
    assert account["rows_copied"] == ROWS
    assert not account["idempotent"]
    assert len(topics) == 2


@pytest.mark.matrix
def test_ctrl_c_stops_everything_in_order(command: list[str]) -> None:
    running = subprocess.Popen(
        [*command, "--rate", "100"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        seen = []
        for line in lines_of(running):
            seen.append(line)
            if "new cluster: broker 1 stops" in line:
                # To the whole group, as a terminal sends it:
                # the JVM and Spark's workers get it as well.
                os.killpg(running.pid, signal.SIGINT)
        assert running.wait(timeout=GENEROUS_S) == 130, "".join(seen)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert any("stopped by Ctrl-C" in line and "rows were acknowledged" in line for line in seen)
    assert not any("Traceback" in line for line in seen), "".join(seen)
    wait_until_group_is_gone(running.pid)


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stderr is not None
    with process.stderr as stream:
        yield from stream


def wait_until_group_is_gone(group: int) -> None:
    """The JVM ends by itself when the Python that started it is gone; it is given time."""
    deadline, pause = time.monotonic() + GENEROUS_S, threading.Event()
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        pause.wait(0.1)
    pytest.fail("processes of the demo are left")


def test_a_bad_line_is_named_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"a": 1}\n{"a": }\n')
    out = tmp_path / "out"
    command = [sys.executable, "-m", "parley", "demo", "--input", str(path), "--output", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"parley: {path}, line 2: not JSON" in done.stderr
    assert not out.exists()


def test_an_address_where_nobody_listens_is_named_with_its_stage(command: list[str]) -> None:
    done = subprocess.run(
        [*command, "--source", "127.0.0.1:1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "127.0.0.1:1: the connection was refused" in done.stderr
