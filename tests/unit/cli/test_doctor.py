"""What the doctor says when something is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import parley
from parley import host, records
from parley.cli import examination, main
from parley.records import KernelInfo

from ...support import GENEROUS_S


def test_a_pure_kernel_is_named_with_its_cost_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        records, "kernel_info", lambda: KernelInfo(False, "python", "1", "no compiled kernel")
    )
    finding = examination.kernel_finding()
    assert finding.status == examination.MISSING
    assert "no compiled kernel" in finding.found
    assert records.PURE_COST in finding.found
    assert finding.remedy == records.NATIVE_REMEDY


def test_a_native_kernel_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "kernel_info", lambda: KernelInfo(True, "rust", "0.1", None))
    assert examination.kernel_finding().status == examination.OK


def test_without_java_spark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_java", lambda: None)
    finding = examination.java_finding()
    assert (finding.status, "kafka-parley[java]" in (finding.remedy or "")) == (
        examination.MISSING,
        True,
    )


@pytest.mark.parametrize(
    ("found", "status"), [("4.1.1", "missing"), ("4.2.0", "ok"), ("4.10.0", "ok"), ("5.0", "ok")]
)
def test_a_pyspark_that_is_too_old_is_named(
    found: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "version", lambda name: found)
    assert examination.spark_finding().status == status


def gone(name: str) -> str:
    raise PackageNotFoundError(name)


def test_a_required_library_that_is_gone_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(examination, "version", gone)
    assert examination.library_finding("pyarrow", "everything").status == examination.BROKEN
    assert examination.spark_finding().status == examination.MISSING
    assert examination.command_line_finding().remedy == "pip install 'kafka-parley[cli]'"


def test_a_source_tree_on_the_path_is_reported_like_an_installation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # no distribution's metadata, as in a container with PYTHONPATH
    monkeypatch.setattr(examination, "version", gone)
    assert main(["doctor", "--format", "json"]) == 0
    report = {row["check"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    place = Path(parley.__file__).parent
    assert f"parley {parley.__version__} from {place}, not installed" in report["python"]["found"]
    assert report["pyarrow"]["status"] == examination.OK


def test_a_source_tree_that_hides_another_release_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "version", lambda name: "0.0.9")
    finding = examination.python_finding()
    assert "though 0.0.9 is installed" in finding.found
    assert "PYTHONPATH" in (finding.remedy or "")


WITHOUT = """
import sys
for name in {names}: sys.modules[name] = None
from parley.cli import main
sys.exit(main({arguments}))
"""


def run_without(names: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(names=names, arguments=list(arguments))
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )


def test_without_the_extra_the_command_line_says_in_one_line_what_to_install() -> None:
    done = run_without(["typer", "rich"], "features", "--bootstrap-server", "localhost:9092")
    assert done.returncode == 1
    assert done.stderr == "parley: the command line is an extra; pip install 'kafka-parley[cli]'\n"
    assert done.stdout == ""


def test_without_the_extra_the_doctor_reports_all_the_same() -> None:
    done = run_without(["typer", "rich"], "doctor")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^missing +command line +no typer and no rich", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_without_a_codec_library_the_doctor_names_it_instead_of_falling() -> None:
    done = run_without(["cramjam"], "doctor")
    assert done.returncode == 1
    assert re.search(r"^cramjam\tbroken\tnot installed", done.stdout, re.MULTILINE), done.stderr
    assert "Traceback" not in done.stderr


NO_CLUSTER = ["parley.devcluster.blocking", "parley.testing.pytest_plugin"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("cluster", "start"),
        ("cluster", "ctl", "status"),
        ("cluster", "--help"),
        ("discovery", "compare"),
        ("demo",),
    ],
    ids=" ".join,
)
def test_without_the_cluster_its_commands_say_in_one_line_what_to_install(
    arguments: tuple[str, ...],
) -> None:
    done = run_without(NO_CLUSTER, *arguments)
    assert done.returncode == 2
    assert (
        done.stderr
        == 'parley: parley.devcluster is not installed: pip install "kafka-parley[cluster]"\n'
    )
    assert done.stdout == ""


def test_without_the_cluster_the_other_commands_work_and_the_doctor_names_it() -> None:
    assert run_without(NO_CLUSTER, "--help").returncode == 0
    assert run_without(NO_CLUSTER, "protocol", "diff", "2.4", "4.3").returncode == 0
    done = run_without(NO_CLUSTER, "doctor")
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^cluster\tmissing\tnot installed: .*\tpip install \"kafka-parley\[cluster\]\"$",
        done.stdout,
        re.M,
    )


NO_PIPELINES = ["parley.cli.app", "parley.pipelines.checks"]


def test_without_its_distribution_the_command_line_says_in_one_line_what_to_install() -> None:
    done = run_without(NO_PIPELINES, "replicate", "--help")
    assert done.returncode == 1
    assert done.stderr == "parley: the command line is an extra; pip install 'kafka-parley[cli]'\n"
    done = run_without(NO_PIPELINES, "doctor")
    assert done.returncode == 0, done.stderr
    said = re.findall(r"^missing +(command line|pipelines) +(no\w*) ", done.stdout, re.MULTILINE)
    assert said == [("command line", "no"), ("pipelines", "not")]


def test_without_pipelines_the_client_does_and_the_name_says_what_to_install() -> None:
    program = f"""
