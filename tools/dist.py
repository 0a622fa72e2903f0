"""Build the sdist and the wheels into dist/, and try each in an environment of its own.

    python tools/dist.py               what `make dist` does
    python tools/dist.py --release     also what only a release needs: an address, a clean tree
    python tools/dist.py --no-spark    without README's Spark programs (PySpark is 450 MB)

Each try starts from an empty environment, and runs its Python by its path: no environment is
activated, nothing of the repository is on a path. "Without cargo" means a PATH on which everything
is but Rust. Where there is no cargo at all, the last lines say that no compiled kernel was tried.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import traceback
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
MOST_PACKAGES = 6
PURE_PARTS = ("cluster", "pipelines")
PARTS = (*PURE_PARTS, "schemas")
"""The folders of the distributions beside kafka-parley."""
MOST_WHEEL_BYTES = {
    "native": 1_770_000,
    "pure": 1_140_000,
    "cluster": 450_000,
    "pipelines": 290_000,
    "schemas": 400_000,
}
COMPILED = ("native", "schemas")
PROGRAM_SECONDS = 400
RUST = {"cargo", "rustc", "rustup"}


class Failed(Exception):
    """A step did not do what it has to; the text says what was expected."""


class Workshop:
    """A temporary folder, the two PATHs, and what has been found so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failures: list[str] = []
        self.has_cargo = shutil.which("cargo") is not None
        outside = [
            one
            for one in os.environ["PATH"].split(":")
            if one and not (Path(one).parent / "pyvenv.cfg").exists()
        ]
        self.path = ":".join(outside)
        self.path_without_cargo = str(self._tools_without_rust(outside))

    def _tools_without_rust(self, folders: list[str]) -> Path:
        farm = self.folder / "tools-without-rust"
        farm.mkdir()
        for folder in filter(os.path.isdir, folders):
            for tool in os.scandir(folder):
                if tool.name not in RUST and not (farm / tool.name).is_symlink():
                    (farm / tool.name).symlink_to(tool.path)
        return farm

    def step(self, name: str, work: Callable[[], str]) -> None:
        """Do one step and say how it ended. The others go on after a failure."""
        print(f"dist: {name} ...", flush=True)
        try:
            print(f"dist: {name}: {work()}", flush=True)
        except Failed as failure:
            self.failures.append(name)
            print(f"dist: {name}: FAILED\n{failure}", flush=True)
        except Exception:
            self.failures.append(name)
            print(f"dist: {name}: FAILED\n{traceback.format_exc()}", flush=True)

    def environment(self, *, cargo: bool, **more: str) -> dict[str, str]:
        """Return the variables of a shell in which nothing is activated."""
        hidden = {
            "PYTHONPATH",
            "PYTHONHOME",
            "VIRTUAL_ENV",
            "PYSPARK_PYTHON",
            "PYSPARK_DRIVER_PYTHON",
        }
        clean = {
            k: v for k, v in os.environ.items() if k not in hidden and not k.startswith("PARLEY_")
        }
        shared = {"CARGO_TARGET_DIR": str(self.folder / "target")}
        return {**clean, **shared, "PATH": self.path if cargo else self.path_without_cargo, **more}

    def run(
        self, command: list[str | Path], *, cargo: bool = False, expect: int = 0, **more: str
    ) -> str:
        """Run a command and return all it prints. Raises Failed when it ends
        otherwise than expected.
        """
        done = subprocess.run(
            [str(part) for part in command], cwd=self.folder,
            env=self.environment(cargo=cargo, **more), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        if done.returncode != expect:
            shown = " ".join(str(part) for part in command)[:300]
            raise Failed(
                f"`{shown}` ended with {done.returncode}, expected was "
                f"{expect}:\n{done.stdout[-3000:]}"
            )
        return done.stdout

    def new_environment(
        self, name: str, *requirements: str | Path, cargo: bool = False, **more: str
    ) -> Path:
        """Make an environment with these requirements and return its Python."""
        self.run([sys.executable, "-m", "venv", self.folder / name])
        python = self.folder / name / "bin" / "python"
        self.install(python, *requirements, cargo=cargo, **more)
        return python

    def install(
        self, python: Path, *requirements: str | Path, cargo: bool = False, **more: str
    ) -> None:
        pip: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ]
        self.run([*pip, *requirements], cargo=cargo, **more)


