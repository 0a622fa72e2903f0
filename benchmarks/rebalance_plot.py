"""What one more member cost, drawn as an SVG without a library: bars by protocol and client."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

WIDTH, LEFT, ROW, GAP, TOP = 760, 230, 20, 26, 40
COLOURS = {"parley": "#0b6e4f", "confluent-kafka": "#b5541c", "aiokafka": "#3b5b92"}
PANELS = (
    ("seconds", "from its subscribe to the last partition that is assigned", 1_000, "{:,.0f} ms"),
    ("partition_seconds", "partition-seconds without an owner", 1, "{:,.2f}"),
)
"""Figure, what it is, by how much it is multiplied, and how it is written."""
Figures = Mapping[tuple[str, str], tuple[float, float]]
"""(Protocol, client) → seconds and partition-seconds."""


def draw(joined: Figures, path: Path) -> None:
    """Write the picture: a panel for each figure, a bar for each client with each protocol."""
    protocols = list(dict.fromkeys(protocol for protocol, _ in joined))
    panel = len(joined) * ROW + len(protocols) * GAP + TOP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{2 * panel + 20}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for index, (_, what, factor, form) in enumerate(PANELS):
        figures = {key: found[index] * factor for key, found in joined.items()}
        lines += _panel(index * panel + TOP, what, form, figures)
    path.write_text("\n".join([*lines, "</svg>"]) + "\n", encoding="utf-8")


def _panel(top: int, what: str, form: str, figures: Mapping[tuple[str, str], float]) -> list[str]:
    out = [f'<text x="20" y="{top - 14}" font-size="14">One more member: {what}</text>']
    most, y, before = max(*figures.values(), 1e-9), top, ""
    for (protocol, client), value in figures.items():
        if protocol != before:
            y, before = y + (GAP - ROW if before else 0), protocol
            out.append(f'<text x="20" y="{y + 14}" font-weight="bold">{protocol}</text>')
        length = math.ceil(value / most * (WIDTH - LEFT - 110))
        out += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{client}</text>',
            f'<rect x="{LEFT}" y="{y + 3}" width="{max(length, 1)}" height="{ROW - 6}" '
            f'fill="{COLOURS[client]}"/>',
            f'<text x="{LEFT + length + 6}" y="{y + 14}">{form.format(value)}</text>',
        ]
        y += ROW
    return out
