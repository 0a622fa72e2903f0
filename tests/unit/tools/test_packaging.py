"""What an installation is made of: one version, links that lead somewhere, notices, few
requirements, no laboratory.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import parley
from parley.client import Client
from parley.devcluster import LocalCluster
from parley.records import kernel_info

from ...support import GENEROUS_S

ROOT = Path(__file__).parents[3]
NOTICES = ROOT / "THIRD-PARTY-NOTICES.txt"
PARTS = ("cluster", "pipelines", "schemas")
"""The folders of the other distributions of this tree."""


@pytest.fixture
def setup() -> ModuleType:
    return load(ROOT / "setup.py")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"parley_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture
def cluster() -> dict[str, Any]:
    return described("cluster")


def described(part: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / part / "pyproject.toml").read_text(encoding="utf-8"))


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower()


# -- version, links ------------------------------------------------------------------------------


def test_python_and_rust_have_the_same_version(
    setup: ModuleType, pyproject: dict[str, Any]
) -> None:
    assert "version" not in pyproject["project"]
    for folder in (ROOT / "native", ROOT / "native-schemas"):
        crate = tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))["package"]
        locked = tomllib.loads((folder / "Cargo.lock").read_text(encoding="utf-8"))["package"]
        (own,) = [one for one in locked if one["name"] == crate["name"]]
        assert setup.version() == parley.__version__ == crate["version"] == own["version"]


@pytest.mark.parametrize("part", ["cluster", "pipelines"])
def test_a_part_has_the_version_of_parley_and_requires_that_one(
    part: str, setup: ModuleType, pyproject: dict[str, Any]
) -> None:
    extras = setup.extras(pyproject["tool"]["parley"]["extras"])
    own = f"kafka-parley-{part}=={parley.__version__}"
    assert extras[part] == [own]
    assert own in extras["demo"]
    project = described(part)["project"]
    assert {"version", "dependencies"} <= set(project["dynamic"])
    assert project["requires-python"] == pyproject["project"]["requires-python"]
    assert project["license-files"] == pyproject["project"]["license-files"]


def test_the_pytest_plugin_is_registered_where_it_is(
    pyproject: dict[str, Any], cluster: dict[str, Any]
) -> None:
    assert "entry-points" not in pyproject["project"]
    assert cluster["project"]["entry-points"] == {
        "pytest11": {"parley": "parley.testing.pytest_plugin"}
    }


def test_readme_has_no_relative_link_on_a_package_index(
    setup: ModuleType, pyproject: dict[str, Any]
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    repository = pyproject["project"]["urls"]["Repository"]
    shown = setup.long_description(readme, repository, "1.2.3")
    assert re.findall(r"\]\((?!https?://|#)", readme), (
        "README has no relative link; then this proves nothing"
    )
    assert not re.findall(r"\]\((?!https?://|#|mailto:)[^)]*\)", shown)
    linked = re.findall(rf"\]\({re.escape(repository)}/blob/v1\.2\.3/([^)#]+)", shown)
    assert linked
    assert all((ROOT / path).exists() for path in linked)


def test_the_address_of_the_repository_is_written_once(pyproject: dict[str, Any]) -> None:
    repository = pyproject["project"]["urls"]["Repository"]
    files = [
        ROOT / "README.md",
        ROOT / "setup.py",
        *(ROOT / part / name for part in PARTS for name in ("setup.py", "pyproject.toml")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "tools").rglob("*.py"),
    ]
    assert not [path for path in files if repository in path.read_text(encoding="utf-8")]


def test_wheels_are_made_for_the_oldest_python_that_is_supported(pyproject: dict[str, Any]) -> None:
    wheels = pyproject["tool"]["cibuildwheel"]
    oldest = pyproject["project"]["requires-python"].removeprefix(">=").replace(".", "")
    assert wheels["build"] == [f"cp{oldest}-*", "cp314t-*"]
    assert {wheels["linux"][f"manylinux-{arch}-image"] for arch in wheels["linux"]["archs"]} == {
        "manylinux_2_28"
    }
    assert all(f"musllinux-{arch}-image" in wheels["linux"] for arch in wheels["linux"]["archs"])
    assert wheels["before-test"] == "pip install --no-deps {project}/cluster"
    assert (
        wheels["environment"]["PARLEY_KERNEL"]
        == wheels["macos"]["environment"]["PARLEY_KERNEL"]
        == "native"
    )


# -- requirements --------------------------------------------------------------------------------


def test_a_client_requires_few_packages_and_none_of_the_command_line(
    pyproject: dict[str, Any],
) -> None:
    project = pyproject["project"]
    assert {name_of(one) for one in project["dependencies"]} == {"pyarrow", "cramjam", "crc32c"}
    assert {name_of(one) for one in pyproject["tool"]["parley"]["extras"]["cli"]} == {
        "kafka-parley-pipelines",
        "typer",
        "rich",
    }


def test_the_demo_has_what_cluster_command_line_spark_and_delta_need(
    pyproject: dict[str, Any],
) -> None:
    extras = pyproject["tool"]["parley"]["extras"]
    assert {
        *extras["cluster"], *extras["cli"], *extras["spark"], *extras["delta"],
    } <= set(extras["demo"])  # fmt: skip


def test_every_requirement_has_a_lower_bound(pyproject: dict[str, Any]) -> None:
    extras = pyproject["tool"]["parley"]["extras"]
    wanted = [
        *pyproject["project"]["dependencies"],
        *(one for extra in extras.values() for one in extra),
    ]
    own = {f"kafka-parley-{name}=={{version}}" for name in PARTS}
    assert {one for one in wanted if ">=" not in one} == own


def test_the_oldest_releases_are_found_without_asking_an_index_for_parley(
    pyproject: dict[str, Any],
) -> None:
    extras = load(ROOT / "tools" / "lowest.py").extras()
    assert extras.keys() == pyproject["tool"]["parley"]["extras"].keys() - {"java"}
    assert extras["cli"]
    assert not [one for requirements in extras.values() for one in requirements if "parley" in one]


def test_the_command_line_alone_imports_what_it_needs() -> None:
    importers = {
        path.relative_to(ROOT / "src" / "parley").parts[0]
        for path in (ROOT / "src").rglob("*.py")
        for name in imported(path)
        if name.split(".")[0] in {"typer", "rich", "click"}
    }
    assert importers == {"cli", "pipelines"}


# -- what goes where ------------------------------------------------------------------------------


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_what_an_executor_needs_imports_nothing_of_the_cluster() -> None:
    """Commands and the demo do: where it is missing they end with a line
    that says what to install.
    """
    importers = {
        path.relative_to(ROOT / "src").parts[:2]
        for path in (ROOT / "src").rglob("*.py")
        for name in imported(path)
        if name.startswith(("parley.devcluster", "parley.testing"))
    }
    importers = {one for one in importers if one[0] != "parley_laboratory"}
    assert importers == {("parley", name) for name in ("devcluster", "testing", "cli", "pipelines")}


def test_the_public_test_helpers_are_in_the_wheel_of_the_cluster(setup: ModuleType) -> None:
    public = {
        "parley.testing.pytest_plugin",
        "parley.testing.delivery",
        "parley.testing.realbroker",
    }
    assert {setup.wheel_of(name) for name in public} == {"kafka-parley-cluster"}


def test_what_says_what_to_install_is_in_the_wheel_that_is_always_there(setup: ModuleType) -> None:
    assert {setup.wheel_of(name) for name in setup.INSIDE} == {"kafka-parley"}
    said = ["parley.cli.examination", "parley.cli.spark_examination"]
    assert {setup.wheel_of(name) for name in said} == {"kafka-parley"}
    commands = ["parley.cli.app", "parley.cli.doctor", "parley.pipelines.replay.options"]
    assert {setup.wheel_of(name) for name in commands} == {"kafka-parley-pipelines"}


@pytest.mark.spark
@pytest.mark.parametrize("does", ["reads", "writes"])
def test_a_spark_task_imports_no_broker_no_command_line_and_no_test_helpers(does: str) -> None:
    work = {
        "reads": """
            import parley.spark.read.reader, parley.spark.read.task
            from parley.arrow import spark_schema
            from parley.client import FetchOptions, spark_shape
            from parley.spark.values.arrow_batches import packed

            shape = spark_shape(spark_schema(include_headers=True))
            found = client.fetch(TopicPartition("t", 0), 0, 1, options=FetchOptions(shape=shape))
            rows = sum(len(packed(batch)) for batch in found)
        """,
        "writes": """
            import parley.spark.write.writer, parley.spark.write.attempt
            import parley.spark.write.kafka, parley.spark.write.rows
            import pyarrow
            rows = client.produce("t", pyarrow.table({"value": ["v"]})).records
        """,
    }
    program = f"""
