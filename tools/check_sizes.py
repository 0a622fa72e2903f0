"""Hold files, functions and parameter lists to their sizes.

Files: a word at 400 lines, an error at 600. Functions: 60 lines. Parameters: 8, `self` not counted,
and keyword-only ones half, since they are named where they are given. A line `# size: reason` right
above a definition, or in a file's head, lets it pass.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools", "benchmarks", "tests")
FILE_WORD, FILE_ERROR = 400, 600
FUNCTION_LINES = 60
PARAMETERS = 8


def complaints(file: Path) -> Iterator[tuple[bool, str]]:
    """Yield (is an error, text) for everything in a file that is too large."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    name = file.relative_to(ROOT)
    if len(lines) > FILE_WORD and not any(line.startswith("# size: ") for line in lines[:40]):
        yield len(lines) > FILE_ERROR, f"{name}: {len(lines)} lines; split it by decision"
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        if first >= 2 and lines[first - 2].strip().startswith("# size: "):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES:
            yield (
                True,
                f"{name}:{node.lineno}: {node.name} has {length} lines; {FUNCTION_LINES} are "
                "the limit",
            )
        positional = [
            one.arg
            for one in [*node.args.posonlyargs, *node.args.args]
            if one.arg not in {"self", "cls"}
        ]
        if len(positional) + len(node.args.kwonlyargs) / 2 > PARAMETERS:
            yield (
                True,
                f"{name}:{node.lineno}: {node.name} has too many parameters; make a "
                "dataclass of them",
            )


def main() -> int:
    found = [
        complaint
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for complaint in complaints(file)
    ]
    for is_error, text in found:
        print(("error: " if is_error else "note: ") + text, file=sys.stderr)
    return 1 if any(is_error for is_error, _ in found) else 0


if __name__ == "__main__":
    sys.exit(main())
