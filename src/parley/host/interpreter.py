"""Which Python runs Spark's workers, and whether it has what they need."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

_TIMEOUT_SECONDS = 60


def spark_interpreter(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the interpreter of Spark's Python workers, or None where it finds none.

    That is PYSPARK_PYTHON, else `python3` on PATH: not, by itself, the running interpreter.
    """
    environ = os.environ if environ is None else environ
    named = environ.get("PYSPARK_PYTHON") or "python3"
    return shutil.which(named, path=environ.get("PATH", ""))


def interpreter_has(interpreter: str, module: str) -> bool:
    """Return whether an interpreter can import a module. Starts it to find out."""
    return import_failure(interpreter, module) is None


def import_failure(interpreter: str, module: str) -> str | None:
    """Return why an interpreter cannot import a module, None where it can. Starts it to find
    out.
    """
    command = [interpreter, "-c", f"import {module}"]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"exit code {done.returncode}"
