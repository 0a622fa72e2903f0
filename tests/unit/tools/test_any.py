"""How often the sources say `Any`: where they do, neither mypy nor an editor sees a mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3] / "src"
MOST = 60
"""The word itself, wherever it stands: types, their imports, and the few sentences that have it."""


def counted(texts: Mapping[str, str]) -> tuple[int, str]:
    """Return how often texts have the word, and which of them how often, as lines."""
    found = {name: len(re.findall(r"\bAny\b", text)) for name, text in texts.items()}
    rows = sorted(((count, name) for name, count in found.items() if count), reverse=True)
    return sum(found.values()), "\n".join(f"{count:4} {name}" for count, name in rows)


def test_the_word_is_counted_in_types_and_imports_and_not_within_other_words() -> None:
    text = "from typing import Any\n\nfound: dict[str, Any] = {}\nAnyOf, _Any, any = 1, 2, 3\n"
    assert counted({"one.py": text, "other.py": "x: object"}) == (2, "   2 one.py")


def test_hardly_anything_is_typed_as_any() -> None:
    files = [file for ending in ("*.py", "*.pyi") for file in SOURCES.rglob(ending)]
    assert len(files) > 400, "the sources have not been found"
    count, where = counted(
        {str(file.relative_to(SOURCES)): file.read_text("utf-8") for file in files}
    )
    assert count <= MOST, (
        f"the sources say Any {count} times, {MOST} are allowed. Write the real type: a "
        "typed message of "
        "parley.messages, a TypedDict with Unpack for options by name, parley.types.Json for "
        "JSON, a Protocol, "
        f"a TypeVar or ParamSpec for wrappers, object for what is only checked or printed.\n{where}"
    )
