"""The root command: help, lazy imports, exit codes, and errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
import typer

from parley import __version__
from parley.cli import main
from parley.cli.commands import COMMANDS
from parley.cli.exit_codes import ExitCode, exit_code_of
from parley.errors import (
    BrokersUnreachable,
    ConfigError,
    CorruptRecordError,
    UnsupportedVersionError,
    broker_error,
)

from ...support import GENEROUS_S


def test_help_names_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert name in out
        assert command.summary.split()[0] in out
    assert "Exit codes: 0 done" in out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"parley {__version__}\n"


def test_an_unknown_command_is_a_usage_error_that_names_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["docter"]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert 'there is no command "docter". Did you mean "doctor"?' in err


def test_a_command_that_is_like_none_has_no_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bogus"]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert 'there is no command "bogus".' in err
    assert "Did you mean" not in err


def test_ctrl_c_while_the_command_line_loads_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted:
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "parley.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "parley.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert main(["--help"]) == ExitCode.INTERRUPTED


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--fromat", "json"]) == ExitCode.USAGE
    assert "--fromat" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-records", "ten", "'--max-records': it has to be a valid integer\n"),
        ("--max-records", "0", "'--max-records': it has to be greater than or equal to 1\n"),
        ("--format", "xml", "'--format': 'xml' is not one of 'table', 'json', 'jsonl', 'csv'.\n"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_plain_words(
    option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["consume", "flights", option, value]) == ExitCode.USAGE
    assert capsys.readouterr().err.endswith(f"Invalid value for {said}")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (BrokersUnreachable({"a:1": OSError("refused")}), 3),
        (UnsupportedVersionError("x"), 4),
        (broker_error(35, api="FETCH", version=99), 4),
        (broker_error(3, topic="t"), 1),
        (CorruptRecordError("x"), 1),
        (OSError(28, "No space left on device"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_expected_error_becomes_one_line_and_an_exit_code(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code_of(error) == code
    assert run_raising(error, monkeypatch) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ("" if code == 130 else f"parley: {error}\n")


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        run_raising(ZeroDivisionError("a bug"), monkeypatch)


def run_raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command that raises."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def doctor() -> None:
        raise error

    monkeypatch.setitem(sys.modules, "parley.cli.doctor", SimpleNamespace(app=app))  # type: ignore[misc]
    return main(["doctor"])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_of_the_table_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"parley {name}" in capsys.readouterr().out


def test_help_loads_no_command() -> None:
    """What makes help quick; the milliseconds themselves are measured by
    benchmarks/startup_process.py.
    """
    program = (
        "import sys; from parley.cli import main; main(['--help']);heavy = [m for m "
        "in ('pyarrow', 'pyspark', 'rich', 'asyncio', 'parley.client', "
        "'parley.records') if m in sys.modules]; assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


def test_what_stdout_cannot_encode_is_escaped() -> None:
    done = parley("replicate", "plan", "--help", env={"PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert r"HOST:PORT,\u2026" in done.stdout


def test_a_closed_stdout_is_one_line_and_nothing_is_done() -> None:
    done = parley("consume", "flights", "--group", "g", output=">&-")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "parley: stdout is closed; where its output is not wanted, send it to /dev/null\n"
    )


@pytest.mark.parametrize("arguments", [("--version",), ("protocol",)])
def test_a_stdout_that_takes_nothing_is_one_line(arguments: tuple[str, ...]) -> None:
    done = parley(*arguments, output=">/dev/full")
    assert (done.returncode, done.stderr) == (1, "parley: [Errno 28] No space left on device\n")


def test_a_pipe_that_nobody_reads_is_no_trouble_to_speak_of() -> None:
    done = parley("protocol", output="| head -n 0")
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_stderr_messages_do_not_become_data() -> None:
    done = parley("consume", "flights", output="2>&-")
    assert (done.returncode, done.stdout) == (2, "")


def parley(
    *arguments: str, env: Mapping[str, str] | None = None, output: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process. `output` is the shell's word for where its output goes."""
    return subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m parley "$@" {output}', sys.executable, *arguments],
        env=os.environ | {"PYTHONUNBUFFERED": ""} | dict(env or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=GENEROUS_S,
    )


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "parley", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"parley {__version__}\n"


def test_the_doctor_reports_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["_command"] == "doctor"
    found = {row["check"]: row for row in document["rows"]}
    assert {
        "python",
        "pyarrow",
        "kernel",
        "java",
        "pyspark",
        "spark workers",
        "real brokers",
    } <= found.keys()
    assert found["python"]["status"] == "ok"
    assert all(row["remedy"] for row in document["rows"] if row["status"] != "ok")
