"""Write the same cached rows with Spark's own sink, parley's at least once and parley's exactly
once, alternately.

The rows are those of the topic `plain`: key and value, kept by Spark in memory, so that producing
them costs all contestants the same and little. Each turn has a new topic of four partitions; what
arrived is counted by reading it with parley's client, committed rows only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from benchmarks.bench import CODECS, PARTITIONS
from benchmarks.jobs import arguments_of, load, say, session
from parley.client import EARLIEST, LATEST, Client, FetchOptions, NewTopic, TopicPartition

CONTESTANTS: dict[str, tuple[str, dict[str, str]]] = {
    "spark": ("kafka", {}),
    "parley": ("parley", {}),
    "exactly-once": ("parley", {"delivery": "exactly-once"}),
}
ATTEMPTS = 3
"""Spark's own producer may give a batch up after two minutes; then the turn is
repeated, and that is said.
"""


def cached(spark: SparkSession, bootstrap: str) -> DataFrame:
    frame = load(spark, "spark", bootstrap, "plain").select("key", "value").cache()
    frame.count()
    return frame


def save(frame: DataFrame, bootstrap: str, topic: str, contestant: str, codec: str) -> None:
    source, more = CONTESTANTS[contestant]
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "kafka.compression.type": codec,
        **more,
    }
    frame.write.format(source).options(**options).mode("append").save()


@contextmanager
def new_topic(client: Client) -> Iterator[str]:
    """Yield the name of a topic that is there until the end of the block."""
    topic = f"write-{time.time_ns()}"
    client.create_topics([NewTopic(topic, PARTITIONS, 1)])
    try:
        yield topic
    finally:
        client.delete_topics([topic])


def turn(frame: DataFrame, client: Client, bootstrap: str, contestant: str, codec: str) -> float:
    """Return the seconds of one write into a new topic. Raises what Spark raises;
    exits where rows are missing.
    """
    with new_topic(client) as topic:
        start = time.perf_counter()
        save(frame, bootstrap, topic, contestant, codec)
        seconds = time.perf_counter() - start
        arrived, wanted = count(client, topic), frame.count()
        if arrived != wanted:
            raise SystemExit(f"{contestant} wrote {wanted:,} rows, {arrived:,} arrived")
        return seconds


def count(client: Client, topic: str) -> int:
    """Return the committed rows, once the markers of their transactions are in the logs
    (EndTxn is answered before).
    """
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    ends = client.list_offsets(dict.fromkeys(places, LATEST))
    while True:
        stable = client.list_offsets(
            dict.fromkeys(places, LATEST), isolation_level="read_committed"
        )
        if all(stable[place].offset >= ends[place].offset for place in places):
            break
        time.sleep(0.05)
    ranges = dict.fromkeys(places, (EARLIEST, LATEST))
    options = FetchOptions(isolation_level="read_committed", max_partition_fetch_bytes=8 * 2**20)
    return sum(found.batch.num_rows for found in client.fetch_many(ranges, options))


def main() -> None:
    arguments = arguments_of()
    spark = session(arguments.jars)
    frame = cached(spark, arguments.bootstrap)
    with Client(bootstrap_servers=arguments.bootstrap) as client:
        for topic in arguments.topics:
            for round_number in range(arguments.rounds + 1):
                first = round_number % len(CONTESTANTS)
                names = [*CONTESTANTS][first:] + [*CONTESTANTS][:first]
                for contestant in names:
                    for attempt in range(ATTEMPTS):
                        try:
                            seconds = turn(
                                frame, client, arguments.bootstrap, contestant, CODECS[topic]
                            )
                            break
                        except (Py4JJavaError, PySparkException) as error:
                            if attempt + 1 == ATTEMPTS or contestant != "spark":
                                raise
                            say(
                                kind="failed",
                                topic=topic,
                                source=contestant,
                                error=str(error).splitlines()[0],
                            )
                    if round_number > 0:
                        say(kind="speed", topic=topic, source=contestant, seconds=seconds)
    spark.stop()


if __name__ == "__main__":
    main()
