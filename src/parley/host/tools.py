"""Programs that parley can make use of but does not need."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping


def find_tool(name: str, *, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the path of a program (`mvn`, `cargo`), or None where there is none on PATH."""
    environ = os.environ if environ is None else environ
    return shutil.which(name, path=environ.get("PATH", ""))
