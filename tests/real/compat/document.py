"""docs/compatibility.md, made of what the compatibility tests found; the same
outcomes make the same text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from parley.testing.realbroker import REAL_RELEASES
from parley.versions import FEATURES, Feature

PATH = Path(__file__).parents[3] / "docs" / "compatibility.md"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEMBERS = {
    "eager": {"partition_assignment_strategy": "roundrobin"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
    "auto": {"group_protocol": "auto"},
}
"""How parley's consumers are members of groups: the options for it."""
SYMBOLS = {"works": "✓", "older": "↓", "refused": "–", "off": "○"}
Outcomes = Mapping[str, Mapping[str, str]]

HEAD = """\
# Compatibility

Written by `make test-real`, which runs the newest client against a real broker of each release; \
do not edit.
A cell is there only because its test passed: `tests/real/test_compatibility.py`, \
`test_compatibility_groups.py`.

| sign | meaning |
|---|---|
| ✓ | works: the request was answered, and where it changes something \
the change was seen on the broker |
| ↓ | the release lacks it, and parley takes the older path named in the last column, \
with the right result |
| – | the release lacks it: `UnsupportedVersionError` before a byte is sent, \
with API, ranges, broker, first release |
| ○ | the broker has the APIs and answers that the feature is switched off there |
"""


def rows() -> list[str]:
    """Return the keys of a whole matrix, in the document's order."""
    features = [feature.value for feature in Feature]
    return [
        *features,
        *(f"codec {codec}" for codec in CODECS),
        *(f"members {how}" for how in MEMBERS),
    ]


def is_whole(outcomes: Outcomes) -> bool:
    """Whether every feature and codec was tried against every release."""
    return all(set(outcomes.get(row, ())) == set(REAL_RELEASES) for row in rows())


def document(outcomes: Outcomes) -> str:
    """Return the document's text."""
    counted = Counter(outcome for row in rows() for outcome in outcomes[row].values())
    kinds = f"{len(Feature)} features, {len(CODECS)} codecs and {len(MEMBERS)} kinds of members"
    total = f"{kinds} × {len(REAL_RELEASES)} releases"
    parts = ", ".join(f"{counted[outcome]} {SYMBOLS[outcome]}" for outcome in SYMBOLS)
    lines = [HEAD, f"{total} = {counted.total()} cells: {parts}.", "", "## Features", ""]
    lines += _table_head("feature", "since", "KIP", last="without it")
    for feature in Feature:
        need = FEATURES[feature]
        cells = _cells(outcomes[feature.value])
        lines.append(
            f"| {feature.value} | {need.first_release} | {need.kip} | {cells} | {need.otherwise} |"
        )
    lines += ["", "## Produce and consume with each codec", "", *_table_head("codec")]
    lines += [f"| {codec} | {_cells(outcomes[f'codec {codec}'])} |" for codec in CODECS]
    return "\n".join([*lines, *members_of_groups(outcomes)]) + "\n"


def members_of_groups(outcomes: Outcomes) -> list[str]:
    """Return the section about groups: two consumers share, one leaves,
    each record is read once.
    """
    lines = [
        "",
        "## Two consumers in a group",
        "",
        "They share the partitions, one leaves, the other takes over, and each record is "
        "read once. `eager` and"
        " `cooperative` are assignors of the classic protocol (roundrobin, "
        "cooperative-sticky), `consumer` and `auto`"
        " values of `group_protocol`; `auto` takes what the release has.",
        "",
        *_table_head("members"),
    ]
    return lines + [f"| {how} | {_cells(outcomes[f'members {how}'])} |" for how in MEMBERS]


def write_if_whole(outcomes: Outcomes) -> bool:
    """Write the document, unless the run was a partial one; return whether it was written."""
    if not is_whole(outcomes):
        return False
    PATH.write_text(document(outcomes), encoding="utf-8")
    return True


def _table_head(*first: str, last: str = "") -> list[str]:
    columns = [*first, *REAL_RELEASES, *([last] if last else [])]
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def _cells(found: Mapping[str, str]) -> str:
    return " | ".join(SYMBOLS[found[release]] for release in REAL_RELEASES)
