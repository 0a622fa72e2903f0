"""Hold each package's map, which is part of its docstring, to its modules: every one is named, and
none that is gone.

A package of several modules says `Map:` and names them in the order in which they are read, in at
most 8 lines. What a module is for stands at its head. A package of one module per API or command
says so instead.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "parley"
MOST_LINES = 8
BY_RULE = "one module per"


def complaints(source: Path = SOURCE) -> Iterator[str]:
    """Yield what is wrong with the maps, and every module that does not say what it is for."""
    for folder in sorted({path.parent for path in source.rglob("*.py")}):
        for module in sorted(folder.glob("*.py")):
            if not _docstring(module) and module.read_text(encoding="utf-8").strip():
                yield f"{_shown(module)} has no docstring to say what it is for"
        if folder != source:
            yield from _of_package(folder)


def _of_package(folder: Path) -> Iterator[str]:
    text = _docstring(folder / "__init__.py")
    inside = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    inside |= {path.parent.name for path in folder.glob("*/__init__.py")}
    if BY_RULE in text:
        return
    found = re.search(r"^Map: (.*?)(\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        yield f"{_shown(folder)}: its docstring has no map of {', '.join(sorted(inside))}"
        return
    lines = found[1].count("\n") + 1
    if lines > MOST_LINES:
        yield f"{_shown(folder)}: its map has {lines} lines; {MOST_LINES} are the limit: make rooms"
    named = set(re.findall(r"`(\w+)`", found[1]))
    yield from (
        f"{_shown(folder)}: its map does not name {name}" for name in sorted(inside - named)
    )
    yield from (
        f"{_shown(folder)}: its map names {name}, which is not there"
        for name in sorted(named - inside)
    )


def _docstring(module: Path) -> str:
    return ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def main() -> int:
    found = list(complaints())
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
