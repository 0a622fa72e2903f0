"""Which Python runs a session's workers: one with parley, or an error with what to set.

Spark starts planners and tasks with PYSPARK_PYTHON, or else with the first `python3` on PATH. Where
a program is run by the path of its interpreter (`.venv/bin/python app.py`, cron, an IDE) that is
another Python, mostly without parley.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from parley.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext

NEEDED = ("parley", "pyarrow")
_PROBE = f"""
import importlib.util, json, sys
lacking = [name for name in {NEEDED!r} if importlib.util.find_spec(name) is None]
print(json.dumps([list(sys.version_info[:2]), lacking]))
"""
_TIMEOUT_S = 60


def settle_interpreter(context: SparkContext) -> bool:
    """See that a SparkContext's workers have parley; return whether their Python changed.

    A local session without PYSPARK_PYTHON gets the interpreter that runs. Raises ConfigError, in
    one line, where the workers' interpreter cannot be used and is not ours to choose. What
    `addPyFile` ships is not looked into.
    """
    problem = _problem(context.pythonExec)
    if problem is None:
        return False
    if not os.environ.get("PYSPARK_PYTHON") and str(context.master).startswith("local"):
        context.pythonExec = sys.executable
        return True
    if context.getConf().get("spark.submit.pyFiles", "") or getattr(
        context, "_python_includes", ()
    ):
        return False
    raise ConfigError(
        f"Spark's Python workers cannot run parley: {problem}. Set "
        f"PYSPARK_PYTHON={sys.executable}, or the interpreter of an environment that has "
        "parley here and on every executor, before the session is started."
    )


def _problem(named: str) -> str | None:
    """Return why an interpreter cannot run parley, None if it can; starts another to see."""
    path = shutil.which(named)
    if path is None:
        return f'there is no interpreter "{named}"'
    if os.path.abspath(path) == os.path.abspath(sys.executable):
        return None
    try:
        done = subprocess.run(
            [path, "-c", _PROBE], capture_output=True, timeout=_TIMEOUT_S, check=True
        )
        release, lacking = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"{path} does not start ({type(error).__name__})"
    if lacking:
        return f"{path} has no module {lacking[0]}"
    if release != list(sys.version_info[:2]):
        mine = ".".join(map(str, sys.version_info[:2]))
        return f"{path} is Python {'.'.join(map(str, release))}, and the driver runs {mine}"
    return None
