"""An sdist and the wheels that are built from it, without cargo and with one that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import parley

from ...support import GENEROUS_S

ROOT = Path(__file__).parents[3]
LEFT_OUT = (
    ".*",
    "tests",
    "benchmarks",
    "docs",
    "build",
    "dist",
    "target",
    "*.so",
    "__pycache__",
    "*.egg-info",
)

LICENCES = {"LICENSE", "THIRD-PARTY-NOTICES.txt"}
PACKAGES = ("parley", "pyspark_parley", "pyspark_parley_delta", "pyspark_parley_iceberg")


def build(what: str, tree: Path, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"from setuptools import build_meta as backend; backend.build_{what}({str(out)!r})"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True,
        timeout=GENEROUS_S, check=False,
        cwd=tree,
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


def metadata_file(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (found,) = [one for one in archive.namelist() if one.endswith(f".dist-info/{name}")]
        return archive.read(found).decode()


def files_below(folder: Path, pattern: str) -> set[str]:
    found = folder.rglob(pattern)
    return {
        str(path.relative_to(folder))
        for path in found
        if path.is_file() and "target" not in path.parts
    }


def test_an_sdist_has_all_sources_of_the_kernel(unpacked: Path) -> None:
    assert files_below(unpacked / "native", "*") == files_below(ROOT / "native", "*")
    for name in (
        "setup.py",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "THIRD-PARTY-NOTICES.txt",
        "constraints.txt",
    ):
        assert (unpacked / name).is_file()


def test_an_sdist_has_all_sources_of_the_package_the_laboratory_included(unpacked: Path) -> None:
    for package in ("parley", "parley_laboratory"):
        assert not files_below(ROOT / "src" / package, "*.py") - files_below(
            unpacked / "src" / package, "*.py"
        )


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def described_by(wheel: Path) -> Message:
    return message_from_string(metadata_file(wheel, "METADATA"))


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


@pytest.fixture(scope="module")
def cluster_wheel(unpacked: Path) -> Path:
    """Return the wheel of the embedded cluster, built from the same sdist."""
    return part_wheel(unpacked, "cluster")


@pytest.fixture(scope="module")
def pipelines_wheel(unpacked: Path) -> Path:
    """Return the wheel of pipelines and commands, built from the same sdist."""
    return part_wheel(unpacked, "pipelines")


def part_wheel(unpacked: Path, part: str) -> Path:
    done = build("wheel", unpacked / part, unpacked.parent / f"{part}-wheels")
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (unpacked.parent / f"{part}-wheels").glob("*.whl")
    assert found.name == f"kafka_parley_{part}-{parley.__version__}-py3-none-any.whl"
    return found


def test_a_wheel_without_a_kernel_promises_no_platform(wheel: Path) -> None:
    assert wheel.name == f"kafka_parley-{parley.__version__}-py3-none-any.whl"
    assert not [name for name in names_in(wheel) if name.endswith((".so", ".pyd", ".rs"))]


def test_a_wheel_has_the_package_and_its_data_and_no_laboratory(wheel: Path) -> None:
    names, described = names_in(wheel), described_by(wheel)
    source = ROOT / "src" / "parley"
    data = {
        f"parley/{name}"
        for kind in ("*.api", "*.txt", "*.json", "*.typed")
        for name in files_below(source, kind)
    }
    own = {name for name in data if "/schema/apis/" not in name and "/devcluster/" not in name}
    assert own <= names
    assert [name for name in names if "/schema/apis/" in name] == ["parley/schema/apis/all.api"]
    assert {name.rpartition("/")[2] for name in names if "/licenses/" in name} == LICENCES
    required = [one for one in described.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert len(required) <= 5
    assert described["Version"] == parley.__version__
    assert "(docs/" not in described.get_payload()


def test_of_the_parts_a_wheel_has_only_what_says_what_to_install_and_names_the_extras(
    wheel: Path,
) -> None:
    parts = tuple(f"parley/{name}/" for name in ("devcluster", "testing", "cli", "pipelines"))
    inside = {name for name in names_in(wheel) if name.startswith(parts)}
    examined = {f"parley/cli/{name}examination.py" for name in ("", "spark_")}
    assert inside == {f"{part}__init__.py" for part in parts} | examined
    required = described_by(wheel).get_all("Requires-Dist", [])
    for part, extras in {
        "cluster": ("cluster", "demo"),
        "pipelines": ("cli", "demo", "pipelines"),
    }.items():
        assert sorted(one for one in required if one.startswith(f"kafka-parley-{part}")) == [
            f'kafka-parley-{part}=={parley.__version__}; extra == "{extra}"' for extra in extras
        ]
    assert "pytest11" not in metadata_file(wheel, "entry_points.txt")


def test_the_wheel_of_the_cluster_has_the_public_helpers_and_the_plugin(
    cluster_wheel: Path,
) -> None:
    names, described = names_in(cluster_wheel), described_by(cluster_wheel)
    testing = {
        name.removeprefix("parley/testing/") for name in names if name.startswith("parley/testing/")
    }
    real = {
        f"realbroker/{name}" for name in files_below(ROOT / "src/parley/testing/realbroker", "*.py")
    }
    assert testing == {"pytest_plugin.py", "delivery.py"} | real
    assert described.get_all("Requires-Dist") == [f"kafka-parley=={parley.__version__}"]
    assert {name.rpartition("/")[2] for name in names if "/licenses/" in name} == LICENCES
    assert "parley = parley.testing.pytest_plugin" in metadata_file(
        cluster_wheel, "entry_points.txt"
    )


def test_the_wheels_share_no_file_and_have_all_that_is_installed(
    wheel: Path, cluster_wheel: Path, pipelines_wheel: Path
) -> None:
    inside = [
        name
        for path in (wheel, cluster_wheel, pipelines_wheel)
        for name in names_in(path)
        if ".dist-info/" not in name
    ]
    assert len(set(inside)) == len(inside)
    source = {
        f"{package}/{name}"
        for package in PACKAGES
        for name in files_below(ROOT / "src" / package, "*.*")
    }
    installed = {
        name
        for name in source
        if not name.endswith((".pyc", ".so")) and "/schema/apis/" not in name
    }
    assert set(inside) == installed | {"parley/schema/apis/all.api"}


@pytest.mark.parametrize("part", ["cluster", "pipelines"])
def test_a_part_has_no_sdist_of_its_own(part: str, unpacked: Path, tmp_path: Path) -> None:
    done = build("sdist", unpacked / part, tmp_path)
    assert done.returncode != 0
    said = f"kafka-parley-{part} has no sdist of its own; that of kafka-parley has its sources"
    assert said in done.stderr


RUNS_A_CLUSTER = "from parley.devcluster import LocalCluster; LocalCluster(brokers=1).start()"
SAYS_HELP = "from parley.pipelines import verify; from parley.cli import main; main(['--help'])"


@pytest.mark.parametrize(
    ("part", "package", "program"),
    [
        ("cluster", "devcluster", RUNS_A_CLUSTER),
        ("pipelines", "pipelines", SAYS_HELP),
    ],
    ids=["cluster", "pipelines"],
)
def test_with_the_wheel_of_a_part_its_work_is_done_and_without_it_the_error_says_what_to_install(
    part: str,
    package: str,
    program: str,
    wheel: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    for path in (wheel, request.getfixturevalue(f"{part}_wheel")):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "both")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "alone")
    both, alone = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
            timeout=GENEROUS_S, check=False,
            env={**os.environ, "PYTHONPATH": str(tmp_path / folder)},
        )
        for folder in ("both", "alone")
    )  # fmt: skip
    assert both.returncode == 0, both.stderr
    assert alone.stderr.splitlines()[-1].endswith(
        f'parley.{package} is not installed: pip install "kafka-parley[{part}]"'
    )


DEFINITIONS = """
from parley.schema import ApiKey, data_names, load, load_data, load_header
from parley.schema import load_record, record_names
headers = map(load_header, ["RequestHeader", "ResponseHeader"])
data = [*map(load_data, data_names()), *map(load_record, record_names())]
print(*map(load, ApiKey), *data, *headers, sep="\\n")
"""


def test_a_wheel_has_the_same_definitions_in_one_file(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    said = [
        subprocess.run(
            [sys.executable, "-c", DEFINITIONS], capture_output=True, text=True,
            timeout=GENEROUS_S, check=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
        ).stdout
        for folder in (ROOT / "src", tmp_path)
    ]  # fmt: skip
    assert said[0] == said[1]
    assert said[0].count("\n") > 100


def test_a_kernel_that_does_not_build_fails_the_build_and_says_what_to_do(
    unpacked: Path, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    failing = (
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'cargo 1.95.0' && exit 0\necho 'error: no "
        "network' >&2\nexit 101\n"
    )
    for name, text in {"cargo": failing, "rustc": failing, "cc": "#!/bin/sh\nexit 1\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    done = build(
        "wheel", unpacked, tmp_path / "wheels", PATH=f"{tools}:/usr/bin:/bin", PARLEY_KERNEL=""
    )
    assert done.returncode != 0
    assert not list((tmp_path / "wheels").glob("*.whl"))
    said = (done.stdout + done.stderr).strip().splitlines()
    assert any(line.startswith("parley: the compiled kernel was not built") for line in said), said[
        -20:
    ]
    assert said[-1].startswith("PARLEY_KERNEL=pure installs parley without it")
