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
OTHERS = ("confluent-kafka", "kafka-python", "aiokafka")
SYMBOLS = {"works": "✓", "older": "↓", "refused": "–", "off": "○", "elsewhere": "·"}
NOT_SEEN = " "
"""The cell of a test that did not run yet."""
Outcomes = Mapping[str, Mapping[str, str]]

HEAD = """\
# Compatibility

Written by `make test-real`, which runs the newest client against a real broker of each release; \
do not edit.
A cell is there only because its test passed: `tests/real/test_compatibility.py`, \
`test_compatibility_groups.py`, `test_compatibility_records.py`. A run for some releases \
(`PARLEY_REAL_RELEASES=2.4.1,3.9.1`) renews their cells; an empty one was not run yet.

| sign | meaning |
|---|---|
| ✓ | works: the request was answered, and where it changes something \
the change was seen on the broker |
| ↓ | the release lacks it, and parley takes the older path named in the last column, \
with the right result |
| – | the release lacks it: `UnsupportedVersionError` before a byte is sent, \
with API, ranges, broker, first release |
| ○ | the broker has the APIs and answers that the feature is switched off there |
| · | not tried: the other client is not made for this release |
"""


def sends_with(other: str) -> str:
    """Return the row of what parley sends and another client reads."""
    return f"parley sends, {other} reads"


EXCHANGES = (
    *(sends_with(other) for other in OTHERS),
    *(f"{other} sends" for other in OTHERS),
    "headers and idempotence",
)
"""What is exchanged record by record."""
SECTIONS = {"Features": "", "Produce and consume with each codec": "codec "}
SECTIONS |= {"Two consumers in a group": "members ", "Records, one by one": ""}
"""The headings of tables, and what their rows' names begin with as keys."""


def rows() -> list[str]:
    """Return the keys of a whole matrix, in the document's order."""
    features = [feature.value for feature in Feature]
    return [
        *features,
        *(f"codec {codec}" for codec in CODECS),
        *(f"members {how}" for how in MEMBERS),
        *EXCHANGES,
    ]


def outcomes_of(text: str) -> dict[str, dict[str, str]]:
    """Return what a document has: the outcomes that it was written from."""
    meanings = {symbol: outcome for outcome, symbol in SYMBOLS.items()}
    found: dict[str, dict[str, str]] = {}
    begins, columns = None, []
    for line in text.splitlines():
        if line.startswith("## "):
            begins = SECTIONS[line[3:]]
            columns = []
        elif begins is not None and line.startswith("| "):
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if not columns:
                columns = cells
                continue
            found[begins + cells[0]] = {
                column: meanings[cell]
                for column, cell in zip(columns, cells, strict=True)
                if column in REAL_RELEASES and cell in meanings
            }
    return found


def document(outcomes: Outcomes) -> str:
    """Return the document's text."""
    outcomes = {row: outcomes.get(row, {}) for row in rows()}
    counted = Counter(outcome for row in rows() for outcome in outcomes[row].values())
    kinds = (
        f"{len(Feature)} features, {len(CODECS)} codecs, {len(MEMBERS)} kinds of members and "
        f"{len(EXCHANGES)} exchanges of records"
    )
    total = f"{kinds} on {len(REAL_RELEASES)} releases"
    parts = ", ".join(f"{counted[outcome]} {SYMBOLS[outcome]}" for outcome in SYMBOLS)
    lines = [HEAD, f"{total}: {counted.total()} cells, {parts}.", "", "## Features", ""]
    lines += _table_head("feature", "since", "KIP", last="without it")
    for feature in Feature:
        need = FEATURES[feature]
        cells = _cells(outcomes[feature.value])
        lines.append(
            f"| {feature.value} | {need.first_release} | {need.kip} | {cells} | {need.otherwise} |"
        )
    lines += ["", "## Produce and consume with each codec", "", *_table_head("codec")]
    lines += [f"| {codec} | {_cells(outcomes[f'codec {codec}'])} |" for codec in CODECS]
    return "\n".join([*lines, *members_of_groups(outcomes), *exchanges(outcomes)]) + "\n"


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


def exchanges(outcomes: Outcomes) -> list[str]:
    """Return the section about producers and consumers of records, with another client at the
    other end.
    """
    return [
        "",
        "## Records, one by one",
        "",
        "`AsyncProducer` and `Producer` send, another client reads; another one sends, "
        "`AsyncConsumer` and `Consumer` read: keys, values, their absence, times (from 0.10) and "
        "headers (from 0.11) come through in order, each once, and each acknowledgement names its "
        "record's offset. The brokers keep format 0 before 0.10 and format 1 before 0.11. The last "
        "row: before 0.11 headers, and idempotence where it is asked for, are refused; from there "
        "on headers come through, and the table of features has idempotence.",
        "",
        *_table_head("records"),
        *(f"| {row} | {_cells(outcomes[row])} |" for row in EXCHANGES),
    ]


def write(outcomes: Outcomes) -> None:
    """Put what a run found out into the document; cells that it did not try stay."""
    known = outcomes_of(PATH.read_text(encoding="utf-8"))
    merged = {row: {**known.get(row, {}), **outcomes.get(row, {})} for row in rows()}
    PATH.write_text(document(merged), encoding="utf-8")


def _table_head(*first: str, last: str = "") -> list[str]:
    columns = [*first, *REAL_RELEASES, *([last] if last else [])]
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def _cells(found: Mapping[str, str]) -> str:
    return " | ".join(
        SYMBOLS[found[release]] if release in found else NOT_SEEN for release in REAL_RELEASES
    )
