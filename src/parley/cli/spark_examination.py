"""What `parley doctor --spark` adds: what plans and what runs a task, and what they lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import parley
from parley.cli.examination import BROKEN, MISSING, OK, SPARK_REMEDY, Finding, version_of
from parley.errors import ConfigError
from parley.spark.worker_facts import LIBRARIES, Facts, ask_workers, why

REMEDY = "look at the master and at PYSPARK_PYTHON, which names the workers' interpreter"


def examine_spark(master: str, settings: Sequence[str]) -> Iterator[Finding]:
    """Yield what one task of Spark finds out, and what planned it. Raises ConfigError for a setting
    that is not NAME=VALUE, or without Java.
    """
    named = dict(_setting(text) for text in settings)
    release = version_of("pyspark")
    if release is None:
        yield Finding("spark task", BROKEN, "pyspark is not installed", SPARK_REMEDY)
        return
    try:
        found = ask_workers(master, named)
    except ConfigError:
        raise
    except Exception as error:
        text = f"Spark {release} at {master} did not run a task: {why(error)}"
        yield Finding("spark task", BROKEN, text, REMEDY)
        return
    yield Finding("spark task", OK, f"Spark {release} at {found.master} ran one")
    yield from compared(found.planner, found.executor)


def compared(planner: Facts, executor: Facts) -> Iterator[Finding]:
    """Yield what the driver's worker and the executor's are, and where they do not fit."""
    yield _worker_finding("spark planner", planner, parley.__version__)
    yield _worker_finding("spark executor", executor, planner["parley"] or parley.__version__)


def _worker_finding(check: str, worker: Facts, wanted: str) -> Finding:
    found = f"on {worker['host']}: Python {worker['python']} ({worker['path']}), " + ", ".join(
        f"{name} {worker[name] or 'not installed'}" for name in LIBRARIES
    )
    place = f"for {worker['path']} on {worker['host']}"
    if worker["parley"] is None or worker["pyarrow"] is None:
        remedy = f"install kafka-parley {place}, or send an environment with it (spark.archives)"
        return Finding(check, BROKEN, found, remedy)
    if worker["parley"] != wanted:
        remedy = f"install kafka-parley {wanted} {place}, or the same release everywhere"
        return Finding(check, BROKEN, f"{found}, where {wanted} plans", remedy)
    slow = [
        f"{what} in Python, because {reason}"
        for what, reason in (("records", worker["kernel"]), ("schemas", worker["schemas"]))
        if reason is not None
    ]
    if slow:
        remedy = f"pip install --force-reinstall kafka-parley, {place}"
        return Finding(check, MISSING, f"{found}; {'; '.join(slow)}", remedy)
    return Finding(check, OK, f"{found}, compiled")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.startswith("spark.") and equals):
        raise ConfigError(
            f"--conf takes spark.NAME=VALUE: {name!r} is no setting of Spark's, or has no value"
        )
    return name, value
