"""The demo's care for its output folder, and how failures of the Spark side are reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parley.errors import ConfigError, DiskFullError, JobError
from parley.pipelines.demo import prepare_output
from parley.pipelines.inputs import open_input
from parley.pipelines.job import JobPlan, explain_failure
from parley.pipelines.queries.failures import failure_text
from parley.pipelines.queries.session import _stderr_into


@pytest.fixture
def plan(tmp_path: Path) -> JobPlan:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    return JobPlan(
        dataset=open_input(path),
        bootstrap_servers="x:1",
        topic="a",
        aggregates_topic="b",
        output=tmp_path / "out",
    )


def test_the_output_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    output = tmp_path / "deep" / "out"
    prepare_output(output)
    (output / "old").mkdir()
    (output / "old" / "file").write_text("x")
    prepare_output(output)
    assert [path.name for path in output.iterdir()] == [".parley-demo"]


def test_what_another_program_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ConfigError, match="did not write"):
        prepare_output(tmp_path)
    with pytest.raises(ConfigError, match="did not write"):
        prepare_output(tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "x"


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    prepare_output(tmp_path)
    assert (tmp_path / ".parley-demo").exists()


def test_a_full_disk_is_named_with_its_folder(plan: JobPlan) -> None:
    error = explain_failure(
        "table", "java.io.IOException: No space left on device\n\tat java.base/...", plan
    )
    assert isinstance(error, DiskFullError)
    assert str(plan.output) in str(error)


def test_of_a_long_failure_the_naming_line_is_shown(plan: JobPlan) -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted\n"
        "org.apache.spark.SparkException: Job aborted due to stage failure\n"
        '  File "/x/reader.py", line 1, in read\n'
        "parley.errors.tree.DataLossError: topic t was created again\n"
        "\n\tat "
        "org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)\n"
    )
    error = explain_failure("table", text, plan)
    assert isinstance(error, JobError)
    assert (
        'query "table" failed: parley.errors.tree.DataLossError: topic t was created again'
        in str(error)
    )
    assert "spark.log" in str(error)
    java = (
        "[STREAM_FAILED] x\n=== plan ===\n+- ~Scan[key#0]\njava.lang.A: a\n\tat b.C(D:1)\nCaused "
        "by: java.lang.E: inner"
    )
    assert "failed: java.lang.E: inner (" in str(explain_failure("table", java, plan))
    assert "failed: [STREAM_FAILED] x (" in str(
        explain_failure("table", "[STREAM_FAILED] x\n+- ~Scan", plan)
    )
    assert "no reason given" in str(explain_failure("table", "", plan))


def test_the_causes_of_a_failure_are_searched_too(plan: JobPlan) -> None:
    class Captured(Exception):
        def __init__(self, desc: str, trace: str, cause: Exception | None = None) -> None:
            self._desc, self._stackTrace, self._cause = desc, trace, cause

    error = Captured(
        "query ended", "at x", Captured("job aborted", "Caused by: y: No space left on device")
    )
    assert isinstance(explain_failure("table", failure_text(error), plan), DiskFullError)
    assert failure_text(OSError("plain")) == "plain"


def test_what_starts_meanwhile_inherits_the_log_and_stderr_comes_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = os.fstat(2)
    with _stderr_into(log):
        os.write(2, b"from a child\n")
    after = os.fstat(2)
    assert log.read_bytes() == b"from a child\n"
    assert (before.st_dev, before.st_ino) == (after.st_dev, after.st_ino)