import sys
from parley.client import Client, TopicPartition

with Client(bootstrap_servers=sys.argv[1]) as client:
    {textwrap.indent(textwrap.dedent(work[does]), " " * 4).strip()}
print(rows, *sys.modules)
"""
    with (
        LocalCluster(brokers=1) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic("t", partitions=1)
        client.produce("t", pa.table({"value": ["v"]}))
        command = [sys.executable, "-c", program, cluster.bootstrap_servers]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GENEROUS_S, check=True
        )
    rows, *loaded = done.stdout.split()
    heavy = {
        "parley.devcluster",
        "parley.testing",
        "parley.cli",
        "parley.pipelines",
        "parley.drafts",
        "typer",
        "rich",
    }
    heavy |= {
        "parley.protocol.broker",
        "parley.protocol.broker_login",
        "parley.net.server",
        "parley.net.server_connection",
        "parley.net.memory_backend",
    }
    if kernel_info().native:
        heavy.add("parley.kernel.reference")
    if does == "reads":
        heavy.add("pandas")
    assert rows == "1"
    assert not heavy & set(loaded)


# -- notices -------------------------------------------------------------------------------------


def check_notices(path: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "write_notices.py"), "--check"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )


def test_the_notices_are_those_of_the_crates_that_are_compiled_in() -> None:
    done = check_notices(os.environ["PATH"])
    assert done.returncode == 0, done.stderr


def test_without_cargo_the_notices_are_held_against_the_lock(tmp_path: Path) -> None:
    done = check_notices(str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_the_c_libraries_are_among_the_notices_and_the_gpl_is_not() -> None:
    text = NOTICES.read_text(encoding="utf-8")
    for line in (
        "libdeflate-sys: libdeflate/COPYING",
        "lzzzz: vendor/liblz4/LICENSE",
        "zstd-sys: zstd/LICENSE",
    ):
        assert f"\n{line}\n" in text
    assert "GNU GENERAL PUBLIC LICENSE" not in text


# -- which kernel a build has ---------------------------------------------------------------------

CARGO = "#!/bin/sh\necho cargo {version} '(0 2025-01-01)'\n"


def test_the_kernel_is_compiled_where_cargo_is(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_KERNEL", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not setup.wants_native()
    executable(tmp_path / "cargo", CARGO.format(version="1.95.0"))
    assert setup.wants_native()
    monkeypatch.setenv("PARLEY_KERNEL", "pure")
    assert not setup.wants_native()


@pytest.mark.parametrize(("without_gil", "limited"), [(0, "cp311"), (1, None)])
def test_one_wheel_is_for_all_pythons_with_a_gil_and_one_for_the_python_without(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, without_gil: int, limited: str | None
) -> None:
    before = setup.sysconfig.get_config_var
    monkeypatch.setattr(
        setup.sysconfig,
        "get_config_var",
        lambda name: without_gil if name == "Py_GIL_DISABLED" else before(name),
    )
    arguments = setup.native_arguments()
    assert arguments.get("options", {}).get("bdist_wheel", {}).get("py_limited_api") == limited
    (kernel,) = arguments["rust_extensions"]
    assert kernel.cargo_manifest_args == ("--locked",)
    assert not kernel.optional


def test_a_kernel_of_another_name_is_refused(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_KERNEL", "rust")
    with pytest.raises(
        SystemExit, match="PARLEY_KERNEL=rust is not known; it takes auto, native or pure"
    ):
        setup.wants_native()


@pytest.mark.parametrize(
    ("tools", "text"),
    [
        ({}, r"PARLEY_KERNEL=native needs cargo on PATH"),
        (
            {"cargo": CARGO.format(version="1.63.0"), "cc": ""},
            r"needs Rust [\d.]+ or later, and .* is 1\.63",
        ),
        (
            {"cargo": CARGO.format(version="1.95.0")},
            r"needs a C compiler beside cargo, for libdeflate, lz4 and zstd",
        ),
        (
            {"cargo": "#!/bin/sh\necho no default toolchain >&2\nexit 1\n"},
            r"does not run: no default toolchain",
        ),
    ],
    ids=["no cargo", "old Rust", "no C compiler", "rustup without Rust"],
)
def test_a_build_says_in_a_line_what_it_lacks(
    setup: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tools: dict[str, str],
    text: str,
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, program in tools.items():
        executable(tmp_path / name, program)
    with pytest.raises(SystemExit, match=text):
        setup.check_toolchain()
