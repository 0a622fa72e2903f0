"""Make docs/proof/pictures: what commands print, as SVG. `python tools/make_pictures.py`, after a
change of the output.

An embedded cluster is asked over TCP as by the command itself; only the addresses are others, since
free ports differ from run to run. A test compares the picture with one made again.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from parley.cli.api_versions import draw_table
from parley.client.cluster.survey import BrokerFinding, survey
from parley.devcluster import AsyncLocalCluster
from parley.net import ConnectOptions

FOLDER = Path(__file__).parents[1] / "docs" / "proof" / "pictures"
RELEASES = {1: "0.9", 2: "0.10.2", 3: "2.4", 4: "3.9", 5: "4.3"}
WIDTH = 132
COMMAND = "parley api-versions --bootstrap-server kafka-1:9092"


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)
    return 0


def pictures() -> dict[str, str]:
    """Return the text of every picture by the name of its file."""
    return {"api-versions.svg": api_versions()}


def api_versions() -> str:
    """Return `parley api-versions` against five brokers of five releases."""
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor",
        highlight=False, markup=False, legacy_windows=False, _environ={},
    )  # fmt: skip
    draw_table(console, asyncio.run(findings()))
    return svg(console, COMMAND, "api-versions")


async def findings() -> list[BrokerFinding]:
    """Ask the brokers; give them addresses that are always the same."""
    async with AsyncLocalCluster(len(RELEASES), releases=RELEASES) as cluster:
        found = await survey(ConnectOptions(bootstrap_servers=cluster.bootstrap_servers))
    return [
        replace(one, node=replace(one.node, host=f"kafka-{one.node.id}", port=9092))
        for one in found
    ]


def svg(console: Console, title: str, unique_id: str) -> str:
    """Return what was recorded as SVG, in whatever monospaced font the reader has:
    nothing is loaded from elsewhere.
    """
    text = console.export_svg(title=title, theme=MONOKAI, unique_id=unique_id)
    text = re.sub(r"\s*@font-face \{.*?\}\n", "\n", text, flags=re.DOTALL)
    return (
        "\n".join(
            line.rstrip() for line in text.replace("Fira Code, monospace", "monospace").splitlines()
        )
        + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
