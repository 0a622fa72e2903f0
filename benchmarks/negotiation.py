"""Measure negotiation: an old broker recognised,
round trips, 1,000 brokers asked, the view of them.

Run by `benchmarks.run --only negotiation`, in its process; every figure comes with what was
measured.
"""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from benchmarks.bench import Bench
from parley.client.cluster.survey import BrokerFinding, survey
from parley.devcluster import AsyncLocalCluster
from parley.host import raise_descriptor_limit
from parley.net import ConnectOptions, ProbeOutcomes, open_connection, parse_address
from parley.testing.realbroker import RealCluster
from parley.versions import releases
from parley.versions.view import ClusterView

BROKERS = 1_000
MIXED = ("0.10.2.2", "2.4.1", "3.9.1", "4.3.0")
"""The releases of the 1,000 brokers, in turn."""


class Measured(NamedTuple):
    """What came out: milliseconds and seconds are medians."""

    old_embedded_ms: float
    old_real_ms: float
    round_trips: dict[str, int]
    """Release of the embedded broker → round trips until a first connection to it is negotiated."""
    survey_s: float
    view_ms: float


def measure(bench: Bench) -> Measured:
    """Measure everything; each figure is the median of the rounds after one that is not counted."""
    rounds = bench.rounds
    refused = raise_descriptor_limit(4 * BROKERS)
    if refused is not None:
        raise SystemExit(f"benchmarks: {refused}")
    with RealCluster("0.9.0.1", quick_start=False) as cluster:
        old_real_ms = asyncio.run(recognise(cluster.bootstrap_servers, rounds))
    survey_s, view_ms = measure_thousand(rounds)
    return Measured(
        old_embedded_ms=asyncio.run(recognise_embedded(rounds)),
        old_real_ms=old_real_ms,
        round_trips=asyncio.run(count_round_trips()),
        survey_s=survey_s,
        view_ms=view_ms,
    )


async def recognise_embedded(rounds: int) -> float:
    async with AsyncLocalCluster(1, "0.9.0.1") as cluster:
        return await recognise(cluster.bootstrap_servers, rounds)


async def recognise(address: str, rounds: int) -> float:
    """Return the median milliseconds of a first connection: name, TCP, probe, outcome."""
    found = []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        connection = await open_connection(
            address, ConnectOptions(), probe_outcomes=ProbeOutcomes()
        )
        found.append((time.perf_counter() - begun) * 1000)
        assert connection.inferred
        await connection.close()
    return statistics.median(found[1:])


async def count_round_trips() -> dict[str, int]:
    """Count, for each measured release, how often the direction turns from client
    to broker while connecting.
    """
    found = {}
    for release in releases():
        async with (
            AsyncLocalCluster(1, release) as cluster,
            counting_proxy(cluster.bootstrap_servers) as (port, turns),
        ):
            connection = await open_connection(
                f"127.0.0.1:{port}", ConnectOptions(), probe_outcomes=ProbeOutcomes()
            )
            found[release] = turns.count("request")
            await connection.close()
    return found


@asynccontextmanager
async def counting_proxy(address: str) -> AsyncIterator[tuple[int, list[str]]]:
    """Yield the port of a proxy to the broker, and the list of turns ("request",
    "answer") that it notes.
    """
    place, turns = parse_address(address), list[str]()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: str) -> None:
        while data := await reader.read(1 << 16):
            if turns[-1:] != [turn]:
                turns.append(turn)
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(place.host, place.port)
        await asyncio.gather(
            pump(reader, broker_writer, "request"), pump(broker_reader, writer, "answer")
        )

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], turns


def measure_thousand(rounds: int) -> tuple[float, float]:
    """Return the median seconds of asking 1,000 brokers of another process, and
    milliseconds of their view.
    """
    command = [
        sys.executable,
        "-m",
        "parley",
        "cluster",
        "start",
        "--brokers",
        str(BROKERS),
        "--format",
        "json",
    ]
    for number in range(1, BROKERS + 1):
        command += ["--broker", f"{number}={MIXED[number % len(MIXED)]}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            bootstrap = _bootstrap(process)
            surveys, views = [], []
            for _ in range(rounds + 1):
                begun = time.perf_counter()
                findings = asyncio.run(survey(ConnectOptions(bootstrap_servers=bootstrap)))
                surveys.append(time.perf_counter() - begun)
                views.append(_view_ms(findings))
        finally:
            process.send_signal(signal.SIGTERM)
    return statistics.median(surveys[1:]), statistics.median(views[1:])


def _bootstrap(process: subprocess.Popen[str]) -> str:
    """Return the first broker's address out of the JSON that `parley cluster start` prints."""
    text = ""
    for line in process.stdout or ():
        text += line
        if line.startswith("}"):
            servers: str = json.loads(text)["bootstrap_servers"]
            return servers.partition(",")[0]
    raise SystemExit("benchmarks: the cluster of 1,000 brokers did not start")


def _view_ms(findings: list[BrokerFinding]) -> float:
    assert len(findings) == BROKERS
    assert not any(finding.error for finding in findings)
    ranges = {
        finding.node.id: finding.versions.ranges
        for finding in findings
        if finding.versions is not None
    }
    begun = time.perf_counter()
    ClusterView(ranges)
    return (time.perf_counter() - begun) * 1000
