"""Stream few records a micro-batch into a Delta table, and say how long the driver takes for each
commit: from the end of the batch's last task to the end of its writing.
"""

from __future__ import annotations

import tempfile
import time
from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from benchmarks.jobs import arguments_of, options_of, say, session
from parley.client import Client, NewTopic

PARTITIONS, RECORDS, MOST = 2, 1_000, 25
WARM_UP = 5


def main() -> None:
    found = arguments_of()
    spark = session(found.jars)
    topic = f"commits-{time.time_ns()}"
    with Client(bootstrap_servers=found.bootstrap) as client:
        client.create_topics([NewTopic(topic, PARTITIONS, 1)])
        client.produce(topic, pa.table({"value": [str(number) for number in range(RECORDS)]}))
        for turn in range(found.rounds):
            for commit_ms in stream(spark, found.bootstrap, topic)[0 if turn else WARM_UP :]:
                say(kind="commit", ms=commit_ms)
        client.delete_topics([topic])
    spark.stop()


def stream(spark: SparkSession, bootstrap: str, topic: str) -> list[float]:
    """Return the milliseconds of each commit of a query into a new table."""
    options = {**options_of(bootstrap, topic), "maxOffsetsPerTrigger": str(MOST)}
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.readStream.format("parley").options(**options, arrowBatches="true").load()
        query = (
            rows.writeStream.format("parley-delta")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start(f"{folder}/table")
        )
        query.awaitTermination()
        batches = [one for one in query.recentProgress if one["numInputRows"]]
    assert len(batches) == RECORDS // MOST, batches
    ends = job_ends(spark)
    return [
        end - max(one for one in ends if start <= one <= end) for start, end in map(times, batches)
    ]


def times(progress: StreamingQueryProgress) -> tuple[float, float]:
    """Return when a batch began, and when it was written, in milliseconds since 1970."""
    begun = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
    took = progress["durationMs"]
    return begun, begun + took["triggerExecution"] - took["commitOffsets"]


def job_ends(spark: SparkSession) -> list[float]:
    """Return when Spark's jobs ended, in milliseconds since 1970."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return [jobs.apply(at).completionTime().get().getTime() for at in range(jobs.size())]


if __name__ == "__main__":
    main()
