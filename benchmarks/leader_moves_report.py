"""What `leader-moves` measured, as text for RESULTS.md."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.report import Section, goal

if TYPE_CHECKING:
    from benchmarks.leader_moves import Measured

HINTS = "4.3"
DELIVERED_MS, REFRESHES, DECODE_MS, APPLY_MS = 100, 1, 100, 50
RELEASES = {"4.3": "4.3, with hints", "3.6": "3.6, without"}


def report(found: Measured) -> Section:
    return Section("Leader moves", leader_moves_text(found), leader_moves_goals(found))


def leader_moves_goals(found: Measured) -> list[list[str]]:
    """Return the rows of what must be reached."""
    rows = []
    for role in ("producer", "consumer"):
        p99 = _percentile(found.delivered_ms["parley", role, HINTS], 99)
        what = f"leader move to next record, p99, {role}"
        rows.append(goal(what, f"≤ {DELIVERED_MS} ms", f"{p99:.0f} ms", p99 <= DELIVERED_MS))
    most = max(
        value for (client, _), value in found.refreshes_per_move.items() if client == "parley"
    )
    rows.append(
        goal(
            "refreshes per leader move and client",
            f"≤ {REFRESHES}",
            f"{most:.2f}",
            most <= REFRESHES,
        )
    )
    for what, name, limit in (
        ("decode", "decode Metadata, 10,000 partitions", DECODE_MS),
        ("apply", "apply it", APPLY_MS),
    ):
        usual = statistics.median(_later(found.metadata_ms[what]))
        rows.append(goal(name, f"≤ {limit} ms", f"{usual:.0f} ms", usual <= limit))
    load = found.loaded
    wrong = (load.lost, load.duplicated, load.reordered)
    text = f"{load.lost} / {load.duplicated} / {load.reordered} of {load.sent:,}"
    what = f"{load.moves} moves under load: lost / repeated / reordered"
    rows.append(goal(what, "0 / 0 / 0", text, not any(wrong)))
    return rows


def leader_moves_text(found: Measured) -> str:
    """Return the section: distribution, picture, and the refreshes that two
    orders of answers force.
    """
    lines = [
        "An embedded cluster of three brokers in a process of its own, one partition. "
        "After each move one record is written and read; milliseconds from the move until "
        "it was acknowledged, or handed to the application. confluent-kafka is idempotent "
        "with linger.ms=0, otherwise with its defaults. Refreshes are Metadata requests "
        "per move and client, the one that writes and the one that reads.",
        "| client | cluster | role | p50 | p90 | p99 | most | refreshes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (client, role, release), times in found.delivered_ms.items():
        figures = " | ".join(f"{_percentile(times, share):.1f} ms" for share in (50, 90, 99, 100))
        refreshes = f"{found.refreshes_per_move[client, release]:.2f}"
        lines.append(f"| {client} | {RELEASES[release]} | {role} | {figures} | {refreshes} |")
    measured = "\n".join(lines[1:])
    picture = "![time after a leader move](pictures/leader-moves.svg)"
    forced = "\n".join(
        ["| order of answers | forced refreshes |", "| --- | --- |"]
        + [f"| {policy} | {count} |" for policy, count in found.forced.items()]
    )
    about = (
        "Refreshes that outdated answers force on one history of 300 questions "
        "about a topic of 1,000 partitions, asked of three brokers that are up "
        "to ten changes behind (the same for each row, no time in it):"
    )
    return "\n\n".join([lines[0], measured, picture, _metadata_text(found), about, forced])


METADATA = {
    "decode": "bytes → message",
    "apply": "message → plain values → an empty cache",
    "refresh": "message → plain values → a cache that knows it all",
}


def _metadata_text(found: Measured) -> str:
    processes = len(found.metadata_ms["decode"])
    about = (
        "A Metadata answer of 1,000 topics of 10 partitions with three replicas each, in "
        f"CPU time, garbage collections with it. {processes} fresh interpreters that do "
        "nothing else; the first call of each stands apart, since the decoder is "
        "compiled in it. In a process with a larger heap a call is interrupted by a "
        "collection of that heap now and then, which is not counted here."
    )
    rows = ["| what | first call | p50 of the others | most |", "| --- | --- | --- | --- |"]
    for what, text in METADATA.items():
        runs = found.metadata_ms[what]
        first, later = statistics.median(run[0] for run in runs), _later(runs)
        rows.append(
            f"| {text} | {first:.0f} ms | {statistics.median(later):.0f} ms | {max(later):.0f} ms |"
        )
    return about + "\n\n" + "\n".join(rows)


def _later(runs: list[list[float]]) -> list[float]:
    """Return the calls of all processes but the first of each."""
    return [ms for run in runs for ms in run[1:]]


def _percentile(values: list[float], share: int) -> float:
    if share == 100 or len(values) < 2:
        return max(values)
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]