# -- building --------------------------------------------------------------------------------------


def build(shop: Workshop) -> str:
    """Build the sdist, and out of it the wheels, as `python -m build` does for everybody."""
    shutil.rmtree(DIST, ignore_errors=True)
    python = shop.new_environment("builder", "build")
    shop.run([python, "-m", "build", "--sdist", "--outdir", DIST, ROOT])
    with tarfile.open(sdist()) as archive:
        archive.extractall(shop.folder, filter="data")
    tree = shop.folder / sdist().name.removesuffix(".tar.gz")
    shop.run([python, "-m", "build", "--wheel", "--outdir", DIST, tree])
    if shop.has_cargo:
        shop.run(
            [python, "-m", "build", "--wheel", "--outdir", DIST, tree],
            cargo=True,
            PARLEY_KERNEL="native",
        )
        # beside what the kernel's build has left
        command = [python, "-m", "build", "--wheel", "--outdir", DIST, tree / "schemas"]
        shop.run(command, cargo=True)
    for part in PURE_PARTS:
        shop.run([python, "-m", "build", "--wheel", "--outdir", DIST, tree / part])
    return ", ".join(
        f"{path.name} ({path.stat().st_size:,} bytes)" for path in sorted(DIST.iterdir())
    )


def sdist() -> Path:
    (found,) = DIST.glob("*.tar.gz")
    return found


def wheel(kind: str) -> Path:
    """Return a wheel of kafka-parley with the native or the pure kernel, or that of a part."""
    name = f"kafka_parley_{kind}" if kind in PARTS else "kafka_parley"
    pure = kind not in COMPILED
    found = [
        path
        for path in DIST.glob(f"{name}-*.whl")
        if path.name.endswith("-py3-none-any.whl") == pure
    ]
    if len(found) != 1:
        raise Failed(f"there is no {kind} wheel in {DIST}")
    return found[0]


def check_sdist() -> str:
    """Check that the sdist has the sources of what is compiled and everything that
    builds them and the other parts.
    """
    with tarfile.open(sdist()) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        f"{crate}/{name}"
        for crate in ("native", "native-schemas")
        for name in ("Cargo.toml", "Cargo.lock", "src/lib.rs")
    }
    needed |= {
        f"{folder}{name}"
        for folder in ("", *(f"{part}/" for part in PARTS))
        for name in ("setup.py", "pyproject.toml")
    }
    if needed - names:
        raise Failed(f"the sdist lacks {', '.join(sorted(needed - names))}")
    return f"{len(names)} files"


def check_wheel(kind: str) -> str:
    """Check a wheel's tag, size, contents and metadata."""
    path = wheel(kind)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    compiled = [name for name in names if name.endswith((".so", ".pyd"))]
    if kind in COMPILED and (len(compiled) != 1 or "-cp311-abi3-" not in path.name):
        raise Failed(f"{path.name} has {compiled or 'nothing compiled'}")
    if kind not in COMPILED and compiled:
        raise Failed(f"{path.name} has {compiled}")
    size = path.stat().st_size
    if size > MOST_WHEEL_BYTES[kind]:
        raise Failed(f"{path.name} has {size:,} bytes; {MOST_WHEEL_BYTES[kind]:,} are the limit")
    dead = re.findall(r"\]\((?!https?://|#|mailto:)[^)]*\)", metadata)
    if dead:
        raise Failed(f"links that lead nowhere on a package index: {dead}")
    if not any(name.endswith("/licenses/THIRD-PARTY-NOTICES.txt") for name in names):
        raise Failed("the notices of third parties are missing")
    return f"{size:,} bytes, {len(names)} files"


def check_shared(kinds: list[str]) -> str:
    """Check that what is installed together shares no file: the second of two would
    hide it, or take it along.
    """
    parts = PARTS if "native" in kinds else PURE_PARTS
    pairs = [*itertools.product(kinds, parts), *itertools.combinations(parts, 2)]
    for kind, other in pairs:
        shared = files_of(wheel(kind)) & files_of(wheel(other))
        if shared:
            raise Failed(
                f"{wheel(kind).name} and {wheel(other).name} both have {', '.join(sorted(shared))}"
            )
    return "no file is in two distributions"


