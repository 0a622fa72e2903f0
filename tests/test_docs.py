"""The documents are true: the map names the files, README's examples run, named
targets and commands exist.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parley.cli.commands import COMMANDS
from parley.host import spark_environment

from .support import GENEROUS_S

ROOT = Path(__file__).parent.parent
DOCUMENTS = ["README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def examples() -> list[str]:
    """Return the whole programs of README; a fragment has a comment before it."""
    return re.findall(r"(?<!-->\n)```python\n(.*?)```", text_of("README.md"), re.DOTALL)


def run(program: str, environ: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * GENEROUS_S,
        env=environ,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_arrow_example_of_the_readme_runs() -> None:
    out = run(examples()[0], dict(os.environ))
    assert out == "['Oslo', 'Reykjavík']\n"


def test_the_consumer_example_of_the_readme_runs() -> None:
    assert run(examples()[1], dict(os.environ)) == "['Oslo', 'Reykjavík']\n"


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (2, [r"Oslo *\| *0\| *0", r"Reykjavík *\| *0\| *1"]),
        (3, [r"partition=0\): OffsetAndTimestamp\(offset=1000,"]),
        (4, [r"\| *250\| *250\|"]),
        (5, [r"\| *250\|"]),
    ],
    ids=["read", "write", "stream", "exactly once"],
)
def test_the_spark_examples_of_the_readme_run(number: int, shown: list[str]) -> None:
    out = run(examples()[number], {**os.environ, **spark_environment()})
    assert all(re.search(line, out) for line in shown), out


def test_examples_stay_short() -> None:
    assert all(len(one.splitlines()) <= 22 for one in examples())
    assert len(examples()) == 6


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_and_targets_that_a_document_names_exist(name: str) -> None:
    text = text_of(name)
    targets = set(re.findall(r"^([a-z0-9-]+):", text_of("Makefile"), re.MULTILINE))
    for line in re.findall(r"(?:^|`)make ([a-z0-9][a-z0-9 -]*)", text, re.MULTILINE):
        named = line.split()[0] in targets
        assert named, f"`make {line}` names no target"
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`((?:src|tools|tests|benchmarks|native)/[^` *]+)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_that_a_document_names_exist(name: str) -> None:
    for command in re.findall(r"`parley ([a-z-]+)", text_of(name)):
        assert command in COMMANDS


def test_every_target_of_the_makefile_is_in_its_help() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    phony = re.findall(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE)
    shown = {line.split()[0] for line in done.stdout.splitlines()}
    assert shown == set(" ".join(phony).split())


def test_layers_are_the_same_in_the_design_and_in_the_contracts() -> None:
    import tomllib

    contracts = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"] == "layers")
    drawn = re.search(r"```text\n(cli  .*?)```", text_of("DESIGN.md"), re.DOTALL)
    assert drawn is not None
    lines = drawn.group(1).splitlines()
    assert [
        re.split(r"\s{2,}(?=[a-zA-Z])", re.sub(r" *\| *", " | ", line))[0].strip() for line in lines
    ] == layers


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_calls_of_clients_to_move_from_exist() -> None:
    """Each table of docs/how-to/moving.md names the classes whose methods stand in its columns."""
    tables = re.findall(r"<!-- calls: (.+) -->\n\n((?:\|.+\n)+)", text_of("docs/how-to/moving.md"))
    assert len(tables) == 3
    for classes, rows in tables:
        columns = [line.split("|")[2:-1] for line in rows.splitlines()[2:]]
        for number, path in enumerate(classes.split(", ")):
            module, _, name = path.rpartition(".")
            cls = getattr(importlib.import_module(module), name)
            called = {call for row in columns for call in re.findall(r"`(\w+)\(", row[number])}
            assert called
            assert {call for call in called if not hasattr(cls, call)} == set(), path
