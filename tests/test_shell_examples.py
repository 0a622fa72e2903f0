"""Every command in a document can be typed as it stands there, or the
document says why not here.
"""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from parley.cli import main
from parley.cli.exit_codes import ExitCode
from parley.client import Client, NewTopic, TopicPartition, split_properties
from parley.pipelines.declared.reading import read_text

from .examples import ADDRESS
from .shell_examples import Block, Typed, blocks, make_targets, typed, unknown_requirements
from .support import GENEROUS_S

LANGUAGES = {"python", "sh", "console", "jsonl", "properties", "text", "toml", "dockerfile"}
ALL = list(blocks())
RUNNING = [one for one in ALL if one.reason is None]
COMMANDS = [one for one in RUNNING if one.language in ("sh", "console")]
PROPERTIES = [one for one in RUNNING if one.language == "properties"]
PIPELINES = [one for one in RUNNING if one.language == "toml"]
TALKS = [one for one in RUNNING if one.language == "jsonl"]
TOPICS = ("cities", "events", "flights")
GROUP = "nightly"


class Place:
    """A folder with a cluster in it, where the commands of documents find what they name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""

    def words(self, command: Typed) -> list[str]:
        """Return a command's words after `parley`, with this place's address and folder."""
        words = [word.replace(ADDRESS, self.address) for word in command.words[1:]]
        if "--data-dir" in words:
            words[words.index("--data-dir") + 1] = str(self.folder)
        if words[0] in ("consume", "groups") and "--bootstrap-server" not in words:
            words += ["--bootstrap-server", self.address]
        return words

    def fill(self, address: str) -> None:
        """Make the topics and the group that documents speak of."""
        self.address = address
        with Client(bootstrap_servers=address) as client:
            client.create_topics([NewTopic(name, num_partitions=2) for name in TOPICS])
            for name in TOPICS:
                client.produce(name, pa.table({"value": [str(row) for row in range(10)]}))
            flights = {TopicPartition("flights", index): 1 for index in range(2)}
            client.alter_group_offsets(GROUP, flights)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    found = Place(tmp_path_factory.mktemp("documents"))
    processes: list[subprocess.Popen[str]] = []
    try:
        options = ["--brokers", "3", "--release", "4.3", "--data-dir", str(found.folder)]
        found.fill(address_in(start(["cluster", "start", *options], processes, "control=")))
        yield found
    finally:
        end(processes)


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    end(processes)


def end(processes: list[subprocess.Popen[str]]) -> None:
    """Interrupt commands as Ctrl-C does, the cluster last that the others talk to."""
    for process in reversed(processes):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=GENEROUS_S)
        assert process.returncode in (ExitCode.OK, ExitCode.INTERRUPTED), errors


def start(words: list[str], processes: list[subprocess.Popen[str]], until: str) -> list[str]:
    """Start a command that runs until Ctrl-C; return what it prints up to a line with `until`."""
    command = [sys.executable, "-m", "parley", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    processes.append(process)
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or until not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], process.communicate()[1]
    return lines


def address_in(lines: list[str]) -> str:
    """Return the bootstrap servers that `parley cluster start` printed."""
    return next(line.partition("=")[2].strip() for line in lines if line.startswith("bootstrap."))


def run_parley(
    command: Typed,
    place: Place,
    processes: list[subprocess.Popen[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = place.words(command)
    if words[:2] == ["cluster", "start"]:
        if "--port" in words:  # the document's port may be taken here
            del words[words.index("--port") : words.index("--port") + 2]
        if "--users-file" in words:
            users = place.folder / "users.txt"
            users.write_text("alice:wonderland\n", encoding="utf-8")
            words[words.index("--users-file") + 1] = str(users)
        printed = start(words, processes, "control=")
        if "SASL_SSL" not in words:
            place.fill(address_in(printed))
        return
    if "--watch" in words or words[0] == "consume":
        head = start(words, processes, "flights")[0].split()
        assert set((command.shown or "").split()) <= {*head, "CHANGE"}  # in a pipe, TIME instead
        return
    code = main(words)
    printed, errors = capsys.readouterr()
    allowed = {ExitCode.OK, ExitCode.UNSUPPORTED} if "--require" in words else {ExitCode.OK}
    assert code in allowed, errors
    assert command.shown is None or printed.splitlines()[0].split() == command.shown.split()


def test_each_block_says_what_it_is() -> None:
    unnamed = [
        f"{one}: {one.language or 'nothing'}" for one in ALL if one.language not in LANGUAGES
    ]
    assert not unnamed, f"write one of {sorted(LANGUAGES)} behind the fence"
    assert all(len(one.reason.split()) >= 3 for one in ALL if one.reason is not None)


@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_the_commands_of_documents_run(
    block: Block,
    place: Place,
    running: list[subprocess.Popen[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = typed(block)
    assert commands
    here = (
        Place(tmp_path)
        if any(one.words[1:3] == ("cluster", "start") for one in commands)
        else place
    )
    for command in commands:
        match command.words:
            case ("pip", "install", *requirements):
                assert unknown_requirements(tuple(requirements)) == []
            case ("make", target, *_):
                assert target in make_targets()
            case ("parley", *_):
                run_parley(command, here, running, capsys)
            case _:
                pytest.fail(
                    f"{block}: nothing runs {command.words[0]}; mark it as a fragment, and why"
                )


@pytest.mark.parametrize("block", TALKS, ids=str)
def test_talks_with_the_control_socket_go_as_documents_show(
    block: Block,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = block.text.splitlines()
    asked = io.BytesIO("\n".join([*lines[::2], ""]).encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(asked))
    main(["cluster", "ctl", "--data-dir", str(place.folder), "-"])
    printed = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in printed] == [json.loads(line) for line in lines[1::2]]


@pytest.mark.parametrize("block", PIPELINES, ids=str)
def test_files_of_documents_declare_pipelines(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x", encoding="utf-8")
    for variable in re.findall(r"env:(\w+)", block.text):
        monkeypatch.setenv(variable, "user:password")
    text = re.sub(r'"file:[^"]*"', f'"file:{secret}"', block.text)
    assert read_text(text, tmp_path / "pipeline.toml").flows


@pytest.mark.parametrize("block", PROPERTIES, ids=str)
def test_properties_of_documents_are_options_of_a_client(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    text = re.sub(r"^kafka\.", "", block.text, flags=re.MULTILINE)
    file.write_text(f"bootstrap.servers={ADDRESS}\n{text}", encoding="utf-8")
    assert split_properties(file).client.bootstrap_servers
