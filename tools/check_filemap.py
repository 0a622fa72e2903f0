"""Hold the file map in DESIGN.md to the files: `check_filemap.py` compares, `--write` mends.

A line of the map is a module's first docstring line and its public classes, or functions where it
has none: what is said there is said in the module, so that it can only be wrong in one place.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DESIGN = ROOT / "DESIGN.md"
BEGIN = "<!-- file map: made by tools/check_filemap.py --write -->"
END = "<!-- end of file map -->"
MOST_NAMES = 4

# Top to bottom, as in pyproject's contracts. A folder that is missing here is reported.
LAYERS = (
    "cli", "pipelines", "spark", "testing", "drafts", "client", "devcluster", "net", "arrow", "host", "protocol",
    "records", "versions", "messages", "frames", "schema", "kernel", "wire", "types", "errors",
)  # fmt: skip


class MapError(Exception):
    """A module cannot be put on the map."""


def file_map(source: Path) -> str:
    """Return the map of everything under `src`. Raises MapError for a module without a docstring."""
    top = source / "parley"
    folders = {path.name for path in top.iterdir() if path.is_dir() and path.name != "__pycache__"}
    if folders != set(LAYERS):
        raise MapError(f"tools/check_filemap.py does not know of {sorted(folders ^ set(LAYERS))}")
    lines = list(_section("top level", [*sorted(top.glob("*.py")), *sorted((source / "pyspark_parley").glob("*.py"))]))
    for layer in LAYERS:
        lines += _section(layer, sorted((top / layer).rglob("*.py")))
    lines += _section("parley_laboratory", sorted((source / "parley_laboratory").rglob("*.py")))
    return "\n".join(lines)


def _section(title: str, files: list[Path]) -> Iterator[str]:
    yield from (f"### {title}", "", "| file | what | names |", "|---|---|---|")
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if not tree.body:
            continue  # an empty __init__.py
        what = (ast.get_docstring(tree) or "").split("\n")[0]
        if not what:
            raise MapError(f"{file.relative_to(ROOT)} has no docstring to say what it is for")
        yield f"| `{_shown(file)}` | {what.replace('|', '/')} | {_names(tree)} |"
    yield ""


def _shown(file: Path) -> str:
    inside = file.relative_to(ROOT / "src")
    return str(inside.relative_to("parley")) if inside.parts[0] == "parley" else str(inside)


def _names(tree: ast.Module) -> str:
    """Return the public classes of a module, its functions where it has none."""
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for found in (classes, functions):
        names = [name for name in found if not name.startswith("_")]
        if names:
            more = ", ..." if len(names) > MOST_NAMES else ""
            return ", ".join(f"`{name}`" for name in names[:MOST_NAMES]) + more
    return ""


def main() -> int:
    try:
        wanted = f"{BEGIN}\n{file_map(ROOT / 'src')}{END}"
    except MapError as error:
        print(error, file=sys.stderr)
        return 1
    text = DESIGN.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        print(f"DESIGN.md lacks the lines {BEGIN} and {END}", file=sys.stderr)
        return 1
    if "--write" in sys.argv[1:]:
        DESIGN.write_text(before + wanted + after, encoding="utf-8")
        return 0
    if before + wanted + after != text:
        shown = set(text.splitlines())
        differing = [line for line in wanted.splitlines() if line not in shown]
        gone = sorted(shown - set(wanted.splitlines()) - set((before + after).splitlines()))
        print("DESIGN.md's file map is not what the files say; run: tools/check_filemap.py --write", file=sys.stderr)
        print("\n".join([f"+ {line}" for line in differing] + [f"- {line}" for line in gone]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
