"""`parley consume` against embedded clusters: what it prints, what it commits, how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from parley.cli import main
from parley.client import Client, TopicPartition
from parley.devcluster import LocalCluster

from ..support import GENEROUS_S, eventually

TOPIC, GROUP, PARTITIONS = "flights", "nightly", 2
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def running() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, release="4.3") as cluster:
        yield cluster


@pytest.fixture
def client(running: LocalCluster) -> Iterator[Client]:
    """A client of the cluster, on which the topic is new and the group is not yet."""
    with Client(bootstrap_servers=running.bootstrap_servers) as client:
        running.create_topic(TOPIC, PARTITIONS)
        yield client
        running.delete_topic(TOPIC)
        if GROUP in {one.group_id for one in client.list_groups()}:
            client.delete_groups([GROUP])


@pytest.fixture
def consume(running: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["consume", *arguments, "--bootstrap-server", running.bootstrap_servers])
        return code, *capsys.readouterr()

    return run


@contextmanager
def process(
    cluster: LocalCluster, output: Path, *arguments: str, topics: Sequence[str] = (TOPIC,)
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "parley", "consume", *topics, "--group", GROUP, *arguments]
    with (
        output.open("wb") as out,
        subprocess.Popen(
            [*command, "-b", cluster.bootstrap_servers], stdout=out, stderr=subprocess.PIPE
        ) as made,
    ):
        try:
            yield made
        finally:
            made.kill()


def write(client: Client, *values: str | None, partition: int = 0) -> None:
    client.produce(TOPIC, pa.table({"value": pa.array(values, pa.string())}), partition)


def committed(client: Client) -> dict[int, int]:
    found = client.list_group_offsets(GROUP)
    return {tp.partition: at.offset for tp, at in found.items() if at is not None}


def values(printed: Path) -> list[str]:
    return [line.split("\t")[-1] for line in printed.read_text().splitlines()[1:]]


def test_it_ends_after_so_many_and_goes_on_there(consume: Run, client: Client) -> None:
    write(client, "a", "b", None, "d")
    group = [TOPIC, "--group", GROUP, "--from-beginning"]
    code, out, err = consume(*group, "--max-records", "3")
    assert (code, err) == (0, 'group "nightly": 3 records printed\n')
    heading, *rows = [line.split("\t") for line in out.splitlines()]
    assert heading == ["TOPIC", "PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    assert [row[:3] + row[4:] for row in rows] == [
        [TOPIC, "0", str(at), "-", value] for at, value in enumerate(["a", "b", "-"])
    ]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row[3]) for row in rows)
    assert committed(client) == {0: 3}
    code, out, _ = consume(*group, "--max-records", "1", "--format", "jsonl")
    assert (code, json.loads(out)["value"], committed(client)) == (0, "d", {0: 4})


@pytest.mark.parametrize(
    ("encoding", "printed"),
    [
        ("base64", ["/2E=", "XHhmZg=="]),
        ("hex", ["ff61", "5c786666"]),
        ("text", [r"\xffa", r"\xff"]),
    ],
)
def test_bytes_that_are_no_text_are_printed_without_loss(
    encoding: str, printed: list[str], consume: Run, client: Client
) -> None:
    client.produce(TOPIC, pa.table({"value": pa.array([b"\xffa", rb"\xff"], pa.binary())}), 0)
    arguments = [TOPIC, "--group", GROUP, "--from-beginning", "--max-records", "2"]
    code, out, _ = consume(*arguments, "--format", "jsonl", "--encoding", encoding)
    assert code == 0
    assert [json.loads(line)["value"] for line in out.splitlines()] == printed


@pytest.mark.parametrize(("sent", "ended_with"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_signal_commits_what_was_printed_and_leaves(
    protocol: str,
    sent: signal.Signals,
    ended_with: int,
    running: LocalCluster,
    client: Client,
    tmp_path: Path,
) -> None:
    write(client, *"abc")
    printed = tmp_path / "printed"
    with process(running, printed, "--from-beginning", "--group-protocol", protocol) as member:
        eventually(lambda: values(printed) == ["a", "b", "c"])
        (group,) = client.describe_groups([GROUP]).values()
        assert (group.type, len(group.members)) == (protocol, 1)
        member.send_signal(sent)
        _, err = member.communicate(timeout=GENEROUS_S)
    assert (member.returncode, err) == (ended_with, b'group "nightly": 3 records printed\n')
    assert committed(client) == {0: 3}
    assert client.describe_groups([GROUP])[GROUP].members == ()


def test_a_topic_that_is_not_there_is_waited_for_with_a_warning(
    running: LocalCluster, client: Client, tmp_path: Path
) -> None:
    running.delete_topic(TOPIC)
    printed = tmp_path / "printed"
    with process(running, printed, "--from-beginning", "--max-records", "1") as member:
        assert member.stderr is not None
        assert b'warning: there is no topic "flights" yet' in member.stderr.readline()
        running.create_topic(TOPIC, PARTITIONS)
        write(client, "a")
        _, err = member.communicate(timeout=GENEROUS_S)
    assert (values(printed), err) == (["a"], b'group "nightly": 1 records printed\n')


def test_a_pattern_that_no_topic_matches_is_said(
    running: LocalCluster, client: Client, tmp_path: Path
) -> None:
    write(client, "a")
    arguments = ["--from-beginning", "--max-records", "1", "--pattern"]
    with process(running, tmp_path / "printed", *arguments, "light.*", topics=()) as member:
        assert member.stderr is not None
        assert b'warning: no topic matches "light.*" yet' in member.stderr.readline()
        member.send_signal(signal.SIGTERM)
        _, err = member.communicate(timeout=GENEROUS_S)
    assert err == b'group "nightly": 0 records printed\n'
    with process(running, tmp_path / "printed", *arguments, "f.*", topics=()) as member:
        _, err = member.communicate(timeout=GENEROUS_S)
    assert err == b'group "nightly": 1 records printed\n'


def test_an_error_before_the_first_record_stands_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["consume", TOPIC, "--group", GROUP, "--bootstrap-server", "127.0.0.1:1"]) == 3
    assert "printed" not in capsys.readouterr().err


def test_two_of_them_share_and_print_each_record_once(
    running: LocalCluster, client: Client, tmp_path: Path
) -> None:
    write(client, "a")
    first, second = tmp_path / "first", tmp_path / "second"
    with process(running, first, "--from-beginning") as one:
        eventually(lambda: values(first) == ["a"])
        with process(running, second, "--from-beginning") as other:
            eventually(lambda: len(owners(client)) == 2)
            for index in range(PARTITIONS):
                write(client, "b", "c", partition=index)
            eventually(lambda: len(values(first)) + len(values(second)) == 5)
            for member in (one, other):
                member.send_signal(signal.SIGINT)
                member.communicate(timeout=GENEROUS_S)
    assert sorted(values(first) + values(second)) == ["a", "b", "b", "c", "c"]
    assert committed(client) == {0: 3, 1: 2}


def owners(client: Client) -> set[str]:
    lags = client.group_lag(GROUP, [TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
    return {one.owner.member_id for one in lags.values() if one.owner is not None}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([TOPIC], "--group is missing"),
        (["--group", GROUP], "give either topics or --pattern"),
        ([TOPIC, "--group", GROUP, "--pattern", "f.*"], "give either topics or --pattern"),
        ([TOPIC, "--group", GROUP, "--format", "json"], "give --format jsonl instead of json"),
        ([TOPIC, "--group", GROUP, "--group-protocol", "modern"], "--group-protocol modern"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], said: str, consume: Run) -> None:
    code, _, err = consume(*arguments)
    assert code == 2
    assert said in err
