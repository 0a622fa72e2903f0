"""An sdist and the wheels that are built from it, without cargo and with one that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import parley

ROOT = Path(__file__).parents[3]
LEFT_OUT = (".*", "tests", "benchmarks", "docs", "build", "dist", "target", "*.so", "__pycache__", "*.egg-info")


def build(what: str, tree: Path, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"from setuptools import build_meta as backend; backend.build_{what}({str(out)!r})"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=110, check=False, cwd=tree,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an unpacked sdist."""
    folder = tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*LEFT_OUT))
    done = build("sdist", folder / "tree", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(folder / f"kafka_parley-{parley.__version__}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"kafka_parley-{parley.__version__}"


def files_below(folder: Path, pattern: str) -> set[str]:
    found = folder.rglob(pattern)
    return {str(path.relative_to(folder)) for path in found if path.is_file() and "target" not in path.parts}


def test_an_sdist_has_all_sources_of_the_kernel(unpacked: Path) -> None:
    assert files_below(unpacked / "native", "*") == files_below(ROOT / "native", "*")
    for name in ("setup.py", "MANIFEST.in", "README.md", "LICENSE", "THIRD-PARTY-NOTICES.txt", "constraints.txt"):
        assert (unpacked / name).is_file()


def test_an_sdist_has_all_sources_of_the_package_the_laboratory_included(unpacked: Path) -> None:
    missing = files_below(ROOT / "src" / "parley", "*.py") - files_below(unpacked / "src" / "parley", "*.py")
    assert not missing


@pytest.fixture(scope="module")
def wheel(unpacked: Path) -> Path:
    """Return the wheel that is built from the sdist where there is no cargo."""
    empty = unpacked.parent / "empty"
    empty.mkdir()
    done = build("wheel", unpacked, unpacked.parent / "wheels", PATH=str(empty), PARLEY_KERNEL="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "building without the compiled kernel; the wheel is py3-none-any" in done.stderr
    (found,) = (unpacked.parent / "wheels").glob("*.whl")
    return found


def test_a_wheel_without_a_kernel_promises_no_platform(wheel: Path) -> None:
    assert wheel.name == f"kafka_parley-{parley.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if name.endswith((".so", ".pyd", ".rs"))]


def test_a_wheel_has_the_package_and_its_data_and_no_laboratory(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        described = message_from_string(archive.read(metadata).decode())
    source = ROOT / "src" / "parley"
    data = {f"parley/{name}" for kind in ("*.api", "*.txt", "*.json", "*.typed") for name in files_below(source, kind)}
    assert {name for name in data if "/schema/apis/" not in name} <= names
    assert [name for name in names if "/schema/apis/" in name] == ["parley/schema/apis/all.api"]
    own = {name for name in names if name.startswith("parley/testing/")}
    kept = {"__init__.py", "pytest_plugin.py", "delivery.py"}
    assert {name for name in own if "/realbroker/" not in name} == {f"parley/testing/{name}" for name in kept}
    assert {
        f"parley/testing/realbroker/{name}" for name in files_below(source / "testing" / "realbroker", "*.py")
    } <= own
    assert {name.rpartition("/")[2] for name in names if "/licenses/" in name} == {"LICENSE", "THIRD-PARTY-NOTICES.txt"}
    required = [one for one in described.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert len(required) <= 5
    assert described["Version"] == parley.__version__
    assert "(docs/" not in described.get_payload()


DEFINITIONS = """
from parley.schema import ApiKey, data_names, load, load_data, load_header
headers = map(load_header, ["RequestHeader", "ResponseHeader"])
print(*map(load, ApiKey), *map(load_data, data_names()), *headers, sep="\\n")
"""


def test_a_wheel_has_the_same_definitions_in_one_file(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    said = [
        subprocess.run(
            [sys.executable, "-c", DEFINITIONS], capture_output=True, text=True, timeout=60, check=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
        ).stdout
        for folder in (ROOT / "src", tmp_path)
    ]  # fmt: skip
    assert said[0] == said[1]
    assert said[0].count("\n") > 100


def test_a_kernel_that_does_not_build_fails_the_build_and_says_what_to_do(unpacked: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    failing = (
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'cargo 1.95.0' && exit 0\necho 'error: no network' >&2\nexit 101\n"
    )
    for name, text in {"cargo": failing, "rustc": failing, "cc": "#!/bin/sh\nexit 1\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    done = build("wheel", unpacked, tmp_path / "wheels", PATH=f"{tools}:/usr/bin:/bin", PARLEY_KERNEL="")
    assert done.returncode != 0
    assert not list((tmp_path / "wheels").glob("*.whl"))
    said = (done.stdout + done.stderr).strip().splitlines()
    assert any(line.startswith("parley: the compiled kernel was not built") for line in said), said[-20:]
    assert said[-1].startswith("PARLEY_KERNEL=pure installs parley without it")
