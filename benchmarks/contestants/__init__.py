"""One module per client: reads every record of a topic's partitions, as fast as that client can.

Each is run in a process of its own: `python -m benchmarks.contestants.NAME BOOTSTRAP TOPIC
PARTITIONS RECORDS` and prints one JSON line. What it imports is loaded before its clock starts;
connecting is counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.jobs.processes import PEAK, own_megabytes


@dataclass
class Job:
    """What to read; `finish()` stops the clock when the last record was seen,
    before anything is closed.
    """

    bootstrap: str
    topic: str
    partitions: int
    records: int
    finished_at: float = 0.0

    def finish(self) -> None:
        self.finished_at = time.perf_counter()


def run(read: Callable[[Job], int]) -> None:
    """Time `read`, which returns the number of records it saw, and print the result."""
    bootstrap, topic, partitions, records = sys.argv[1:]
    job = Job(bootstrap, topic, int(partitions), int(records))
    start = time.perf_counter()
    rows = read(job)
    if rows < job.records:
        raise SystemExit(f"{rows} records were read, {job.records} were expected")
    peak_mb = own_megabytes(PEAK)
    print(json.dumps({"rows": rows, "seconds": job.finished_at - start, "peak_rss_mb": peak_mb}))
