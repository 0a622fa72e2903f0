"""`parley verify` against embedded clusters: what it prints, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from parley.cli import main
from parley.cli.verify import COLUMNS
from parley.devcluster import LocalCluster

from .copies import NOW_MS, ROWS, Row, Sides


@pytest.fixture(scope="module")
def sides() -> Iterator[Sides]:
    with ExitStack() as stack:
        left = stack.enter_context(LocalCluster(brokers=1, release="4.3"))
        right = stack.enter_context(LocalCluster(brokers=1, release="3.9"))
        yield Sides(left, right, stack)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verify(sides: Sides, capsys: pytest.CaptureFixture[str]) -> Run:
    servers = [cluster.bootstrap_servers for cluster in sides.clusters]

    def run(*arguments: str, against: bool = True) -> tuple[int, str, str]:
        other = ["--against-bootstrap-server", servers[1]] if against else []
        code = main(["verify", *arguments, "--bootstrap-server", servers[0], *other])
        return code, *capsys.readouterr()

    return run


def test_the_command_says_equal(sides: Sides, verify: Run) -> None:
    name = sides.filled(ROWS[:100], ROWS[:100])
    code, out, err = verify(name, "--format", "table")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        [column.upper().replace("_", "-") for column in COLUMNS],
        [name, "0", name, "100", "100", "yes", "yes", "-"],
    ]
    assert err.splitlines()[-1] == "equal: 1 partition, 100 records on each side"


def test_the_command_shows_both_sides_of_a_difference(sides: Sides, verify: Run) -> None:
    copy = [*ROWS[:100]]
    copy[50] = copy[50]._replace(value=b"\x1b[31m")
    code, out, err = verify(name := sides.filled(ROWS[:100], copy))
    assert code == 5
    cells = [name, "0", name, "100", "100", "no", "yes", "the records differ in value"]
    assert out.splitlines()[1].split("\t") == cells
    assert f"{name}-0, after 50 equal records: the records differ in value" in err
    assert r"value      b'value 50'" in err
    assert r"value      b'\x1b[31m'" in err
    assert err.splitlines()[-1] == "different: 1 of 1 partition"

    code, out, _ = verify(name, "--format", "json")
    document = json.loads(out)
    assert (code, document["equal"]) == (5, False)
    found = document["rows"][0]["first_difference"]
    assert (found["kind"], found["rank"]) == ("differs", 50)
    assert (found["left"]["offset"], found["left"]["value"]) == (50, "b'value 50'")


def test_the_command_takes_the_options(sides: Sides, verify: Run) -> None:
    late = [row._replace(timestamp_ms=NOW_MS + 9) for row in ROWS[:9]]
    name = sides.filled(ROWS[:9], late)
    assert verify(name)[0] == 5
    code, _, err = verify(name, "--ignore-timestamps")
    assert code == 0
    assert "timestamps were left out in 1 of 1 partitions" in err
    sides.clusters[1].delete_records(name, 0, 3)
    assert verify(name, "--ignore-timestamps", "--from-later-beginning")[0] == 0
    keys = sides.filled([Row(b"k", b"1"), Row(b"k", b"2")], [Row(b"k", b"2")])
    assert verify(keys, "--latest-per-key")[0] == 0
    left_over = sides.filled([Row(b"k", None)], [Row(b"j", b"1"), Row(b"j", None)])
    assert verify(left_over, "--latest-per-key")[0] == 5
    assert verify(left_over, "--latest-per-key", "--ignore-tombstones")[0] == 0


def test_two_topics_of_one_cluster(sides: Sides, verify: Run) -> None:
    name, copy = sides.filled(ROWS[:9], []), sides.filled(ROWS[:9], [])
    code, out, _ = verify(f"{name}={copy}", against=False)
    assert (code, out.splitlines()[1].split("\t")[2]) == (0, copy)
    code, _, err = verify(name, against=False)
    assert (code, "with itself" in err) == (2, True)


def test_wrong_usage_and_clusters_that_are_not_there(
    sides: Sides, capsys: pytest.CaptureFixture[str]
) -> None:
    server = sides.clusters[0].bootstrap_servers
    nobody = ["-b", server, "-a", "127.0.0.1:1", "--timeout-ms", "2000"]
    assert main(["verify", "flights", *nobody]) == 3
    assert "127.0.0.1:1" in capsys.readouterr().err
    for wrong in (["a="], ["a", "a=b"], ["a", "--ignore-tombstones"], ["no-such-topic"]):
        assert main(["verify", *wrong, "-b", server, "-a", server]) == 2, wrong
    assert main(["verify", "a=b", "-b", server, "--against-release", "3.9"]) == 2
