"""What pyproject.toml cannot say: which kernel a build has, which wheel has which module, where
README's links lead.

PARLEY_KERNEL in the environment chooses the record kernel of a wheel:

    auto    compiled where cargo is on PATH, pure Python where it is not (the default)
    native  compiled, or the build fails
    pure    pure Python

A wheel without the compiled kernel is tagged py3-none-any, for nothing in it depends on the
platform. A compiled kernel that does not build fails the build: a fallback that nobody sees would
cost speed for years.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
NATIVE = ROOT / "native" / "Cargo.toml"

INSIDE = {
    "parley.devcluster": "kafka-parley-cluster",
    "parley.testing": "kafka-parley-cluster",
    "parley.cli": "kafka-parley-pipelines",
    "parley.pipelines": "kafka-parley-pipelines",
}
"""What is inside these packages is in the wheel of another distribution: cluster/, which tests
install, and pipelines/, which executors do without. The packages themselves, their `__init__`, are
in that of kafka-parley: where the rest is missing they say what to install.
"""
OF_DOCTOR = {"parley.cli.examination", "parley.cli.spark_examination"}
"""What `parley doctor` says with kafka-parley alone, so that it is in its wheel."""

SMALL_C = (
    "-ffunction-sections -fdata-sections "  # the linker drops what nothing calls
    # no panic passes through C: nothing there calls Rust
    "-fno-asynchronous-unwind-tables -fno-unwind-tables "
    # the other way is for frames that unpack to more than 16 MB
    "-DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT"
)
"""For the C compiler, where it takes gcc's options. The user's own CFLAGS
come after them, and win.
"""

OPT_OUT = (
    "PARLEY_KERNEL=pure installs parley without it; `parley doctor` says what the pure-Python "
    "kernel costs."
)


def wants_native() -> bool:
    """Return whether this build has the compiled kernel."""
    choice = os.environ.get("PARLEY_KERNEL") or "auto"
    if choice not in {"auto", "native", "pure"}:
        raise SystemExit(
            f"parley: PARLEY_KERNEL={choice} is not known; it takes auto, native or pure"
        )
    return choice == "native" or (choice == "auto" and shutil.which("cargo") is not None)


def check_toolchain(crate: Path = NATIVE) -> None:
    """Say in one line what the compiled kernel lacks here, before cargo says it in two hundred."""
    needed = tomllib.loads(crate.read_text(encoding="utf-8"))["package"]["rust-version"]
    cargo = shutil.which("cargo")
    if cargo is None:
        raise SystemExit(
            "parley: PARLEY_KERNEL=native needs cargo on PATH (https://rustup.rs), Rust "
            f"{needed} or later"
        )
    asked = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"(\d+)\.(\d+)", asked.stdout)
    if asked.returncode != 0 or found is None:
        raise SystemExit(f"parley: {cargo} does not run: {asked.stderr.strip()}\n{OPT_OUT}")
    if tuple(map(int, found.groups())) < tuple(map(int, needed.split(".")[:2])):
        raise SystemExit(
            f"parley: the compiled kernel needs Rust {needed} or later, and {cargo} is {found[0]}; "
            f"`rustup update`, or install Rust from https://rustup.rs.\n{OPT_OUT}"
        )
    named = any(
        name == "CC" or name.startswith(("CC_", "HOST_CC", "TARGET_CC")) for name in os.environ
    )
    if os.name == "posix" and not named and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        raise SystemExit(
            "parley: the compiled kernel needs a C compiler beside cargo, for libdeflate, "
            "lz4 and zstd, and none is on "
            "PATH. Debian: apt install build-essential; Alpine: apk add build-base; macOS: "
            "xcode-select --install.\n" + OPT_OUT
        )


class BuildPart(build_py):
    """Copies the modules that belong into the wheel of this distribution."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        found = super().find_package_modules(package, package_dir)
        return [
            one for one in found if wheel_of(f"{one[0]}.{one[1]}") == self.distribution.get_name()
        ]


class BuildParley(BuildPart):
    """Makes one file of the definitions besides."""

    def build_package_data(self) -> None:
        super().build_package_data()
        if not self.editable_mode:
            join_definitions(Path(self.build_lib) / "parley" / "schema" / "apis")


def join_definitions(folder: Path) -> None:
    """Make one file of the notation files. A wheel packs each file by itself: a hundred
    small ones take 40 kB more.
    """
    joined = folder / "all.api"
    files = [path for path in sorted(folder.glob("*.api")) if path != joined]
    joined.write_text(
        "\n".join(path.read_text(encoding="utf-8") for path in files), encoding="utf-8"
    )
    for path in files:
        path.unlink()


