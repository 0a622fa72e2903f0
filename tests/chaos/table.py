"""The tables of runs in a page of `docs/proof`: one line for each seed, between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def line_of(cells: Sequence[object]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def put_line(page: Path, name: str, columns: Sequence[str], cells: Sequence[object]) -> None:
    """Put a run into the table between the marks `<!-- name -->` and `<!-- end of name -->`.

    The first cell is the seed: the line goes where one with this seed stood, or in its order.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = page.read_text().split(begin, 1)
    table, after = rest.split(end, 1)
    head = line_of(columns)
    lines = {
        int(line.split("|")[1]): line
        for line in table.splitlines()
        if line.startswith("| ") and line != head
    }
    lines[int(str(cells[0]))] = line_of(cells)
    ruled = "\n".join([head, "|---" * len(columns) + "|", *(lines[seed] for seed in sorted(lines))])
    page.write_text(f"{before}{begin}\n{ruled}\n\n{end}{after}")
