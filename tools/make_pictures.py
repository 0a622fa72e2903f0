"""Make docs/proof/pictures: what commands print, as SVG. `python tools/make_pictures.py`, after a
change of the output.

An embedded cluster is asked as by the command itself; only the addresses are others, since free
ports differ from run to run. A group is asked about in virtual time, where the ids of its members
and what they have read are the same each time. A test compares the pictures with those made again.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.terminal_theme import MONOKAI

from parley.cli.api_versions import draw_table
from parley.cli.group_lag import Lags, watched
from parley.client import AsyncClient, AsyncConsumer, PartitionLag
from parley.client.cluster.survey import BrokerFinding, survey
from parley.devcluster import AsyncLocalCluster, ClusterSettings
from parley.net import ConnectOptions
from parley_laboratory.virtual import VirtualTime

FOLDER = Path(__file__).parents[1] / "docs" / "proof" / "pictures"
RELEASES = {1: "0.9", 2: "0.10.2", 3: "2.4", 4: "3.9", 5: "4.3"}
WIDTH = 132
COMMAND = "parley api-versions --bootstrap-server kafka-1:9092"
LAG_COMMAND = "parley groups lag nightly --watch --bootstrap-server kafka-1:9092"
TOPIC, GROUP = "flights", "nightly"
WRITTEN, MORE = (140, 90, 210, 75), (12, 0, 31, 8)
"""Records of each partition before the first look, and between the two."""


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)
    return 0


def pictures() -> dict[str, str]:
    """Return the text of every picture by the name of its file."""
    return {"api-versions.svg": api_versions(), "groups-lag.svg": groups_lag()}


def recording() -> Console:
    """Return a console that keeps what is printed, the same on every machine."""
    return Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor",
        highlight=False, markup=False, legacy_windows=False, _environ={},
    )  # fmt: skip


def api_versions() -> str:
    """Return `parley api-versions` against five brokers of five releases."""
    console = recording()
    draw_table(console, asyncio.run(findings()))
    return svg(console, COMMAND, "api-versions")


def groups_lag() -> str:
    """Return `parley groups lag --watch`, the second look at a group of two members."""
    console = recording()
    console.print(watched(*looks(), "14:02:07"))
    return svg(console, LAG_COMMAND, "groups-lag")


def looks() -> tuple[Lags, Lags]:
    """Return two looks at a group, between which records came and its members read."""
    time = VirtualTime(1)
    settings = ClusterSettings(start_time_ms=1_700_000_000_000)
    cluster = AsyncLocalCluster(
        3, "4.3", clock=time.clock, seed=1, backend=time.network, settings=settings
    )
    time.run(cluster.start())
    cluster.create_topic(TOPIC, len(WRITTEN))

    def client(name: str) -> AsyncClient:
        servers, network = cluster.bootstrap_servers, time.network
        return AsyncClient(
            bootstrap_servers=servers, backend=network, clock=time.clock, rng=time.rng,
            client_id=name,
        )  # fmt: skip

    watcher = client("parley")
    readers = [
        AsyncConsumer(client(f"loader-{at}"), group_id=GROUP, auto_offset_reset="earliest",
                      enable_auto_commit=False) for at in (1, 2)
    ]  # fmt: skip

    async def subscribe(reader: AsyncConsumer) -> None:
        await reader.start()
        reader.subscribe([TOPIC])

    async def write(counts: tuple[int, ...]) -> None:
        for partition, count in enumerate(counts):
            await watcher.produce(TOPIC, pa.table({"value": ["x"] * count}), partition)

    for reader in readers:
        time.run(subscribe(reader))
    for _ in range(20):
        for reader in readers:
            time.run(reader.getmany(timeout_ms=500))
    found: list[Lags] = []
    for counts, records in ((WRITTEN, 60), (MORE, 40)):
        time.run(write(counts))
        for reader in readers:
            time.run(reader.getmany(timeout_ms=1_000, max_records=records))
            time.run(reader.commit())
        found.append({tp: _placed(one) for tp, one in time.run(watcher.group_lag(GROUP)).items()})
    for reader in readers:
        time.run(reader.stop())
    time.run(watcher.close())
    time.run(cluster.close())
    time.close()
    before, after = found
    return before, after


def _placed(found: PartitionLag) -> PartitionLag:
    """Give the owner an address; in virtual time it has none."""
    owner = found.owner
    if owner is None:
        return found
    return replace(found, owner=replace(owner, host=f"/10.0.0.{owner.client_id[-1]}"))


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