def files_of(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


# -- trying ----------------------------------------------------------------------------------------


def programs(spark: bool) -> Iterator[tuple[int, str]]:
    """Yield README's programs with their numbers: those that start Spark, or the others."""
    blocks = re.findall(
        r"(?<!-->\n)```python\n(.*?)```",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    for number, block in enumerate(blocks, start=1):
        if ("pyspark" in block) == spark:
            yield number, block


def run_programs(shop: Workshop, python: Path, spark: bool) -> str:
    """Run README's programs by the path of their Python; report all that fail."""
    failed, count = [], 0
    for number, block in programs(spark):
        count += 1
        file = shop.folder / f"readme-{number}.py"
        file.write_text(block, encoding="utf-8")
        try:
            shop.run(["timeout", str(PROGRAM_SECONDS), python, file])
        except Failed as failure:
            failed.append(f"README's program {number}: {failure}")
    if failed:
        raise Failed("\n".join(failed))
    return f"{count} programs of README run"


def packages(shop: Workshop, python: Path) -> int:
    """Return how many packages an environment has. Raises Failed for more than there may be."""
    listed = shop.run(
        [python, "-m", "pip", "--disable-pip-version-check", "list", "--format", "freeze"]
    ).split()
    brought = [
        one for one in listed if one.partition("==")[0] not in {"pip", "setuptools", "wheel"}
    ]
    if len(brought) > MOST_PACKAGES:
        raise Failed(
            f"{len(brought)} packages were installed, {MOST_PACKAGES} are the limit: {brought}"
        )
    return len(brought)


def try_alone(shop: Workshop, python: Path) -> str:
    """Check that kafka-parley without an extra works, and says in one line what the others are."""
    count = packages(shop, python)
    shop.run(
        [
            python,
            "-W",
            "ignore",
            "-c",
            "import parley; [getattr(parley, name) for name in parley.__all__]",
        ]
    )
    said = shop.run([python.with_name("parley"), "features"], expect=1)
    if said.count("\n") != 1 or "kafka-parley[cli]" not in said:
        raise Failed(f"without the extra `cli` the command line says: {said}")
    report = shop.run([python.with_name("parley"), "doctor"])
    for extra, package, program in (
        ("cluster", "parley.devcluster", "from parley.devcluster import LocalCluster"),
        ("pipelines", "parley.pipelines", "from parley import Pipeline"),
    ):
        remedy = f'pip install "kafka-parley[{extra}]"'
        if remedy not in report:
            raise Failed(f"without the extra `{extra}` the doctor says: {report}")
        said = shop.run([python, "-c", program], expect=1).splitlines()[-1]
        if not said.endswith(f"{package} is not installed: {remedy}"):
            raise Failed(f"without the extra `{extra}` `{program}` says: {said}")
    return f"{count} packages"


def try_kernel(
    shop: Workshop, name: str, requirement: Path, kernel: str, *, cargo: bool = False
) -> str:
    """Install one thing alone and count what comes with it; then run README's programs
    with the cluster beside it.
    """
    python = shop.new_environment(name, requirement, "--no-cache-dir", cargo=cargo)
    alone = try_alone(shop, python)
    shop.install(python, wheel("cluster"))
    count = packages(shop, python)
    said = shop.run([python, ROOT / "tools" / "try_wheel.py", "--kernel", kernel]).strip()
    shop.run([python.with_name("parley"), "doctor"])
    return f"{alone}, {count} with the cluster; {said}; {run_programs(shop, python, spark=False)}"


DECODES = """
import pyarrow
from parley.serdes import ColumnDecoder, Schema, native

decoder = ColumnDecoder(None, Schema('"int"'), framing="none")
found = decoder.decode_values(pyarrow.array([b"\\x02"], pyarrow.binary()))
assert found.array.to_pylist() == [1], found
print(native.why_reference or "compiled")
"""


def try_schemas(shop: Workshop, requirement: Path) -> str:
    """Install the decoder of schemas as the extra does, and decode with it and without it."""
    python = shop.new_environment("schemas", requirement)
    said = shop.run([python, "-c", DECODES]).strip()
    if "not installed" not in said:
        raise Failed(f"without the extra `schemas` the decoder is {said}")
    shop.install(python, *with_extras(requirement, "schemas"))
    said = shop.run([python, "-c", DECODES]).strip()
    if said != "compiled":
        raise Failed(f"with the extra `schemas` the decoder is not used: {said}")
    return f"{packages(shop, python)} packages, the decoder is used where it is installed"


def with_extras(requirement: Path, extras: str) -> list[str]:
    """Return pip's arguments for a wheel with extras; of these our own are found beside it."""
    return [f"{requirement}[{extras}]", "--find-links", str(DIST)]


def try_command_line(shop: Workshop, requirement: Path) -> str:
    """Install pipelines, then the command line, then the cluster, and call what each brings."""
    python = shop.new_environment("command-line", *with_extras(requirement, "pipelines"))
    shop.run([python, "-c", "import parley; parley.Pipeline.from_file"])
    shop.install(python, *with_extras(requirement, "cli"))
    parley = python.with_name("parley")
    said = shop.run([parley, "cluster", "apis"], expect=2)
    if said.count("\n") != 1 or "kafka-parley[cluster]" not in said:
        raise Failed(f"without the extra `cluster` the command line says: {said}")
    for arguments in (
        ["--version"],
        ["--help"],
        ["features", "--help"],
        ["protocol", "diff", "2.4", "4.3"],
        ["doctor"],
    ):
        shop.run([parley, *arguments])
    shop.install(python, *with_extras(requirement, "cli,cluster"))
    shop.run([parley, "cluster", "apis"])
    return "the command line answers"


def try_spark(shop: Workshop, requirement: Path) -> str:
    """Run README's Spark programs by the path of a Python whose environment is not activated."""
    extras = "cluster,spark" if shutil.which("java") else "cluster,spark,java"
    return run_programs(
        shop, shop.new_environment("spark", *with_extras(requirement, extras)), spark=True
    )


def check_release() -> str:
    """Check what only a release needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if ".invalid" in project["urls"]["Repository"]:
        raise Failed("pyproject.toml: project.urls.Repository is still a placeholder")
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    if changed.stdout:
        raise Failed(f"the tree is not clean:\n{changed.stdout}")
    return "the repository has an address, the tree is clean"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--release", action="store_true", help="also check what only a release needs"
    )
    parser.add_argument("--no-spark", action="store_true", help="leave README's Spark programs out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parley-dist-") as folder:
        shop = Workshop(Path(folder))
        if arguments.release:
            shop.step("release", check_release)
        shop.step("build", lambda: build(shop))
        shop.step("sdist", check_sdist)
        kinds = ["pure", "native"] if shop.has_cargo else ["pure"]
        for kind in kinds:
            shop.step(f"{kind} wheel", partial(check_wheel, kind))
            shop.step(
                f"try the {kind} wheel", lambda kind=kind: try_kernel(shop, kind, wheel(kind), kind)
            )
        for part in PURE_PARTS:
            shop.step(f"{part} wheel", partial(check_wheel, part))
        if shop.has_cargo:
            shop.step("schemas wheel", lambda: check_wheel("schemas"))
            shop.step("try the schemas wheel", lambda: try_schemas(shop, wheel("native")))
        shop.step("all wheels", lambda: check_shared(kinds))
        shop.step(
            "try the sdist without cargo", lambda: try_kernel(shop, "sdist-pure", sdist(), "pure")
        )
        if shop.has_cargo:
            work = lambda: try_kernel(shop, "sdist-native", sdist(), "native", cargo=True)  # noqa: E731
            shop.step("try the sdist with cargo", work)
        shop.step("try the command line", lambda: try_command_line(shop, wheel(kinds[-1])))
        if not arguments.no_spark:
            shop.step("try Spark", lambda: try_spark(shop, wheel(kinds[-1])))
        if not shop.has_cargo:
            print("dist: there is no cargo on PATH: no compiled kernel was built or tried")
        print(
            f"dist: FAILED: {', '.join(shop.failures)}"
            if shop.failures
            else f"dist: all is well; see {DIST}"
        )
        return 1 if shop.failures else 0


if __name__ == "__main__":
    sys.exit(main())
