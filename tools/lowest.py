"""Run tests on the oldest releases that parley's requirements allow, all of them together.

    python tools/lowest.py [--env .venv-lowest] [--list] [--no-spark] [pytest's arguments]

A bound that nobody installs is a guess: pip always takes the newest. uv resolves the requirements
and all extras to their lowest releases, and what those need in turn to its newest, as a user's
other packages might. The test tools are those of constraints.txt. Without arguments for pytest the
unit tests run, and README's programs, Spark's among them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKERS = "not long and not real and not jars"
TESTS = [
    "tests/unit",
    "tests/test_docs.py",
    "--deselect=tests/unit/tools/test_set_up.py::test_everything_that_is_installed_is_pinned",
]
"""Without what holds the development environment to constraints.txt."""
SPARK_EXTRAS = {"spark", "demo"}
NOT_FOR_TESTS = {"ruff"}
OLD_LIBRARIES_WARN = ("-W", "ignore::DeprecationWarning")
"""Old libraries use what new ones have deprecated since; what is to be
proved here is that they work.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--env", default=".venv-lowest", help="the environment's folder (default: %(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="print the lowest releases and end")
    parser.add_argument(
        "--no-spark", action="store_true", help="leave PySpark (450 MB) and its tests out"
    )
    arguments, for_pytest = parser.parse_known_args()
    wanted = [name for name in extras() if not (arguments.no_spark and name in SPARK_EXTRAS)]
    environment = (ROOT / arguments.env).absolute()
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True, symlinks=True)
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"])
    lowest = environment / "lowest.txt"
    lowest.write_text(resolve(python, wanted), encoding="utf-8")
    print(f"lowest: {', '.join(direct(lowest.read_text(encoding='utf-8')))}", flush=True)
    if arguments.list:
        return 0
    run([python, "-m", "uv", "pip", "install", "--quiet", "--python", python, "-r", lowest])
    marked = ["-m", MARKERS + (" and not spark" if arguments.no_spark else "")]
    command = [python, "-m", "pytest", "-q", *OLD_LIBRARIES_WARN, *marked, *(for_pytest or TESTS)]
    return subprocess.run(command, cwd=ROOT, env=with_source(), check=False).returncode


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found


def extras() -> dict[str, list[str]]:
    """Return what all extras require but a Java, which the test tools bring, and parley's other
    distributions, which run from here.
    """
    found = project()["tool"]
    assert isinstance(found, dict)
    written: dict[str, list[str]] = found["parley"]["extras"]
    return {
        name: [one for one in requirements if not one.startswith("kafka-parley")]
        for name, requirements in written.items()
        if name != "java"
    }


def test_tools() -> list[str]:
    """Return the pinned test tools and foreign clients."""
    groups = project()["dependency-groups"]
    assert isinstance(groups, dict)
    wanted = {name_of(one): re.search(r"\[.*]", one) for one in groups["dev"]}
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for name, is_pinned, version in (line.partition("==") for line in pinned):
        if is_pinned and name_of(name) in wanted.keys() - NOT_FOR_TESTS:
            with_extras = wanted[name_of(name)]
            found.append(f"{name}{with_extras[0] if with_extras else ''}=={version}")
    return found


def resolve(python: Path, wanted: list[str]) -> str:
    """Return the requirements of an environment with the lowest releases, pinned."""
    command: list[str | Path] = [
        python,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--resolution",
        "lowest-direct",
    ]
    command += ["--python", python, "--no-annotate", "--no-header"]
    found = project()["project"]
    assert isinstance(found, dict)
    requirements = [
        *found["dependencies"],
        *(one for extra in wanted for one in extras()[extra]),
        *test_tools(),
    ]
    return run([*command, "-"], given="\n".join(requirements))


def direct(lowest: str) -> list[str]:
    """Return the lines of the resolution that parley itself requires."""
    found = project()["project"]
    assert isinstance(found, dict)
    wanted = {name_of(one) for one in found["dependencies"]}
    wanted |= {name_of(one) for requirements in extras().values() for one in requirements}
    return [line for line in lowest.splitlines() if name_of(line) in wanted]


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower().replace("_", "-")


def with_source() -> dict[str, str]:
    """Return an environment in which the source tree is what runs: building the kernel
    once more shows nothing here.
    """
    hidden = {"VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
    clean = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**clean, "PYTHONPATH": str(ROOT / "src")}


def run(command: list[str | Path], given: str = "") -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, input=given, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(
            f"lowest: `{' '.join(str(part) for part in command)[:200]}` "
            f"failed:\n{done.stderr[-3000:]}"
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
