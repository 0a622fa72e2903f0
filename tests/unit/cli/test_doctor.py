"""What the doctor says when something is missing."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from parley import host, records
from parley.cli import doctor
from parley.records import KernelInfo


def test_a_pure_kernel_is_named_with_its_cost_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "kernel_info", lambda: KernelInfo(False, "python", "1", "no compiled kernel"))
    finding = doctor.kernel_finding()
    assert finding.status == doctor.MISSING
    assert "no compiled kernel" in finding.found
    assert "slower" in finding.found
    assert "Rust" in (finding.remedy or "")


def test_a_native_kernel_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "kernel_info", lambda: KernelInfo(True, "rust", "0.1", None))
    assert doctor.kernel_finding().status == doctor.OK


def test_without_java_spark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_java", lambda: None)
    finding = doctor.java_finding()
    assert (finding.status, "kafka-parley[java]" in (finding.remedy or "")) == (doctor.MISSING, True)


@pytest.mark.parametrize(("found", "status"), [("4.1.1", "missing"), ("4.2.0", "ok"), ("4.10.0", "ok"), ("5.0", "ok")])
def test_a_pyspark_that_is_too_old_is_named(found: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: found)
    assert doctor.spark_finding().status == status


def test_a_required_library_that_is_gone_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", gone)
    assert doctor.library_finding("pyarrow", "everything").status == doctor.BROKEN
    assert doctor.spark_finding().status == doctor.MISSING


def test_workers_without_parley_are_named_with_the_export(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "absent"))
    finding = doctor.worker_finding()
    assert finding.status == doctor.MISSING
    assert finding.remedy == f"export PYSPARK_PYTHON={sys.executable}"
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert doctor.worker_finding().status == doctor.OK


def test_a_broken_finding_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from parley.cli import main

    finding = doctor.Finding("pyarrow", doctor.BROKEN, "gone", "pip install pyarrow")
    monkeypatch.setattr(doctor, "examine", lambda: iter([finding]))
    assert main(["doctor"]) == 1


def test_the_report_puts_the_remedy_below_its_finding() -> None:
    lines = list(doctor.report_lines([doctor.Finding("java", "missing", "none", "install one")]))
    assert lines == ["missing  java  none", "               -> install one"]
