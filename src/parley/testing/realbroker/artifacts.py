"""Maven artifacts: class paths and jar folders, cached once per machine, not in the repository."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from parley.errors import ConfigError, KafkaError

MAVEN_TIMEOUT_SECONDS = 600


class ArtifactError(KafkaError):
    """Maven could not bring the artifacts, as the text says. Check network or coordinates."""


def cache_directory() -> Path:
    """Return this machine's cache folder (`XDG_CACHE_HOME`, else `~/.cache`), made if missing."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "parley"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def find_maven() -> str | None:
    """Return the `mvn` command, or None when there is none on the path."""
    return shutil.which("mvn")


def class_path(artifacts: Sequence[str]) -> str:
    """Return the class path of some artifacts with all they need, ready for `java -cp`.

    The first call on a machine runs Maven (and may download); later calls read the cache, unless a
    file that it names is gone. Safe to call from several processes at once. Raises ArtifactError.
    """
    cached = cache_directory() / "class-paths" / f"{_digest('class path', artifacts)}.txt"
    found = _read_class_path(cached)
    if found is None:
        with _maven_lock():
            found = _read_class_path(cached) or _resolve_class_path(artifacts, cached)
    return found


def jar_folder(artifacts: Sequence[str], *, alone: bool = False) -> Path:
    """Return a folder with copies of the artifacts' jars and, unless `alone`, of all they need.

    The same cache, lock and errors as `class_path`.
    """
    folder = cache_directory() / "jars" / _digest(f"jars alone={alone}", artifacts)
    if not folder.is_dir():
        with _maven_lock():
            if not folder.is_dir():
                _copy_jars(artifacts, folder, alone=alone)
    return folder


def _digest(kind: str, artifacts: Sequence[str]) -> str:
    """Return a short file name that stands for these artifacts, readable at its front."""
    name = artifacts[0].split(":", 1)[1].replace(":", "-")
    return f"{name}-{hashlib.sha256(repr((kind, tuple(artifacts))).encode()).hexdigest()[:12]}"


def _read_class_path(cached: Path) -> str | None:
    """Return a cached class path whose files all exist still, else None."""
    try:
        text = cached.read_text().strip()
    except FileNotFoundError:
        return None
    return text if text and all(os.path.exists(entry) for entry in text.split(os.pathsep)) else None


@contextmanager
def _maven_lock() -> Iterator[None]:
    """Hold the machine's one Maven lock: Maven's local repository does not stand two writers."""
    with (cache_directory() / "maven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve_class_path(artifacts: Sequence[str], cached: Path) -> str:
    with tempfile.TemporaryDirectory() as work:
        output = Path(work) / "class-path.txt"
        _run_maven(
            Path(work), artifacts, ["dependency:build-classpath", f"-Dmdep.outputFile={output}"]
        )
        text = output.read_text().strip()
    cached.parent.mkdir(parents=True, exist_ok=True)
    partial = cached.with_suffix(f".{os.getpid()}")
    partial.write_text(text + "\n")
    partial.replace(cached)
    return text


def _copy_jars(artifacts: Sequence[str], folder: Path, *, alone: bool) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        jars = Path(work) / "jars"
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        _run_maven(Path(work), artifacts, [*goal, "-DexcludeTransitive=true"] if alone else goal)
        jars.replace(folder)


def _run_maven(work: Path, artifacts: Sequence[str], goal: Sequence[str]) -> None:
    """Run one goal on a project that depends on the artifacts and on nothing else."""
    maven = find_maven()
    if maven is None:
        raise ConfigError(
            f"Maven is needed for {artifacts[0]}, but there is no `mvn` on the path. Install Maven."
        )
    pom = work / "pom.xml"
    pom.write_text(_pom(artifacts))
    command = [maven, "-q", "-B", "-f", str(pom), *goal]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ArtifactError(
            f"Maven did not bring {artifacts[0]} within {MAVEN_TIMEOUT_SECONDS} s"
        ) from error
    if done.returncode != 0:
        raise ArtifactError(
            f"Maven could not bring {artifacts[0]}:\n{(done.stdout + done.stderr)[-3000:]}"
        )


def _pom(artifacts: Sequence[str]) -> str:
    """Return a project file; a direct dependency wins over one that comes with another artifact."""
    dependencies = "".join(_dependency(artifact) for artifact in artifacts)
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>\n"
    )


def _dependency(artifact: str) -> str:
    """Return the XML of `group:artifact:version`; a final `:-` leaves its dependencies out."""
    group, name, version, *rest = artifact.split(":")
    exclusions = ""
    if rest == ["-"]:
        everything = "<groupId>*</groupId><artifactId>*</artifactId>"
        exclusions = f"<exclusions><exclusion>{everything}</exclusion></exclusions>"
    return (
        f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId>"
        f"<version>{escape(version)}</version>{exclusions}</dependency>"
    )
