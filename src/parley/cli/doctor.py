"""`parley doctor`: what this installation can do, what is missing for more, and what that costs."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import typer

from parley.cli.exit_codes import ExitCode
from parley.cli.output import FormatOption, OutputFormat, print_rows

app = typer.Typer(add_completion=False)

OK, MISSING, BROKEN = "ok", "missing", "broken"
"""`missing` costs a feature or speed; `broken` means that parley does not work here (exit code 1)."""


class Finding(NamedTuple):
    """One line of the doctor's report."""

    check: str
    status: str
    found: str
    remedy: str | None = None


@app.command()
def doctor(output_format: FormatOption = None) -> None:
    """Say what this installation can do, what is missing for more, and what that costs."""
    findings = list(examine())
    if output_format is OutputFormat.TABLE or (output_format is None and sys.stdout.isatty()):
        print("\n".join(report_lines(findings)))
    else:
        print_rows("doctor", Finding._fields, [finding._asdict() for finding in findings], output_format)
    if any(finding.status == BROKEN for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def report_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the report for a person: a line per finding, and below it what to do."""
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        yield f"{finding.status:<8} {finding.check:<{width}}  {finding.found}"
        if finding.remedy is not None:
            yield f"{'':<8} {'':<{width}}  -> {finding.remedy}"


def examine() -> Iterator[Finding]:
    """Yield the findings, the most basic first. Starts a few processes, changes nothing."""
    yield python_finding()
    yield library_finding("pyarrow", "reading and writing records as Arrow batches")
    yield library_finding("cramjam", "compressed records without the native kernel")
    yield kernel_finding()
    yield java_finding()
    yield spark_finding()
    yield worker_finding()
    yield tls_finding()
    yield broker_finding()


def python_finding() -> Finding:
    """Return which Python runs this."""
    found = f"{platform.python_version()} ({sys.executable}), parley {version('kafka-parley')}"
    return Finding("python", OK, found)


def library_finding(name: str, needed_for: str) -> Finding:
    """Return the version of a required library."""
    try:
        return Finding(name, OK, version(name))
    except PackageNotFoundError:
        return Finding(name, BROKEN, f"not installed; needed for {needed_for}", f"pip install {name}")


def kernel_finding() -> Finding:
    """Return which record kernel runs, and what the slower one costs."""
    from parley.records import kernel_info

    kernel = kernel_info()
    if kernel.native:
        return Finding("kernel", OK, f"native ({kernel.name} {kernel.version})")
    return Finding(
        "kernel",
        MISSING,
        f"pure Python, because {kernel.reason}: records are read about 40 and written about 20 times slower",
        "install Rust (https://rustup.rs), then reinstall kafka-parley from source",
    )


def java_finding() -> Finding:
    """Return the Java that Spark would use."""
    from parley.host import find_java

    java = find_java()
    if java is None:
        return Finding("java", MISSING, "no Java 17 or later: Spark does not start", "pip install 'kafka-parley[java]'")
    return Finding("java", OK, f"{java.major}, from {java.origin} ({java.home})")


def spark_finding() -> Finding:
    """Return the release of PySpark."""
    remedy = "pip install 'kafka-parley[spark]'"
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return Finding("pyspark", MISSING, 'not installed: no format("parley"), no demo', remedy)
    if tuple(int(part) for part in found.split(".")[:2]) < (4, 2):
        return Finding("pyspark", MISSING, f"{found} is too old for the data source, which needs 4.2", remedy)
    return Finding("pyspark", OK, found)


def worker_finding() -> Finding:
    """Return whether the interpreter of Spark's workers would find format("parley") by itself."""
    from parley.host import interpreter_has, spark_interpreter

    interpreter = spark_interpreter()
    named = "PYSPARK_PYTHON" if os.environ.get("PYSPARK_PYTHON") else "python3 on PATH"
    if interpreter is not None and interpreter_has(interpreter, "pyspark_parley"):
        return Finding("spark workers", OK, f"{interpreter} ({named}) has parley")
    return Finding(
        "spark workers",
        MISSING,
        f'{interpreter or "none"} ({named}) does not have parley: format("parley") would not be found',
        f"export PYSPARK_PYTHON={sys.executable}",
    )


def tls_finding() -> Finding:
    """Return whether TLS extras are there."""
    if importlib.util.find_spec("cryptography") is not None:
        return Finding("tls extra", OK, f"cryptography {version('cryptography')}")
    return Finding(
        "tls extra", MISSING, "no encrypted private keys, no test certificates", "pip install 'kafka-parley[tls]'"
    )


def broker_finding() -> Finding:
    """Return whether tests could start real brokers here."""
    from parley.host import find_tool, java17

    lacking = [name for name, there in (("mvn", find_tool("mvn")), ("Java 17", java17())) if there is None]
    if lacking:
        return Finding("real brokers", MISSING, f"no {' and no '.join(lacking)}: tests that need them are skipped",
                       "install Maven and a JDK 17")  # fmt: skip
    return Finding("real brokers", OK, "mvn and Java 17 are there")
