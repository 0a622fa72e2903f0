"""`parley cluster ctl` and the control socket behind it: JSON lines in, JSON
lines out, for the owner only.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from parley.cli.app import main
from parley.cli.cluster_ctl import parse_arguments
from parley.devcluster import AsyncLocalCluster, LocalCluster
from parley.devcluster.control.commands import CALLS, commands, find_command
from parley.devcluster.control.control import SOCKET_NAME, Control
from parley.devcluster.faults.calls import AsyncFaults
from parley.devcluster.group_calls import AsyncGroups
from parley.devcluster.scenes import AsyncScenes
from parley.errors import ConfigError, NetworkError
from parley.messages import request_class
from parley.net.lines import MAX_LINE_BYTES, LineClient, serve_lines
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

from ..support import GENEROUS_S

ROOT = Path(__file__).parents[2]
Produce: Any = request_class(ApiKey.PRODUCE)
Batch = Callable[..., bytes]


@asynccontextmanager
async def controlled(
    folder: Path, brokers: int = 3
) -> AsyncIterator[tuple[AsyncLocalCluster, Path]]:
    async with (
        AsyncLocalCluster(brokers, "3.9", seed=1) as cluster,
        Control(cluster, folder) as control,
    ):
        yield cluster, control.path


async def talk(path: Path, *lines: bytes) -> list[dict[str, Any]]:
    """Send lines on one connection, all at once; return the answers."""
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
    writer.write(b"".join(line + b"\n" for line in lines))
    answers = [json.loads(await reader.readline()) for _ in lines]
    writer.close()
    return answers


async def ask(path: Path, command: str, **arguments: Any) -> Any:
    (answer,) = await talk(path, json.dumps({"command": command, "arguments": arguments}).encode())
    assert answer["ok"], answer
    return answer["result"]


# -- commands over the socket ----------------------------------------------------------------------


async def test_transactions_are_reported_over_the_socket(tmp_path: Path) -> None:
    async with controlled(tmp_path) as (cluster, path):
        await ask(path, "create-topic", name="t", partitions=2)
        state = cluster.state.transactions
        who = state.initialise("pay", None, timeout_ms=1_000, now_ms=5)
        state.add("pay", who, [("t", 1), ("t", 0)], now_ms=6)
        reported = (await ask(path, "transactions"))["pay"]
        assert (reported["state"], reported["partitions"], reported["producer_id"]) == (
            "Ongoing",
            [["t", 0], ["t", 1]],
            0,
        )
        await ask(path, "move-coordinator", transactional_id="pay", to=3)
        assert cluster.state.coordinators.of(1, "pay", [1, 2, 3]) == 3


async def test_a_scene_played_over_the_socket(tmp_path: Path, batch: Batch) -> None:
    async with controlled(tmp_path) as (cluster, path):
        await ask(
            path, "create-topic", name="t", partitions=2, configs={"min.insync.replicas": "1"}
        )
        await ask(path, "move-leader", topic="t", partition=0, to=1)
        epoch = (await ask(path, "leaders", topic="t"))["0"][1]

        def produce() -> int:
            part = Produce.PartitionProduceData(index=0, records=batch(1))
            topics = [Produce.TopicProduceData(name="t", partition_data=[part])]
            with Wire(str(cluster.broker(1).address)) as wire:
                answer = wire.ask(Produce(acks=-1, timeout_ms=5_000, topic_data=topics), 8)
            return int(answer.responses[0].partition_responses[0].error_code)

        assert await asyncio.to_thread(produce) == 0
        for broker in (2, 3):
            await ask(path, "lag", broker=broker, in_sync=False)
        assert (await ask(path, "isr", topic="t"))["0"] == [1]
        assert await asyncio.to_thread(produce) == 0
        await ask(path, "kill-broker", broker=1)
        status = {
            one["broker"]: (one["running"], one["lagging"]) for one in await ask(path, "status")
        }
        assert status == {1: (False, False), 2: (True, True), 3: (True, True)}
        await ask(path, "catch-up")
        lost = await ask(path, "elect-unclean", topic="t", partition=0, to=2)
        assert (lost["first_offset"], lost["records"], lost["leader_epoch"]) == (1, 1, epoch + 2)
        await ask(path, "start-broker", broker=1, release="4.3")
        account = await ask(path, "replicas-agree")
        assert account["agrees"]
        assert account["lost"] == [lost]

        await ask(path, "fail", api="Produce", error="NOT_ENOUGH_REPLICAS", topic="t")
        await ask(path, "move-leader", topic="t", partition=0, to=1)
        assert await asyncio.to_thread(produce) == 19
        (failed,) = (await ask(path, "requests", api="Produce", topic="t"))[-1:]
        assert (failed["client_id"], failed["asked"]) == ("wire", {"t": [0]})
        assert (await ask(path, "versions-used"))["1"]["wire"]["Produce"] == [8]
        await ask(path, "advance", duration_ms=60_000)


async def test_what_cannot_be_done_is_answered_and_the_cluster_runs_on(tmp_path: Path) -> None:
    create = b'{"command": "create-topic", "arguments": '
    bad = {
        b"{": "no JSON",
        b"[" * 100_000: "no JSON",
        b"\xff\xfe": "no JSON",
        b"17": "an object with a",
        b'{"arguments": {}}': "an object with a",
        b'{"command": "move-leader", "topic": "t"}': 'not "topic"',
        b'{"command": "move-leader", "arguments": [1]}': "is an object",
        b'{"command": "mvoe-leader"}': 'Did you mean "move-leader"',
        b'{"command": 7}': "there is no command 7",
        b'{"command": "move-leader"}': "needs topic",
        b'{"command": "freeze", "arguments": {"brokr": 1}}': 'Did you mean "broker"',
        b'{"command": "freeze", "arguments": {"broker": "1"}}': "takes number",
        b'{"command": "freeze", "arguments": {"broker": true}}': "takes number",
        b'{"command": "freeze", "arguments": {"broker": 9}}': "there is no broker 9",
        b'{"command": "seed", "arguments": {"seed": 1' + b"0" * 400 + b"}}": "takes number",
        b'{"command": "advance", "arguments": {"duration_ms": 9000000000000000}}': "100 years",
        b'{"command": "cut", "arguments": {"after_bytes": -1}}': "negative",
        b'{"command": "cut", "arguments": {"probability": NaN}}': "from 0 to 1",
        create + b'{"name": "t", "configs": {"a": 1}}}': "name=value",
        create + b'{"name": "../t"}}': "other than ASCII",
        create + b'{"name": "t", "partitions": 1000000000}}': "Excessively large",
        b'{"command": "elect-unclean", "arguments": {"topic": "nowhere"}}': "no partition",
        b'{"command": "close"}': "there is no command",
        b'{"command": "__init__"}': "there is no command",
    }
    async with controlled(tmp_path, 1) as (_, path):
        answers = await talk(path, *bad)
        for line, answer in zip(bad, answers, strict=True):
            assert answer["ok"] is False
            assert bad[line] in answer["error"], (line, answer)
        (last,) = await talk(path, b'{"command": "status", "id": [1, "x"]}')
        assert (last["ok"], last["id"]) == (True, [1, "x"])


async def test_a_line_has_a_bound(tmp_path: Path) -> None:
    async with controlled(tmp_path, 1) as (_, path):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"x" * (MAX_LINE_BYTES + 65_536) + b"\n")
        answer = json.loads(await reader.readline())
        assert (answer["ok"], "at most 1048576 bytes" in answer["error"]) == (False, True)
        with suppress(ConnectionResetError):  # what was sent behind the bound is left unread
            assert await reader.read() == b"", "and the connection ends"
        writer.close()
        assert await ask(path, "status")


async def test_many_ask_at_once(tmp_path: Path) -> None:
    async with controlled(tmp_path, 1) as (cluster, path):
        names = [f"t{number}" for number in range(20)]
        await asyncio.gather(*(ask(path, "create-topic", name=name) for name in names))
        assert sorted(cluster.state.image.topics) == sorted(names)
        cluster.faults.delay("Metadata", 1)
        assert len(await talk(path, *[b'{"command": "status"}'] * 200)) == 200


# -- the socket ------------------------------------------------------------------------------------


async def test_only_the_owner_may_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with controlled(tmp_path, 1) as (_, path):
        assert path == tmp_path / SOCKET_NAME
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        monkeypatch.setattr("parley.net.lines.os.getuid", lambda: 12345)
        monkeypatch.setattr("parley.net.lines.ROOT_USER", 12345)
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b"", "a process of another user hears nothing"
        writer.close()
    assert not path.exists()


async def test_a_socket_of_a_dead_process_is_replaced_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / SOCKET_NAME
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with controlled(tmp_path, 1):
        assert await ask(path, "status")
        with pytest.raises(ConfigError, match="in use"):
            await serve_lines(path, lambda line: asyncio.sleep(0, line))
        assert await ask(path, "status")


async def test_long_paths_and_missing_folders(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    async with controlled(deep, 1) as (_, path):

        def status() -> bytes:
            with LineClient(path) as client:
                return client.ask(b'{"command": "status"}')

        assert b'"ok":true' in await asyncio.to_thread(status)
    with pytest.raises(NetworkError, match="No such file"):
        await serve_lines(tmp_path / "missing" / "s", lambda line: asyncio.sleep(0, line))


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def started() -> Iterator[Callable[..., tuple[subprocess.Popen[str], dict[str, Any]]]]:
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        command = [
            sys.executable,
            "-m",
            "parley",
            "cluster",
            "start",
            "--format",
            "json",
            "--brokers",
            "2",
            *arguments,
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
            assert lines[-1], process.communicate()[1]
        return process, json.loads("".join(lines))

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_the_command_drives_a_process(
    started: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process, reported = started("--data-dir", str(tmp_path / "data"))
    there = ["cluster", "ctl", "--data-dir", str(tmp_path / "data")]
    assert reported["control"] == str(tmp_path / "data" / SOCKET_NAME)
    assert main([*there, "create-topic", "--name", "t", "--configs", "min.insync.replicas=2"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*there, "move-leader", "--topic", "t", "--partition=0", "--to", "2"]) == 0
    assert main([*there, "leaders", "--topic", "t"]) == 0
    assert json.loads(capsys.readouterr().out)["0"][0] == 2
    assert main([*there, "isolate", "--broker", "2", "--noticed", "no"]) == 0
    assert main([*there, "status"]) == 0
    assert [one["isolated"] for one in json.loads(capsys.readouterr().out)] == [False, True]
    assert main([*there, "move-leader", "--topic", "t", "--partition", "0", "--to", "9"]) == 1
    assert "broker 9 is not alive" in capsys.readouterr().err

    lines = b'{"command": "heal"}\n\n{"command": "nonsense"}\n{"command": "replicas-agree"}\n'
    out = subprocess.run(
        [sys.executable, "-m", "parley", *there, "-"],
        input=lines,
        capture_output=True,
        check=True,
        timeout=GENEROUS_S,
    ).stdout
    assert [json.loads(line)["ok"] for line in out.splitlines()] == [True, False, True]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=GENEROUS_S)
    assert main([*there, "status"]) == 3
    assert "no cluster runs on this folder" in capsys.readouterr().err


def test_without_a_data_folder_a_private_one_is_printed_and_removed(
    started: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    process, reported = started()
    path = Path(reported["control"])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert main(["cluster", "ctl", "--data-dir", str(path), "status"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=GENEROUS_S)
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["move-leader", "--topic", "t", "--partition", "x", "--to", "2"],
            "--partition takes number, not 'x'",
        ),
        (["move-leader", "--topic", "t", "--partition"], "--partition needs a value"),
        (["move-leader", "--topic", "t", "--prtition", "0"], 'Did you mean "--partition"'),
        (["move-leader", "--topic", "t", "--topic", "u"], "--topic twice"),
        (["move-leader", "--topic", "t"], "needs partition"),
        (["moveleader"], 'Did you mean "move-leader"'),
        (["create-topic", "--name", "t", "--configs", "a"], "expected name=value"),
        (["freeze", "--broker", "1", "--noticed", "perhaps"], "yes or no"),
    ],
)
def test_words_that_make_no_command(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["cluster", "ctl", "--data-dir", "."]
    with pytest.raises(ConfigError) as caught:
        parse_arguments(find_command(words[0]), words[1:])
    assert text in str(caught.value)
    assert main([*folder, *words]) in (2, 3)  # 3 where the folder is looked at first
    assert capsys.readouterr().err


def test_words_become_typed_arguments() -> None:
    def parsed(line: str) -> dict[str, Any]:
        name, *words = line.split()
        return parse_arguments(find_command(name), words)

    assert parsed("recreate-topic --name t --partitions 3 --unaware 1,2") == {
        "name": "t",
        "partitions": 3,
        "unaware": [1, 2],
    }
    assert parsed("fail --api 0 --error 6 --executed --probability 0.5 --client-id 7") == {
        "api": 0,
        "error": 6,
        "executed": True,
        "probability": 0.5,
        "client_id": "7",
    }
    assert parsed("lag --broker 1 --in-sync no --records -1") == {
        "broker": 1,
        "in_sync": False,
        "records": -1,
    }


def test_help_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "ctl", "help"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in commands())
    assert main(["cluster", "ctl", "help", "elect-unclean"]) == 0
    assert "--lose" in capsys.readouterr().out
    assert main(["cluster", "ctl", "cut", "--help"]) == 0
    assert "--after-bytes" in capsys.readouterr().out
    assert main(["cluster", "ctl", "status"]) == 2
    assert "--data-dir is needed" in capsys.readouterr().err


# -- one table -------------------------------------------------------------------------------------


def test_the_page_has_the_table_of_the_code() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "write_tables.py"))
    page = (ROOT / "docs" / "guide" / "cluster.md").read_text(encoding="utf-8")
    assert tool["page_with_table"]("guide/cluster.md") == page, "run tools/write_tables.py"


def test_every_control_call_is_a_command_and_blocking_code_has_it() -> None:
    parts = {"faults": AsyncFaults, "groups": AsyncGroups, "scenes": AsyncScenes}
    own = {f"{part}.{name}" for part, cls in parts.items() for name in vars(cls) if name[0] != "_"}
    assert own == {call for call in CALLS if "." in call}
    with LocalCluster(brokers=1) as cluster:
        assert all(callable(attrgetter(call)(cluster)) for call in CALLS)
    assert all(one.summary.endswith(".") for one in commands().values())
