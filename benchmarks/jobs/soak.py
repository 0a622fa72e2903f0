"""Stream one topic in micro-batches with Trigger.AvailableNow
and look at the memory of every Python process.

After each micro-batch: the resident memory (VmRSS) of all Python processes below this one together,
and of the largest.
"""

from __future__ import annotations

import argparse
import tempfile
import time

from benchmarks.jobs import COLUMNS, arguments_of, options_of, say, session
from benchmarks.jobs.processes import RESIDENT, python_megabytes

MICRO_BATCHES = 40


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, required=True)


def main() -> None:
    arguments = arguments_of(add)
    spark = session(arguments.jars)
    (topic,) = arguments.topics
    options = options_of(arguments.bootstrap, topic)
    options["maxOffsetsPerTrigger"] = str(-(-arguments.records // MICRO_BATCHES))
    rows = spark.readStream.format("parley").options(**options).load().select(COLUMNS)
    with tempfile.TemporaryDirectory() as checkpoint:
        writing = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        start = time.perf_counter()
        query = writing.trigger(availableNow=True).start()
        seen = -1
        total = 0
        while query.isActive or (
            query.lastProgress is not None and query.lastProgress.batchId > seen
        ):
            for progress in query.recentProgress:
                if progress.batchId > seen and progress.numInputRows:
                    seen = progress.batchId
                    total += progress.numInputRows
                    weights = [*python_megabytes(RESIDENT).values()]
                    say(
                        kind="soak",
                        batch=seen,
                        rows=total,
                        all_mb=sum(weights),
                        largest_mb=max(weights, default=0.0),
                    )
            if not query.isActive and query.lastProgress.batchId <= seen:
                break
            time.sleep(0.05)
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        say(kind="soaked", rows=total, seconds=time.perf_counter() - start)
    spark.stop()


if __name__ == "__main__":
    main()
