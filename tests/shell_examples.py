"""Finding the blocks of documents that are no Python, and running what a reader is to type.

A block says after its fence what it is. `sh` are commands, `console` commands behind `$ ` with what
they print, `jsonl` a talk with the control socket, `properties` a client's options, `toml` a
pipeline. `text` is nothing to run: a picture or a table. Commands that cannot run here stand behind
a comment that says why, as fragments of Python do.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from .examples import DOCUMENTS, ROOT

PAGES = [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "DESIGN.md"]
_BLOCK = re.compile(
    r"^(?:<!-- fragment: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document; `reason` says why it is a fragment, None for one that runs."""

    document: Path
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Typed:
    """A command that a reader types, and the first line that the document shows below it."""

    words: tuple[str, ...]
    shown: str | None = None


def blocks() -> Iterator[Block]:
    """Yield every block of every document."""
    for document in PAGES:
        text = document.read_text(encoding="utf-8")
        for found in _BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("text")) + 1
            yield Block(document, line, found["language"], found["text"], found["reason"])


def typed(block: Block) -> list[Typed]:
    """Return the commands of a `sh` or `console` block, comments and continued lines resolved."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "sh":
        commands = [Typed(tuple(shlex.split(line, comments=True))) for line in lines]
        return [command for command in commands if command.words]
    found: list[Typed] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(Typed(tuple(shlex.split(line[2:], comments=True))))
        elif found and found[-1].shown is None:
            found[-1] = Typed(found[-1].words, line)
    return found


def make_targets() -> set[str]:
    """Return the targets of the Makefile that `make help` lists."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z0-9-]+):.*## ", makefile, re.MULTILINE))


def unknown_requirements(requirements: tuple[str, ...]) -> list[str]:
    """Return what a `pip install` of a document names and nobody could install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = {
        *project["project"].get("optional-dependencies", {}),
        *project["tool"]["parley"]["extras"],
    }
    others = {"pyspark", "venv-pack"}
    unknown = []
    for text in requirements:
        wanted = Requirement(text)
        own = wanted.name == project["project"]["name"]
        if not (own and wanted.extras <= extras) and wanted.name not in others:
            unknown.append(text)
    return unknown
