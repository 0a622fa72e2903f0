"""Shell completion: commands, options, features and releases, in bash, zsh and fish."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from parley.cli import main
from parley.cli.commands import COMMANDS
from parley.versions import Feature, releases

from ...support import GENEROUS_S


def offered(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Return what completes a line, asked as fish asks: one value a line,
    with its help behind a tab.
    """
    monkeypatch.setenv("_PARLEY_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    assert main([]) == 0
    return [found.partition("\t")[0] for found in capsys.readouterr().out.splitlines() if found]


LINES = [
    ("parley ", sorted(COMMANDS)),
    ("parley do", ["doctor"]),
    ("parley --v", ["--version"]),
    ("parley cluster st", ["start"]),
    ("parley features --req", ["--require"]),
    ("parley api-versions --format ", ["table", "json", "kafka"]),
    ("parley features --require exactly", ["exactly-once"]),
    ("parley api-versions --require zstd,topic", ["zstd,topic-ids"]),
    ("parley api-versions --require zstd,zst", []),
    ("parley features --release 0.10", ["0.10.0.1", "0.10.1.1", "0.10.2.2"]),
    ("parley cluster start --release 2.4", ["2.4.1"]),
    ("parley cluster start --broker 1=0.9", ["1=0.9.0.1"]),
    ("parley cluster start --broker 0.9", []),
    ("parley cluster start --security-protocol SASL_S", ["SASL_SSL"]),
    ("parley cluster start --client-auth req", ["requested", "required"]),
    ("parley cluster apis --release 4.3", ["4.3.0"]),
    ("parley discovery compare --release 3.9", ["3.9.1"]),
    ("parley protocol d", ["diff"]),
    ("parley protocol 3.9", ["3.9.1"]),
    ("parley protocol diff 2.4.1 4.3", ["4.3.0"]),
    ("parley protocol diff 2.4.1 4.3.0 ", []),
    ("parley protocol pages 4.", []),
]


@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line for line, _ in LINES])
def test_what_may_come_next(
    line: str,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert offered(line, monkeypatch, capsys) == expected


def test_every_feature_and_every_release_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered("parley features --require ", monkeypatch, capsys) == [
        feature.value for feature in Feature
    ]
    assert offered("parley features --release ", monkeypatch, capsys) == list(releases())


def test_zsh_gets_help_beside_the_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_PARLEY_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "parley features --require exactly")
    assert main([]) == 0
    assert '"exactly-once":"KIP-98, since Kafka 0.11.0"' in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_parley(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_PARLEY_COMPLETE", f"source_{shell}")
    assert main([]) == 0
    assert f"_PARLEY_COMPLETE=complete_{shell}" in capsys.readouterr().out


def test_bash_itself_completes(tmp_path: Path) -> None:
    """A real bash sources the script and calls what it registered, as on a press of the tab key."""
    program = tmp_path / "parley"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m parley "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_PARLEY_COMPLETE=source_bash parley)"; complete -p parley;'
        " COMP_WORDS=(parley features --require exac); COMP_CWORD=3; _parley_completion parley;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
        timeout=GENEROUS_S,
    )
    assert done.stdout.splitlines()[-2:] == [
        "complete -o default -F _parley_completion parley",
        "exactly-once",
    ]


def test_a_commands_name_is_completed_without_its_module() -> None:
    program = (
        "import sys; from parley.cli import main; assert main([]) == 0;loaded "
        "= [m for m in ('pyarrow', 'asyncio', 'parley.client', "
        "'parley.cli.demo') if m in sys.modules];assert not loaded, loaded"
    )
    asked = {"_PARLEY_COMPLETE": "complete_bash", "COMP_WORDS": "parley ", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | asked,
    )
    assert done.stdout.split() == sorted(COMMANDS)
