"""Spark's session: started with its messages in a file, and shared by the queries of a pipeline."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from parley.errors import ConfigError, JobError
from parley.host import spark_environment
from parley.pipelines.queries.failures import clearest_line
from parley.types.secret_names import SECRET

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET = "WARN"
PYSPARK_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""They write to stderr: JSON with a stack, for a column that is not there."""
REDACTED = rf"(?i){SECRET}|access.?key|registryurl|://[^/\s]*@"
"""Options whose values Spark is not to show in plans and on its pages, by name, or by a login in
the value's address: its default knows fewer.
"""


def start_session(name: str, settings: Mapping[str, str], log: Path) -> SparkSession:
    """Start a Spark session that writes all its messages to a file, or take the one that runs.

    Raises ConfigError where there is no Spark or no Java, JobError where Spark does not start.
    """
    os.environ.update(spark_environment())
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("Spark is not installed: pip install 'kafka-parley[spark]'") from None
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.master(value) if key == "master" else builder.config(key, value)
    with _stderr_into(log):
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise JobError(
                f"Spark did not start: {clearest_line(str(error))} (all of it is in {log})"
            ) from error
    spark.sparkContext.setLogLevel(QUIET)
    pyspark_logs_into(log)
    return spark


def pyspark_logs_into(log: Path) -> None:
    """Let pyspark write into a file what it logs of errors in this process; it raises them, too."""
    from pyspark.logger import PySparkLogger

    for name in PYSPARK_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        for handler in tuple(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
        logger.addHandler(logging.FileHandler(log, encoding="utf-8", delay=True))


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Let processes that are started meanwhile inherit a file as their stderr: the JVM keeps it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)


class SharedSession:
    """The session of a pipeline: the one that runs already, which is left alone in the end, or one
    of its own. Each query has its own names of views in it. For any thread.
    """

    def __init__(self, name: str, settings: Mapping[str, str], log: Path) -> None:
        self._name, self._settings, self.log = name, settings, log
        self._lock = threading.Lock()
        self._found: SparkSession | None = None
        self._is_ours = False

    def new(self) -> SparkSession:
        """Return a session for one query: the active one of this thread from now on. Starts Spark
        where it does not run; raises as `start_session`.
        """
        from parley.spark import data_sources, register

        with self._lock:
            if self._found is None:
                self._found = self._running()
            found: SparkSession = self._found.newSession()
            register(found)
            # Spark shares data sources that it finds by itself between sessions, and adds to their
            # environment when a query starts: two at once leave it damaged, and every task fails
            for source in data_sources():
                found.dataSource.register(source)
            # a writer looks for its data source in the active session, which only this call sets
            found.createDataFrame([], "nothing int")
            return found

    def _running(self) -> SparkSession:
        if not _is_running():
            self._is_ours = True
            settings = {"spark.redaction.regex": REDACTED, **self._settings}
            return start_session(self._name, settings, self.log)
        from pyspark.sql import SparkSession

        found: SparkSession = SparkSession.builder.getOrCreate()
        return found

    def close(self) -> None:
        """Stop Spark, if it was started here. Idempotent."""
        with self._lock:
            found, self._found = self._found, None
        if found is not None and self._is_ours:
            found.stop()


def _is_running() -> bool:
    try:
        from pyspark import SparkContext
    except ImportError:
        return False  # `start_session` says so
    return SparkContext._active_spark_context is not None
