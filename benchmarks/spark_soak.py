"""Memory over a long stream: one query with Trigger.AvailableNow over a topic of many
gigabytes, in micro-batches.
"""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from benchmarks.bench import PARTITIONS, Bench, progress
from benchmarks.report import Section, goal, table
from parley.client import Client, NewTopic, ProduceOptions

RECORD_BYTES = 106
GROWTH_MB = 20
"""What may be noise: the allocator's own, over all processes together."""
TENTHS = 10
TOPIC = "soak"
ROWS = 65_536


class Measured(NamedTuple):
    """Megabytes of all Python processes, and of the largest, after each micro-batch."""

    all_mb: list[float]
    largest_mb: list[float]
    rows: int
    seconds: float


def measure(bench: Bench) -> Measured:
    records = int(bench.soak_gb * 1e9 / RECORD_BYTES)
    fill(bench, records)
    facts = bench.spark_job("soak", [TOPIC], "--records", str(records))
    batches = [fact for fact in facts if fact["kind"] == "soak"]
    (end,) = (fact for fact in facts if fact["kind"] == "soaked")
    if end["rows"] != records:
        raise SystemExit(f"benchmarks: {records:,} records were written, {end['rows']:,} came out")
    columns = ([fact["all_mb"] for fact in batches], [fact["largest_mb"] for fact in batches])
    return Measured(*columns, end["rows"], end["seconds"])


def fill(bench: Bench, records: int) -> None:
    """Write records of 106 bytes with parley's client, the same slice of them again and again."""
    progress(f"filling {TOPIC} with {records:,} records")
    keys = [b"k%09d" % number for number in range(ROWS)]
    values = [
        (b'{"id":%d,"note":"' % number).ljust(94, b"abcdefghij"[number % 10 :][:1]) + b'"}'
        for number in range(ROWS)
    ]
    rows = pa.record_batch({"key": keys, "value": values})
    with Client(bootstrap_servers=bench.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        whole, rest = divmod(records, ROWS)
        pieces = (
            rows if number < whole else rows.slice(0, rest) for number in range(whole + bool(rest))
        )
        client.produce(TOPIC, pieces, options=ProduceOptions(compression_type="lz4"))


def report(found: Measured) -> Section:
    tenths = [_tenths(megabytes) for megabytes in (found.all_mb, found.largest_mb)]
    growth = tenths[0][-1] - tenths[0][1]
    rows = [
        [str(number + 1), *(f"{one[number]:.0f} MB" for one in tenths)] for number in range(TENTHS)
    ]
    gigabytes = found.rows * RECORD_BYTES / 1e9
    text = (
        f"{found.rows:,} records ({gigabytes:.1f} GB of keys and values, lz4) of one topic, "
        "written by parley's client, through one query with Trigger.AvailableNow in "
        f"{len(found.all_mb)} micro-batches to the noop sink, all seven columns, in "
        f"{found.seconds:.0f} s. Resident memory (VmRSS) of Spark's Python processes, workers "
        "and the query's own on the driver, after each micro-batch; medians of each tenth."
    )
    return Section(
        "Memory over a long stream",
        f"{text}\n\n{table(['tenth', 'all Python processes', 'the largest'], rows)}",
        [
            goal(
                f"memory, {gigabytes:.0f} GB streamed, 2nd to last tenth",
                f"≤ {GROWTH_MB} MB growth",
                f"{growth:+.0f} MB",
                growth <= GROWTH_MB,
            )
        ],
    )


def _tenths(values: list[float]) -> list[float]:
    """Return the median of each tenth of what was measured."""
    bounds = [round(number * len(values) / TENTHS) for number in range(TENTHS + 1)]
    return [
        statistics.median(values[first:last] or values[-1:]) for first, last in pairwise(bounds)
    ]
