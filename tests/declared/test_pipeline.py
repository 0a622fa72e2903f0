"""A declared pipeline at work: planned, run, drained, killed and begun again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.cli import main
from parley.devcluster import ClusterSettings, LocalCluster
from parley.errors import AlreadyRunningError, ConfigError, TopicRecreatedError
from parley.pipelines.declared import AsyncPipeline, Pipeline

from ..replication.sides import TOPIC, client, kept, read, write
from ..support import GENEROUS_S, eventually, eventually_async

PARTITIONS = 2
FILE = """
[pipeline]
name = "move"

[cluster.old]
"bootstrap.servers" = "{old}"

[cluster.new]
"bootstrap.servers" = "{new}"

[flow.copy]
kind = "copy"
from = {{ cluster = "old", topics = ["flights"] }}
to = {{ cluster = "new" }}
commit-interval-ms = 20
refresh-interval-ms = 50

[flow.again]
kind = "replay"
from = {{ cluster = "old", topic = "flights" }}
to = {{ cluster = "new", topic = "again" }}
rate = "{rate}"

[flow.proof]
kind = "verify"
to = {{ flow = "copy" }}
"""
Sides = tuple[LocalCluster, LocalCluster, Path]


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    settings = ClusterSettings(auto_create_topics=False)
    with (
        LocalCluster(1, "2.8", settings=settings) as old,
        LocalCluster(1, "4.3", settings=settings) as new,
    ):
        old.create_topic(TOPIC, partitions=PARTITIONS)
        write(old, range(300))
        yield old, new, declare(tmp_path, old, new)


def declare(folder: Path, old: LocalCluster, new: LocalCluster, rate: str = "100MB") -> Path:
    path = folder / "move.toml"
    path.write_text(FILE.format(old=old.bootstrap_servers, new=new.bootstrap_servers, rate=rate))
    return path


async def test_it_is_planned_run_and_drained(sides: Sides) -> None:
    old, new, path = sides
    async with AsyncPipeline.from_file(path) as pipeline:
        planned = await pipeline.plan(["copy", "again", "proof"])
        assert [(one.flow, one.change, one.topic) for one in planned if one.change != "read"] == [
            ("copy", "create", TOPIC),
            ("copy", "rights", TOPIC),
            ("again", "create", "again"),
            ("again", "rights", TOPIC),
            ("proof", "compare", "what copy copied"),
        ]
        assert not any(one.stops for one in planned)
        with client(new) as looking:
            assert not looking.metadata().topics
        assert [one.state for one in await pipeline.status()] == ["never ran"] * 3

        running = asyncio.ensure_future(pipeline.run())
        await eventually_async(lambda: copied(new) == 300)
        async with AsyncPipeline.from_file(path) as other:
            states = {one.flow: one.state for one in await other.status()}
            assert states == {"copy": "running", "again": "never ran", "proof": "never ran"}
            with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()}"):
                await other.run(["again"])
            assert other.drain()
        await asyncio.wait_for(running, GENEROUS_S)
    async with AsyncPipeline.from_file(path) as pipeline:
        found = {one.flow: one for one in await pipeline.status()}
        assert (found["copy"].state, found["copy"].lag, found["copy"].records) == (
            "drained",
            0,
            300,
        )
        assert not pipeline.drain()
        await pipeline.run(["again"])
        found = {one.flow: one for one in await pipeline.status()}
        assert (found["again"].state, found["again"].lag) == ("done", 0)
        assert (await pipeline.verify())["proof"].equal
    assert kept(read(old, PARTITIONS)) == kept(read(new, PARTITIONS))


def copied(cluster: LocalCluster, topic: str = TOPIC) -> int:
    with client(cluster) as looking:
        if topic not in looking.metadata().topics:
            return 0
    return sum(map(len, read(cluster, PARTITIONS, topic=topic)))


async def test_a_flow_that_fails_ends_the_others_in_order(sides: Sides) -> None:
    old, new, path = sides
    async with AsyncPipeline.from_file(path) as pipeline:
        await pipeline.run(["again"])
    old.delete_topic(TOPIC)
    old.create_topic(TOPIC, partitions=PARTITIONS)
    write(old, range(100))
    async with AsyncPipeline.from_file(path) as pipeline:
        with pytest.raises(TopicRecreatedError):
            await asyncio.wait_for(pipeline.run(["copy", "again"]), GENEROUS_S)
        states = {one.flow: one.state for one in await pipeline.status()}
    assert states["again"] == "failed"
    assert states["copy"] in ("done", "drained")
    with client(new) as looking:
        open_ = [one.state for one in looking.transactions.list() if one.state == "Ongoing"]
    assert open_ == []


def test_a_flow_that_clusters_know_nothing_of_hides_no_other(
    sides: Sides, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, path = sides
    more = '[flow.gone]\nkind = "copy"\nfrom = { cluster = "old", topics = ["gone"] }\n'
    path.write_text(path.read_text() + more + 'to = { cluster = "new" }\nauto = false\n')
    assert main(["run", str(path), "again"]) == 0
    out = capsys.readouterr().out
    assert "again\treplay\tdone\t0\t300\n" in out
    assert "gone\tcopy\tnever ran\t-\t0\n" in out
    assert main(["status", str(path)]) == 2
    found = capsys.readouterr()
    assert found.out == out
    assert found.err == "the lag of gone is not known: the source has no topic gone\n"
    assert main(["run", str(path), "gone"]) == 2
    assert 'parley: this is of the flow "gone"\n' in capsys.readouterr().err
    with Pipeline.from_file(path) as pipeline:
        assert str(pipeline.status()[-1].error) == "the source has no topic gone"


async def test_a_comparison_of_topics_says_what_both_users_need(sides: Sides) -> None:
    _, new, path = sides
    new.create_topic(TOPIC, partitions=PARTITIONS)
    compared = """from = { cluster = "old", topics = ["flights"] }
