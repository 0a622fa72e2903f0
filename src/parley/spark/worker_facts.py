"""What Python workers of Spark say of themselves: the one that plans, and one that runs a task.

A data source's driver half and its tasks run in Python workers, the one where the driver is, the
others on executors; neither need be the interpreter of the program. What asks them is made in
functions: Spark then sends its code, and it runs where parley is not installed.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

Facts = Mapping[str, str | None]
"""What a worker is: `host`, `python` (its release), `path`; the releases of `pyarrow` and `parley`,
None for what it lacks; `kernel` and `schemas`, why they are not compiled, None where they are.
"""
LIBRARIES = ("pyarrow", "parley")
CONNECT_PORT, CONNECT_SECONDS = 15_002, 10
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
NAME = "parley-worker-facts"
_ERROR = re.compile(
    r"^[: ]*(?P<package>(?:\w+\.)*)(?P<text>(?:\w+(?:Error|Exception): |\[[A-Z_.]+\]).*\S)",
    re.MULTILINE,
)
_JAVA = ("java.", "org.", "py4j.", "io.")


class Workers(NamedTuple):
    """What answered."""

    master: str
    planner: Facts
    executor: Facts


def ask_workers(master: str, settings: Mapping[str, str]) -> Workers:
    """Let one task say what runs it, and the planner what it is.

    Starts Spark, or a session of a Connect server (`sc://host:port`), and stops it. Raises
    ConfigError without Java, and whatever Spark raises: `why` makes one line of it.
    """
    with _session(master, settings) as spark:
        planner, executor = _facts(spark)
        return Workers(spark.conf.get("spark.master", master) or master, planner, executor)


def _session(master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if master.startswith("sc://"):
        where = urlsplit(master)  # Spark itself would try for ten minutes
        socket.create_connection(
            (where.hostname, where.port or CONNECT_PORT), CONNECT_SECONDS
        ).close()
        return builder.remote(master).config(map=dict(settings)).getOrCreate()
    _make_ready(master)
    return builder.master(master).config(map={**QUIET, **settings}).getOrCreate()


def _make_ready(master: str) -> None:
    """Set what Spark needs to start; which Python its workers run only where they run here."""
    from parley.host import spark_environment

    found = spark_environment()
    if not master.startswith("local"):
        found = {name: value for name, value in found.items() if name == "JAVA_HOME"}
    os.environ.update(found)


def _facts(spark: SparkSession) -> tuple[Facts, Facts]:
    """Return what plans and what runs. Neither needs pyarrow for that, which Spark's own way to
    read from a source does.
    """
    from pyspark.sql.functions import udf

    spark.dataSource.register(_source())
    planner = spark.read.format(NAME).load().schema["planner"].metadata["facts"]
    looking = udf(_look(), "string", useArrow=False)
    (row,) = spark.range(1).select(looking().alias("facts")).collect()
    return json.loads(planner), json.loads(row.facts)


def _source() -> type[DataSource]:
    """Return a source whose planner says what it is in the schema."""
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StringType, StructType

    look, name = _look(), NAME

    class WorkerFacts(DataSource):  # type: ignore[misc]  # pyspark comes without types
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return StructType().add("planner", StringType(), metadata={"facts": look()})

    return WorkerFacts


def _look() -> Callable[[], str]:
    libraries = LIBRARIES

    def look() -> str:
        import importlib
        import json
        import platform
        import socket
        import sys

        facts: dict[str, str | None] = {
            "host": socket.gethostname(),
            "python": platform.python_version(),
            "path": sys.executable,
        }
        for name in libraries:
            try:
                facts[name] = importlib.import_module(name).__version__
            except ImportError:
                facts[name] = None
        kernel = schemas = None
        if None not in facts.values():
            info = importlib.import_module("parley.records").kernel_info()
            kernel = None if info.native else info.reason
            schemas = importlib.import_module("parley.serdes.native").why_reference
        return json.dumps({**facts, "kernel": kernel, "schemas": schemas})

    return look


def why(error: Exception) -> str:
    """Return the line that says why: the last error of Python's, else the first of Java's.

    >>> why(Exception("An error: \\n: java.io.IOException: Cannot run\\n\\tat java.base"))
    'IOException: Cannot run'
    """
    found = list(_ERROR.finditer(str(error)))
    python = [one for one in found if not one["package"].startswith(_JAVA)]
    chosen = [*python[-1:], *found[:1]]
    return chosen[0]["text"] if chosen else f"{type(error).__name__}: {str(error)[:300]}"
