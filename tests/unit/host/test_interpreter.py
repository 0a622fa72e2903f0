"""Which interpreter runs Spark's workers."""

from __future__ import annotations

import sys
from pathlib import Path

from parley.host import find_tool, import_failure, interpreter_has, spark_interpreter


def executable(path: Path) -> Path:
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    return path


def test_the_named_interpreter_comes_first_then_python3_on_the_path(tmp_path: Path) -> None:
    named, found = executable(tmp_path / "mine"), executable(tmp_path / "python3")
    path = {"PATH": str(tmp_path)}
    assert spark_interpreter({**path, "PYSPARK_PYTHON": str(named)}) == str(named)
    assert spark_interpreter({**path, "PYSPARK_PYTHON": "mine"}) == str(named)
    assert spark_interpreter(path) == str(found)
    assert spark_interpreter({"PATH": str(tmp_path / "none")}) is None


def test_a_module_is_looked_for_in_the_other_interpreter(tmp_path: Path) -> None:
    assert interpreter_has(sys.executable, "json")
    assert not interpreter_has(sys.executable, "no_such_module_anywhere")
    assert not interpreter_has(str(executable(tmp_path / "broken")), "json")
    assert not interpreter_has(str(tmp_path / "absent"), "json")


def test_it_is_said_why_a_module_cannot_be_imported(tmp_path: Path) -> None:
    assert import_failure(sys.executable, "json") is None
    assert import_failure(sys.executable, "nowhere") == (
        "ModuleNotFoundError: No module named 'nowhere'"
    )
    assert import_failure(str(executable(tmp_path / "broken")), "json") == "exit code 3"
    assert "No such file" in (import_failure(str(tmp_path / "absent"), "json") or "")


def test_a_tool_is_looked_for_on_the_given_path(tmp_path: Path) -> None:
    tool = executable(tmp_path / "mvn")
    assert find_tool("mvn", environ={"PATH": str(tmp_path)}) == str(tool)
    assert find_tool("cargo", environ={"PATH": str(tmp_path)}) is None
