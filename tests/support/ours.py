"""The rules of these tests, tried on tests made for it: a copy of
`tests/conftest.py` and of what it takes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

TESTS = Path(__file__).parents[1]


def copy_rules(folder: Path, *, more: str = "") -> list[str]:
    """Put the rules, and `more` of them, into an empty folder for tests; return what
    pytest is called with then.
    """
    folder.mkdir(exist_ok=True)
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text() + more)
    shutil.copytree(
        TESTS / "support", folder / "support", ignore=shutil.ignore_patterns("__pycache__")
    )
    return ["--import-mode=importlib", f"--rootdir={folder.parent}", str(folder)]