to = { cluster = "new" }"""
    path.write_text(path.read_text().replace('to = { flow = "copy" }', compared))
    async with AsyncPipeline.from_file(path) as pipeline:
        assert [(one.change, one.what) for one in await pipeline.plan(["proof"])] == [
            ("compare", "record by record"),
            ("rights", "the source's user may Read and Describe it"),
            ("rights", "the target's user may Read and Describe it"),
        ]


async def test_names_that_are_none(sides: Sides) -> None:
    async with AsyncPipeline.from_file(sides[2]) as pipeline:
        with pytest.raises(ConfigError, match=r'no flow "cpoy".*Did you mean "copy"'):
            await pipeline.run(["cpoy"])
        with pytest.raises(ConfigError, match='"copy" compares nothing'):
            await pipeline.verify(["copy"])


def start(path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "parley", "run", str(path), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_kill_9_leaves_no_lock_and_loses_nothing(sides: Sides, tmp_path: Path) -> None:
    old, new, _ = sides
    path = declare(tmp_path, old, new, rate="200")
    for wanted in (20, 60):
        process = start(path, "again")
        eventually(lambda: copied(new, "again") >= wanted or process.poll() is not None)  # noqa: B023
        assert process.poll() is None, process.communicate()[1]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with Pipeline.from_file(path) as pipeline:
            assert {one.flow: one.state for one in pipeline.status()}["again"] == "failed"
    path = declare(tmp_path, old, new)
    with Pipeline.from_file(path) as pipeline:
        pipeline.run(["again"])
    names = ("key", "value", "timestamp")
    assert kept(read(new, PARTITIONS, topic="again"), names) == kept(read(old, PARTITIONS), names)


Command = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def command(sides: Sides, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(verb: str, *arguments: str, rows: bool = True) -> tuple[int, list[Any], str]:
        more = ("--format", "jsonl") if rows else ()
        code = main([verb, str(sides[2]), *arguments, *more])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


def test_the_commands(sides: Sides, command: Command) -> None:
    old, new, path = sides
    code, rows, err = command("plan")
    assert (code, [row["change"] for row in rows]) == (0, ["create", "rights"])
    digest = err.split()[-1]
    assert command("run", "--plan", "0" * 12)[0] == 2

    process = start(path, "--plan", digest)
    eventually(lambda: copied(new) == 300 or process.poll() is not None)
    code, rows, _ = command("status")
    assert {row["flow"]: row["state"] for row in rows}["copy"] == "running"
    assert command("run")[0] == 7
    code, _, err = command("drain", rows=False)
    assert (code, err.strip()) == (0, "it ends")
    out, err = process.communicate(timeout=GENEROUS_S)
    assert process.returncode == 0, err
    assert "copy\tcopy\tdrained\t0\t300" in out
    assert command("drain", rows=False)[2].strip() == "it does not run"

    assert command("run", "again")[0] == 0
    code, rows, err = command("verify")
    assert (code, [row["equal"] for row in rows]) == (0, [True] * PARTITIONS)
    new.delete_records(TOPIC, 0, 1)
    assert command("run", "proof")[0] == 5
    code, _, err = command("verify", "proof")
    assert code == 5
    assert f"{TOPIC}-0" in err
    old.delete_records(TOPIC, 0, 5)


def test_what_is_wrong_with_a_file_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[pipeline]\nname = "x"\n\n[flow.a]\nknid = "copy"\n')
    for verb in ("plan", "run", "status", "drain", "verify"):
        assert main([verb, str(path)]) == 2
        assert f"{path}, line" in capsys.readouterr().err


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_in_order(sides: Sides, sent: signal.Signals, code: int) -> None:
    _, new, path = sides
    process = start(path)
    eventually(lambda: copied(new) == 300 or process.poll() is not None)
    process.send_signal(sent)
    _, err = process.communicate(timeout=GENEROUS_S)
    assert process.returncode == code, err
    with Pipeline.from_file(path) as pipeline:
        assert {one.flow: one.state for one in pipeline.status()}["copy"] == "drained"


def test_blocking_code_has_the_same(sides: Sides) -> None:
    _, new, path = sides
    with Pipeline.from_file(path) as pipeline:
        assert [one.change for one in pipeline.plan()] == ["create", "rights"]
        running = threading.Thread(target=pipeline.run)
        running.start()
        eventually(lambda: copied(new) == 300)
        assert pipeline.drain()
        running.join(GENEROUS_S)
        assert not running.is_alive()