def wheel_of(module: str) -> str:
    """Return the distribution whose wheel has a module.

    >>> wheel_of("parley.devcluster.broker"), wheel_of("parley.devcluster.__init__")
    ('kafka-parley-cluster', 'kafka-parley')
    """
    module = module.removesuffix(".__init__")
    package = ".".join(module.split(".")[:2])
    if module == package or module in OF_DOCTOR:
        return "kafka-parley"
    return INSIDE.get(package, "kafka-parley")


def native_arguments(module: str = "parley.kernel._native", crate: Path = NATIVE) -> dict[str, Any]:
    """Return setup()'s arguments for a compiled module, the kernel or another of this tree."""
    from setuptools_rust import Binding, RustExtension, Strip
    from setuptools_rust.build import build_rust

    class BuildKernel(build_rust):  # type: ignore[misc]
        """Builds the kernel, or says what it takes."""

        def run(self) -> None:
            check_toolchain(crate)
            # By the path of the environment, each environment would build pyo3 again.
            os.environ.setdefault("PYO3_PYTHON", os.path.realpath(sys.executable))
            if os.name == "posix":
                os.environ["CFLAGS"] = f"{SMALL_C} {os.environ.get('CFLAGS', '')}".strip()
            try:
                super().run()
            except Exception as error:
                raise SystemExit(
                    f"parley: the compiled kernel was not built: {error}\nIt takes cargo, a "
                    "C compiler, and crates.io "
                    f"or the crates of {crate.parent.name}/Cargo.lock in cargo's cache; its words "
                    f"are above.\n{OPT_OUT}"
                ) from None

    kernel = RustExtension(
        module,
        path=os.path.relpath(crate),
        binding=Binding.PyO3,
        cargo_manifest_args=["--locked"],  # what Cargo.lock names, and nothing newer
        debug=False,  # an editable installation would otherwise be a debug build
        strip=Strip.All,
    )
    arguments: dict[str, Any] = {
        "rust_extensions": [kernel],
        "cmdclass": {"build_rust": BuildKernel},
    }
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        # One wheel for 3.11 and all later releases. Pythons without a GIL have no stable ABI that
        # reaches back so far.
        arguments["options"] = {"bdist_wheel": {"py_limited_api": "cp311"}}
    return arguments


def long_description(readme: str, repository: str, version: str) -> str:
    """Return README for a package index, where links to files of the repository lead nowhere.

    >>> long_description("[a](docs/a.md#b), [c](https://c.org)", "https://r.org/p", "1.0")
    '[a](https://r.org/p/blob/v1.0/docs/a.md#b), [c](https://c.org)'
    """
    return re.sub(r"\]\((?!https?:|mailto:|#)", f"]({repository}/blob/v{version}/", readme)


def version() -> str:
    """Return the version, which is written in parley/__init__.py and nowhere else."""
    found = re.search(
        r'^__version__ = "(.+)"$',
        (ROOT / "src/parley/__init__.py").read_text(encoding="utf-8"),
        re.M,
    )
    assert found is not None
    return found[1]


def extras(written: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the extras with the version where `{version}` stands: a cluster goes with
    the parley of its version.
    """
    return {
        name: [one.format(version=version()) for one in requirements]
        for name, requirements in written.items()
    }


def setup_part(folder: Path, **arguments: Any) -> None:
    """Run setup() for a distribution of a folder beside `src`: its version, address and licences
    are kafka-parley's, which it requires.
    """
    if "sdist" in sys.argv:
        raise SystemExit(
            f"parley: kafka-parley-{folder.name} has no sdist of its own; that of kafka-parley "
            "has its sources"
        )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = [Path(shutil.copy(ROOT / name, folder)) for name in project["license-files"]]
    arguments.setdefault("options", {})["egg_info"] = {"egg_base": "."}
    try:
        setup(
            version=version(),
            install_requires=[f"kafka-parley=={version()}"],
            project_urls=project["urls"],
            **arguments,
        )
    finally:
        for copied in licences:
            copied.unlink()


def main() -> None:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = described["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    native = wants_native()
    if not native and "sdist" not in sys.argv:
        print(
            "parley: building without the compiled kernel; the wheel is py3-none-any",
            file=sys.stderr,
        )
    arguments = native_arguments() if native else {}
    arguments["cmdclass"] = {"build_py": BuildParley, **arguments.get("cmdclass", {})}
    setup(
        version=version(),
        long_description=long_description(readme, project["urls"]["Repository"], version()),
        long_description_content_type="text/markdown",
        extras_require=extras(described["tool"]["parley"]["extras"]),
        **arguments,
    )


if __name__ == "__main__":
    main()
