"""For the tests that hold parley against Apache Kafka's own definitions and classes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from parley.host import JavaHome, find_java
from parley.testing.realbroker import class_path, jar_folder

from ..support import GENEROUS_S

RELEASES = ("3.9.1", "4.3.0")
"""From the oldest to the newest: neither alone has every version (Produce 0-11 and 3-13)."""


def clients_jar(release: str) -> Path:
    """Return the kafka-clients jar of a release, from Maven's cache or from Maven Central."""
    (jar,) = jar_folder([f"org.apache.kafka:kafka-clients:{release}"], alone=True).glob(
        "kafka-clients-*.jar"
    )
    return jar


@pytest.fixture(scope="session")
def clients_jars() -> dict[str, Path]:
    """The kafka-clients jars by release, from the oldest to the newest. Tests with
    it carry the marker `jars`.
    """
    return {release: clients_jar(release) for release in RELEASES}


@pytest.fixture(scope="session")
def clients_class_paths() -> dict[str, str]:
    """The class paths of kafka-clients with all it needs, by release. Tests with it
    carry the marker `jars`.
    """
    return {
        release: class_path([f"org.apache.kafka:kafka-clients:{release}"]) for release in RELEASES
    }


@pytest.fixture(scope="session")
def tools() -> dict[str, ModuleType]:
    """The modules of `tools/` that read definitions, by name; they are scripts,
    so they are no package.
    """
    folder = Path(__file__).parents[2] / "tools"
    found = {}
    for name in ("definitions", "compare_definitions", "import_definitions"):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found[name] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[name])
    return found


@cache
def java_with_compiler() -> JavaHome | None:
    """Return a Java 17 or later that can run a source file, which a bare runtime cannot."""
    java = find_java(17)
    if java is None:
        return None
    command = [str(java.command), "--list-modules"]
    modules = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=GENEROUS_S
    )
    return java if "jdk.compiler" in modules.stdout else None


@pytest.fixture(scope="session")
def run_java() -> Callable[..., bytes]:
    """A function (class path, name of a source file here, input) that returns
    what a Java program prints.
    """
    java = java_with_compiler()
    if java is None:
        pytest.skip("no Java 17 with a compiler: the oracles are Java source files")

    def run(class_path: str, source: str, data: bytes = b"") -> bytes:
        # it compiles the source first, and then runs once
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = [
            str(java.command),
            *quick,
            "-cp",
            class_path,
            str(Path(__file__).with_name(source)),
        ]
        done = subprocess.run(
            command, input=data, capture_output=True, check=False, timeout=2 * GENEROUS_S
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run
