"""What `parley doctor` finds out: what works here, what is missing for more, and what that costs.

Imports nothing that an installation may lack: the report is for installations that lack something.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import parley
from parley.errors import NotInstalledError

OK, MISSING, BROKEN = "ok", "missing", "broken"
"""`missing` costs a feature or speed; `broken`: parley does not work here (exit code 1)."""
SPARK_MODULE = "pyspark_parley"
"""What Spark's workers import for format("parley")."""
SPARK_REMEDY = "pip install 'kafka-parley[spark]'"


class Finding(NamedTuple):
    """One line of the doctor's report."""

    check: str
    status: str
    found: str
    remedy: str | None = None


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
    yield library_finding("crc32c", "checksums of records without the native kernel")
    yield kernel_finding()
    yield command_line_finding()
    yield pipelines_finding()
    yield cluster_finding()
    yield schemas_finding()
    yield java_finding()
    yield spark_finding()
    yield worker_finding()
    yield tls_finding()
    yield broker_finding()


def version_of(distribution: str) -> str | None:
    """Return an installed distribution's version, or None where no metadata says."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def python_finding() -> Finding:
    """Return which Python runs this, and which parley: PYTHONPATH may hide the installed one."""
    found = f"{platform.python_version()} ({sys.executable}), parley {parley.__version__}"
    installed, place = version_of("kafka-parley"), Path(parley.__file__).parent
    if installed is None:
        remedy = "pip install kafka-parley, for the command `parley` and Spark's workers"
        return Finding("python", OK, f"{found} from {place}, not installed", remedy)
    if installed != parley.__version__:
        remedy = f"take {place.parent} off PYTHONPATH, or install parley again"
        return Finding(
            "python", OK, f"{found} from {place}, though {installed} is installed", remedy
        )
    return Finding("python", OK, found)


def library_finding(name: str, needed_for: str) -> Finding:
    """Return the version of a required library."""
    if importlib.util.find_spec(name) is None:
        return Finding(
            name, BROKEN, f"not installed; needed for {needed_for}", f"pip install {name}"
        )
    return Finding(name, OK, version_of(name) or "of unknown version")


def kernel_finding() -> Finding:
    """Return which record kernel runs, and what the slower one costs."""
    try:
        from parley.records import NATIVE_REMEDY, PURE_COST, kernel_info
    except ImportError as error:
        return Finding(
            "kernel",
            BROKEN,
            f"neither kernel loads: {error}",
            "pip install --force-reinstall kafka-parley",
        )
    kernel = kernel_info()
    if kernel.native:
        return Finding("kernel", OK, f"native ({kernel.name} {kernel.version})")
    return Finding(
        "kernel", MISSING, f"pure Python, because {kernel.reason}: {PURE_COST}", NATIVE_REMEDY
    )


def command_line_finding() -> Finding:
    """Return whether the command `parley` has what it is made of."""
    needed = {"kafka-parley-pipelines": "parley.cli.app", "typer": "typer", "rich": "rich"}
    lacking = [name for name, module in needed.items() if importlib.util.find_spec(module) is None]
    if lacking:
        found = f"no {' and no '.join(lacking)}: of the command `parley` only this report"
        return Finding("command line", MISSING, found, "pip install 'kafka-parley[cli]'")
    return Finding("command line", OK, f"typer {version_of('typer')}, rich {version_of('rich')}")


def pipelines_finding() -> Finding:
    """Return whether pipelines are here, in this release."""
    return _part_finding(
        "pipelines",
        "parley.pipelines",
        "no replication, no replay, no comparison, no declared pipelines",
        "replication, replay, comparison and declared pipelines are there",
    )


def cluster_finding() -> Finding:
    """Return whether the embedded cluster is here, in this release."""
    return _part_finding(
        "cluster",
        "parley.devcluster",
        "no LocalCluster, no pytest plugin, no `parley cluster`, no demo",
        "the embedded cluster and its pytest plugin are there",
    )


def _part_finding(extra: str, package: str, lost: str, there: str) -> Finding:
    """Return whether a distribution of its own is here, that of an extra, in this release."""
    try:
        importlib.import_module(package)
    except NotInstalledError:
        remedy = f'pip install "kafka-parley[{extra}]"'
        return Finding(extra, MISSING, f"not installed: {lost}", remedy)
    except ImportError as error:
        return Finding(extra, MISSING, f"does not load: {error}")
    installed = version_of(f"kafka-parley-{extra}")
    if installed not in {None, parley.__version__}:
        remedy = f'pip install "kafka-parley[{extra}]=={parley.__version__}"'
        found = f"kafka-parley-{extra} {installed} is for another parley"
        return Finding(extra, MISSING, found, remedy)
    return Finding(extra, OK, there)


def schemas_finding() -> Finding:
    """Return whether typed values are decoded by the compiled decoder."""
    try:
        from parley.serdes import native
    except ImportError as error:
        return Finding("schemas", BROKEN, f"does not load: {error}")
    if native.why_reference is None:
        return Finding("schemas", OK, "Avro is decoded by the compiled decoder")
    found = f"decoded in Python, because {native.why_reference}: {native.PURE_COST}"
    return Finding("schemas", MISSING, found, native.REMEDY)


def java_finding() -> Finding:
    """Return the Java that Spark would use."""
    from parley.host import find_java

    java = find_java()
    if java is None:
        return Finding(
            "java",
            MISSING,
            "no Java 17 or later: Spark does not start",
            "pip install 'kafka-parley[java]'",
        )
    return Finding("java", OK, f"{java.major}, from {java.origin} ({java.home})")


def spark_finding() -> Finding:
    """Return the release of PySpark."""
    found = version_of("pyspark")
    if found is None:
        text = 'not installed: no format("parley"), no demo'
        return Finding("pyspark", MISSING, text, SPARK_REMEDY)
    if tuple(int(part) for part in found.split(".")[:2]) < (4, 2):
        text = f"{found} is too old for the data source, which needs 4.2"
        return Finding("pyspark", MISSING, text, SPARK_REMEDY)
    return Finding("pyspark", OK, found)


def worker_finding() -> Finding:
    """Return whether the interpreter of Spark's workers would find format("parley") by itself."""
    from parley.host import import_failure, spark_interpreter

    interpreter = spark_interpreter()
    chosen = os.environ.get("PYSPARK_PYTHON")
    named = "PYSPARK_PYTHON" if chosen else "python3 on PATH"
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    if interpreter is None:
        found = (
            f"there is no {chosen} (PYSPARK_PYTHON)" if chosen else "there is no python3 on PATH"
        )
        return Finding(
            "spark workers", MISSING, f"{found}: Spark could start no Python worker", remedy
        )
    failure = import_failure(interpreter, SPARK_MODULE)
    if failure is None:
        return Finding("spark workers", OK, f"{interpreter} ({named}) has parley")
    if f"No module named '{SPARK_MODULE}'" not in failure:
        return Finding(
            "spark workers",
            MISSING,
            f'{interpreter} ({named}) has parley, but format("parley") does not load: {failure}',
            f"{SPARK_REMEDY}, for {interpreter}",
        )
    return Finding(
        "spark workers",
        MISSING,
        f"Spark's workers would run {interpreter} ({named}), where parley is not installed; here, "
        f"in {sys.executable}, it is. parley.spark.register helps a local session, if "
        'PYSPARK_PYTHON is not set; elsewhere format("parley") would not be found',
        f"{remedy}, or install kafka-parley for {interpreter}",
    )


def tls_finding() -> Finding:
    """Return whether TLS extras are there."""
    if importlib.util.find_spec("cryptography") is not None:
        return Finding(
            "tls extra", OK, f"cryptography {version_of('cryptography') or 'of unknown version'}"
        )
    return Finding(
        "tls extra",
        MISSING,
        "no encrypted private keys, no test certificates",
        "pip install 'kafka-parley[tls]'",
    )


def broker_finding() -> Finding:
    """Return whether tests could start real brokers here."""
    from parley.host import find_tool, java17

    lacking = [
        name for name, there in (("mvn", find_tool("mvn")), ("Java 17", java17())) if there is None
    ]
    if lacking:
        return Finding("real brokers", MISSING,
                       f"no {' and no '.join(lacking)}: tests that need them are skipped",
                       "install Maven and a JDK 17")  # fmt: skip
    return Finding("real brokers", OK, "mvn and Java 17 are there")