import sys
for name in {NO_PIPELINES}: sys.modules[name] = None
from parley import *
import parley
assert Client is parley.Client and "Pipeline" not in dir(parley)
from parley import Pipeline
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )
    said = 'parley.pipelines is not installed: pip install "kafka-parley[pipelines]"'
    assert done.stderr.splitlines()[-1].endswith(f"NotInstalledError: {said}"), done.stderr


@pytest.mark.parametrize("extra", ["cluster", "pipelines"])
def test_a_part_of_another_release_is_named_with_the_remedy(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined = getattr(examination, f"{extra}_finding")
    assert examined().status == examination.OK
    monkeypatch.setattr(examination, "version", lambda name: "0.0.9")
    finding = examined()
    assert (finding.status, finding.found) == (
        examination.MISSING,
        f"kafka-parley-{extra} 0.0.9 is for another parley",
    )
    assert finding.remedy == f'pip install "kafka-parley[{extra}]=={parley.__version__}"'


@pytest.mark.spark
def test_workers_without_parley_are_named_with_the_export(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "absent"))
    finding = examination.worker_finding()
    assert finding.status == examination.MISSING
    assert finding.remedy == f"export PYSPARK_PYTHON={sys.executable}"
    assert f"there is no {tmp_path / 'absent'} (PYSPARK_PYTHON)" in finding.found
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert examination.worker_finding().status == examination.OK


def test_workers_whose_parley_does_not_load_need_not_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError('there is no pyspark')")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    finding = examination.worker_finding()
    assert finding == examination.Finding(
        "spark workers",
        examination.MISSING,
        f'{sys.executable} (PYSPARK_PYTHON) has parley, but format("parley") does not load: '
        "ImportError: there is no pyspark",
        f"pip install 'kafka-parley[spark]', for {sys.executable}",
    )


def test_a_broken_finding_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = examination.Finding("pyarrow", examination.BROKEN, "gone", "pip install pyarrow")
    monkeypatch.setattr(examination, "examine", lambda: iter([finding]))
    assert main(["doctor"]) == 1


def test_the_report_puts_the_remedy_below_its_finding() -> None:
    lines = list(
        examination.report_lines([examination.Finding("java", "missing", "none", "install one")])
    )
    assert lines == ["missing  java  none", "               -> install one"]


@pytest.mark.spark
def test_a_python3_on_the_path_without_parley_is_named_as_what_the_workers_would_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    venv.create(tmp_path, symlinks=True, with_pip=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    other = tmp_path / "bin" / "python3"
    finding = examination.worker_finding()
    assert finding.status == examination.MISSING
    assert (
        f"Spark's workers would run {other} (python3 on PATH), where parley is not installed"
        in finding.found
    )
    assert f"here, in {sys.executable}, it is" in finding.found
    assert (
        finding.remedy
        == f"export PYSPARK_PYTHON={sys.executable}, or install kafka-parley for {other}"
    )
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert "there is no python3 on PATH" in examination.worker_finding().found
