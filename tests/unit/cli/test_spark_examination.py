"""What `parley doctor --spark` makes of what Python workers say of themselves."""

from __future__ import annotations

import json

import pytest

from parley import __version__
from parley.cli import main
from parley.cli.examination import BROKEN, MISSING, OK
from parley.cli.exit_codes import ExitCode
from parley.cli.spark_examination import compared
from parley.spark.worker_facts import why

Facts = dict[str, str | None]


def worker(**other: str | None) -> Facts:
    return {
        "host": "driver", "python": "3.12.1", "path": "/opt/jobs/bin/python", "pyarrow": "26.0.1",
        "parley": __version__, "kernel": None, "schemas": None, **other,
    }  # fmt: skip


def test_workers_that_have_all_are_well() -> None:
    planner, executor = compared(worker(), worker(host="node7"))
    assert (planner.status, executor.status) == (OK, OK)
    assert executor.found == (
        f"on node7: Python 3.12.1 (/opt/jobs/bin/python), pyarrow 26.0.1, parley {__version__}, "
        "compiled"
    )


@pytest.mark.parametrize(
    ("lacks", "status", "found", "remedy"),
    [
        ({"parley": None}, BROKEN, "parley not installed", "install kafka-parley for /opt/jobs"),
        ({"pyarrow": None}, BROKEN, "pyarrow not installed", "bin/python on node7"),
        ({"parley": "0.0.9"}, BROKEN, f"where {__version__} plans", "the same release everywhere"),
        ({"kernel": "no kernel"}, MISSING, "records in Python, because no kernel", "--force-rein"),
        ({"schemas": "no decoder"}, MISSING, "schemas in Python, because no dec", "--force-rein"),
    ],
)
def test_what_an_executor_lacks_is_named_with_the_place(
    lacks: Facts, status: str, found: str, remedy: str
) -> None:
    planner, executor = compared(worker(), worker(host="node7", **lacks))
    assert planner.status == OK
    assert executor.status == status
    assert found in executor.found
    assert executor.remedy is not None
    assert remedy in executor.remedy


def test_an_executor_is_held_against_what_plans_not_against_this_program() -> None:
    planner, executor = compared(worker(parley="0.0.9"), worker(parley="0.0.9"))
    assert (planner.status, executor.status) == (BROKEN, OK)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            "  File \"worker.py\", line 1\nModuleNotFoundError: No module named 'numpy'\n",
            "ModuleNotFoundError: No module named 'numpy'",
        ),
        (
            "An error occurred while calling o39.load.\n: java.io.IOException: Cannot run program "
            '"/nowhere"\n\tat java.base/java.lang.ProcessBuilder.start\nCaused by: java.io.'
            "IOException: error=2\n",
            'IOException: Cannot run program "/nowhere"',
        ),
        (
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python "
            "in worker has different version: 3.10 than that in driver: 3.11\n\tat org.apache",
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
            "version: 3.10 than that in driver: 3.11",
        ),
        ("[CONNECT_ERROR] nobody answers", "[CONNECT_ERROR] nobody answers"),
        ("what is this", "RuntimeError: what is this"),
    ],
)
def test_of_a_long_report_the_line_that_says_why_is_shown(text: str, cause: str) -> None:
    assert why(RuntimeError(text)) == cause


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--master", "local[2]"], "--master and --conf belong to --spark"),
        (["--spark", "--conf", "spark.archives"], "--conf takes spark.NAME=VALUE"),
        (
            ["--spark", "--conf", "word=hunter2"],
            "--conf takes spark.NAME=VALUE: 'word' is no",
        ),
    ],
)
def test_a_wrong_call_is_refused(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *words]) == ExitCode.USAGE
    assert text in capsys.readouterr().err


def test_a_connect_server_that_is_not_there_is_named_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("pyspark")
    assert main(["doctor", "--spark", "--master", "sc://127.0.0.1:1", "--format", "json"]) == 1
    found = {row["check"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert found["spark task"]["status"] == BROKEN
    assert "at sc://127.0.0.1:1 did not run a task: Conn" in found["spark task"]["found"]
