"""What the environment must hold before a Spark session is started from here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from parley.host.java import require_java


def spark_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables to set for a local Spark session, those that are set already left out.

    JAVA_HOME: a Java 17 or later, found or made. PYSPARK_PYTHON: this interpreter, since the
    workers and the look-up of `pyspark_parley` would otherwise run in whatever `python3` is on
    PATH. SPARK_LOCAL_IP: loopback, since a local session needs no host name that resolves. Raises
    ConfigError where there is no Java.
    """
    environ = os.environ if environ is None else environ
    wanted = {
        "JAVA_HOME": str(require_java().home),
        "PYSPARK_PYTHON": environ.get("PYSPARK_PYTHON") or sys.executable,
        "PYSPARK_DRIVER_PYTHON": environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable,
        "SPARK_LOCAL_IP": environ.get("SPARK_LOCAL_IP") or "127.0.0.1",
    }
    return {name: value for name, value in wanted.items() if environ.get(name) != value}
