"""What `negotiation` measured, as text for RESULTS.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.report import Section, goal

if TYPE_CHECKING:
    from benchmarks.negotiation import Measured

OLD_BROKER_MS, SURVEY_SECONDS, VIEW_MS = 50, 5, 50


def report(found: Measured) -> Section:
    return Section("Negotiation", _text(found), _goals(found))


def _goals(found: Measured) -> list[list[str]]:
    rows = []
    for what, milliseconds in (
        ("embedded", found.old_embedded_ms),
        ("real 0.9.0.1", found.old_real_ms),
    ):
        reached = milliseconds <= OLD_BROKER_MS
        rows.append(
            goal(
                f"old broker recognised, {what}",
                f"≤ {OLD_BROKER_MS} ms",
                f"{milliseconds:.1f} ms",
                reached,
            )
        )
    newest, worst = min(found.round_trips.values()), max(found.round_trips.values())
    rows.append(goal("round trips that negotiation adds", "≤ 1", str(newest), newest <= 1))
    more = worst - newest
    rows.append(
        goal(
            "more of them where the broker refuses the newest version", "≤ 1", str(more), more <= 1
        )
    )
    survey = f"{found.survey_s:.2f} s"
    rows.append(
        goal(
            "1,000 embedded brokers asked",
            f"≤ {SURVEY_SECONDS} s",
            survey,
            found.survey_s <= SURVEY_SECONDS,
        )
    )
    view = f"{found.view_ms:.1f} ms"
    rows.append(
        goal("view of these 1,000 brokers", f"≤ {VIEW_MS} ms", view, found.view_ms <= VIEW_MS)
    )
    return rows


def _text(found: Measured) -> str:
    trips: dict[int, list[str]] = {}
    for release, count in found.round_trips.items():
        trips.setdefault(count, []).append(release)
    listed = "; ".join(f"{count} with {', '.join(names)}" for count, names in sorted(trips.items()))
    return (
        "A first connection each time, nothing remembered of the address: name, TCP, ApiVersions "
        "and the probe for old brokers behind it, in one write. Round trips are turns of "
        f"direction, counted by a proxy in front of embedded brokers: {listed}. Releases from 0.10 "
        "to 3.8 answer error 35 to the newest ApiVersions and are asked again on the same "
        "connection, as the protocol wants it. The 1,000 brokers are one process of mixed releases "
        "on the same cores, asked over TCP, at most 256 at a time, from one Metadata answer on."
    )
