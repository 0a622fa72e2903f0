"""Hold code, docs and help to the field's words: one
word for one thing, and the word that Kafka's users know.

`WORDS` names what not to write and what to write instead. Tests are held to the same list.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = (
    "src",
    "tools",
    "benchmarks",
    "tests",
    "docs",
    "cluster",
    "native/src",
    "README.md",
    "DESIGN.md",
    "CONTRIBUTING.md",
)
ENDINGS = {".py", ".pyi", ".md", ".rs"}
WORDS = {
    r"anew": "again, or rewritten",
    r"conduct": "mode, or policy",
    r"dice": "rng in code, at random in sentences",
    r"for ever": "forever",
    r"if there is one": "if available, or if given",
    r"in vain": "what failed",
    r"lineages?": "position epoch",
    r"mend(s|ed|ing)?": "fix, correct, or repair",
    r"seams?": "interface",
    r"tell(s|ing)?": "report, show, or say",
    r"told": "reported, sent, or known",
    r"verdicts?": "outcome, decision, or severity",
}
"""Each is looked for as a whole word and as a part of a name: `_told`, `verdict_ms`, `Verdict`."""


def complaints(files: Iterable[Path]) -> Iterator[str]:
    """Yield file, line, word and what to write instead, for every word of
    the list in these files.
    """
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            for found in _PATTERN.finditer(line):
                yield f"{_shown(file)}:{number}: {found[0]}: write {_instead(found[0])}"


def _files() -> Iterator[Path]:
    itself = {Path(__file__).resolve(), ROOT / "tests" / "unit" / "tools" / "test_words.py"}
    for place in PLACES:
        path = ROOT / place
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (one for one in found if one.suffix in ENDINGS and one not in itself)


def _instead(word: str) -> str:
    return next(
        better for pattern, better in WORDS.items() if re.fullmatch(pattern, word, re.IGNORECASE)
    )


_PATTERN = re.compile(rf"(?<![a-zA-Z])(?:{'|'.join(WORDS)})(?![a-z])", re.IGNORECASE)


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def main() -> int:
    found = list(complaints(_files()))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
