"""The distribution of the time after a leader move, drawn as an SVG without a
library: share of moves over time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, GAP = 760, 250, 60, 40, 70
LEAST_MS, MOST_MS = 1.0, 10_000.0
COLOURS = {"parley": "#0b6e4f", "confluent-kafka": "#b5541c"}
STYLE = {"4.3": "", "3.6": ' stroke-dasharray="5 4"'}
NOTES = {"4.3": "with leader hints (4.3)", "3.6": "without (3.6)"}


def draw(delivered_ms: Mapping[tuple[str, str, str], list[float]], path: Path) -> None:
    """Write the picture: a panel for producers and one for consumers, a line for
    each client and release.
    """
    roles = ("producer", "consumer")
    height = len(roles) * (HEIGHT + GAP) + TOP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for index, role in enumerate(roles):
        lines += _panel(role, TOP + index * (HEIGHT + GAP), delivered_ms)
    path.write_text("\n".join([*lines, "</svg>"]) + "\n", encoding="utf-8")


def _panel(
    role: str, top: int, delivered_ms: Mapping[tuple[str, str, str], list[float]]
) -> list[str]:
    bottom, right = top + HEIGHT, WIDTH - 20
    out = [
        f'<text x="{LEFT}" y="{top - 10}" font-size="14">{role}: share of leader '
        "moves after which the next record was delivered within …</text>"
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - share * HEIGHT
        out.append(f'<line x1="{LEFT}" y1="{y:.0f}" x2="{right}" y2="{y:.0f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{share:.0%}</text>')
    for ms in (1, 10, 100, 1_000, 10_000):
        out.append(
            f'<line x1="{_x(ms):.0f}" y1="{top}" x2="{_x(ms):.0f}" y2="{bottom}" stroke="#ddd"/>'
        )
        out.append(
            f'<text x="{_x(ms):.0f}" y="{bottom + 16}" text-anchor="middle">{ms:,} ms</text>'
        )
    row = 0
    for (client, whose, release), found in delivered_ms.items():
        if whose != role or not found:
            continue
        points, before = [f"{LEFT},{bottom}"], float(bottom)
        for rank, ms in enumerate(sorted(found), 1):
            points += [
                f"{_x(ms):.1f},{before:.1f}",
                f"{_x(ms):.1f},{bottom - rank / len(found) * HEIGHT:.1f}",
            ]
            before = bottom - rank / len(found) * HEIGHT
        colour = f'fill="none" stroke="{COLOURS[client]}" stroke-width="2"{STYLE[release]}'
        out.append(f'<polyline points="{" ".join([*points, f"{right},{before:.1f}"])}" {colour}/>')
        y = bottom - 12 - 18 * row
        out.append(
            f'<line x1="{right - 250}" y1="{y - 4}" x2="{right - 215}" y2="{y - 4}" {colour}/>'
        )
        out.append(f'<text x="{right - 208}" y="{y}">{client}, {NOTES[release]}</text>')
        row += 1
    return out


def _x(ms: float) -> float:
    span = math.log10(MOST_MS / LEAST_MS)
    return (
        LEFT + (WIDTH - 20 - LEFT) * math.log10(min(max(ms, LEAST_MS), MOST_MS) / LEAST_MS) / span
    )
