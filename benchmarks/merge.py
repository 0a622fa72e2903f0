"""A report of some parts or topics joins the one that is there: what was
not measured again stays.
"""

from __future__ import annotations

import re

from benchmarks.report import GOALS, GOALS_HEAD, HEAD, MEASURED_BY, table


def merge_reports(old: str, new: str) -> str:
    """Return the old report with the sections and goals of a new, partial one in it.

    Of a table by topic, the rows of topics that were not measured again stay, and so does what was
    said of the run that measured them.
    """
    before, after = _sections(old), _sections(new)
    goals = {_key(row): row for row in _rows(before.get(GOALS, "")) + _rows(after[GOALS])}
    merged = before | after | {GOALS: "\n".join([table(GOALS_HEAD, []), *goals.values()])}
    for title in (before.keys() & after.keys()) - {HEAD, GOALS}:
        merged[title] = _join(before[title], after[title])
    return "\n\n".join(f"{title}\n\n{text}" for title, text in merged.items()) + "\n"


def _join(old: str, new: str) -> str:
    """Return the text of a section: the new one's, with the rows that only the old one has."""
    *blocks, note = new.split("\n\n")
    kept = False
    earlier = {block.splitlines()[0]: block for block in old.split("\n\n") if _by_topic(block)}
    for number, block in enumerate(blocks):
        if _by_topic(block) and (before := earlier.get(block.splitlines()[0])) is not None:
            measured = {_key(row) for row in _rows(block)}
            stay = [row for row in _rows(before) if _key(row) not in measured]
            kept = kept or bool(stay)
            blocks[number] = "\n".join(
                [*block.splitlines()[:2], *_in_order(_rows(before), stay, _rows(block))]
            )
    notes = [block for block in old.split("\n\n") if block.startswith(MEASURED_BY)] if kept else []
    return "\n\n".join([*blocks, *dict.fromkeys([*notes, note])])


def _in_order(before: list[str], stay: list[str], new: list[str]) -> list[str]:
    """Return the rows of both, topic after topic in the order in which they stood."""
    topics = dict.fromkeys(_key(row) for row in [*before, *new])
    return [row for topic in topics for row in [*stay, *new] if _key(row) == topic]


def _by_topic(block: str) -> bool:
    return block.startswith("| topic |")


def _key(row: str) -> str:
    return row.split(" | ", maxsplit=1)[0]


def _sections(report: str) -> dict[str, str]:
    """Return the texts of a report by their heading."""
    pieces = re.split(r"^(#{1,2} .*)$", report, flags=re.MULTILINE)[1:]
    return {title: text.strip() for title, text in zip(pieces[::2], pieces[1::2], strict=True)}


def _rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")][2:]
