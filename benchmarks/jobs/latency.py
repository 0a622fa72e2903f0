"""Stream single rows through micro-batches of their
own, with both sources in turn and the same sink.

What Spark says of each micro-batch that had the one row: `triggerExecution`, from the trigger to
the end of the batch. Each turn is a query of its own; its first rows warm it up and are not
reported.
"""

from __future__ import annotations

import tempfile
import time

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from benchmarks.jobs import COLUMNS, FORMATS, arguments_of, say, session
from parley.client import Client, NewTopic

PARTITIONS = 4
WARM_UP, ROWS = 5, 12
WAIT_SECONDS = 60


def main() -> None:
    arguments = arguments_of()
    spark = session(arguments.jars)
    topic = f"latency-{time.time_ns()}"
    with Client(bootstrap_servers=arguments.bootstrap) as client:
        client.create_topics([NewTopic(topic, PARTITIONS, 1)])
        for turn in range(arguments.rounds + 1):
            names = list(FORMATS)
            for source in names if turn % 2 else reversed(names):
                for execution_ms in stream(spark, client, source, topic, arguments.bootstrap):
                    if turn > 0:
                        say(kind="latency", source=source, ms=execution_ms)
        client.delete_topics([topic])
    spark.stop()


def stream(
    spark: SparkSession, client: Client, source: str, topic: str, bootstrap: str
) -> list[float]:
    """Return the milliseconds of each micro-batch of one row, but for the first ones."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "latest",
    }
    with tempfile.TemporaryDirectory() as checkpoint:
        rows = spark.readStream.format(FORMATS[source]).options(**options).load().select(COLUMNS)
        query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            wait_for(lambda: query.status["message"].startswith("Waiting"), query)
            found = [one_row(client, query, topic) for _ in range(WARM_UP + ROWS)]
        finally:
            query.stop()
    return found[WARM_UP:]


def one_row(client: Client, query: StreamingQuery, topic: str) -> float:
    seen = query.lastProgress.batchId if query.lastProgress is not None else -1
    client.produce(topic, pa.record_batch({"value": [b"x" * 96]}))

    def done() -> bool:
        last = query.lastProgress
        return last is not None and last.batchId > seen and last.numInputRows == 1

    wait_for(done, query)
    return float(query.lastProgress.durationMs["triggerExecution"])


def wait_for(done, query: StreamingQuery) -> None:  # type: ignore[no-untyped-def]
    give_up = time.monotonic() + WAIT_SECONDS
    while not done():
        if query.exception() is not None or time.monotonic() > give_up:
            raise SystemExit(
                f"a row did not come through: {query.exception() or query.lastProgress}"
            )
        time.sleep(0.02)


if __name__ == "__main__":
    main()
