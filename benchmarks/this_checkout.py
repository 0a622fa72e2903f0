"""Time one thing with the parley of this checkout and print its seconds: `python -m
benchmarks.this_checkout WHAT`.

Run by benchmarks.against in two checkouts by turns. It prints one JSON line: name of what was timed
→ seconds of each repetition. Repetition 0 warms up and is left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.bench import CODECS, PARTITIONS

Times = dict[str, list[float]]
ROWS = 1_000_000
"""Of one write."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=MEASURED)
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    print(json.dumps(MEASURED[arguments.what](arguments.bootstrap, arguments.repeat)))


def read(bootstrap: str, repeat: int) -> Times:
    """Read all of each topic with the Arrow client."""
    from parley import EARLIEST, LATEST, Client, TopicPartition

    def all_of(topic: str) -> None:
        ranges = {TopicPartition(topic, index): (EARLIEST, LATEST) for index in range(PARTITIONS)}
        with Client(bootstrap_servers=bootstrap) as client:
            for found in client.fetch_many(ranges):
                del found

    return {f"client reads, {topic}": timed(repeat, partial(all_of, topic)) for topic in CODECS}


def write(bootstrap: str, repeat: int) -> Times:
    """Write a table with the Arrow client, in each codec."""
    import pyarrow as pa

    from parley import Client, ProduceOptions

    numbers = [f"{number:010d}" for number in range(ROWS)]
    table = pa.table({"key": numbers, "value": [number * 9 + "abcdef" for number in numbers]})
    found = {}
    with Client(bootstrap_servers=bootstrap) as client:
        for name, codec in CODECS.items():
            with new_topic(client) as topic:
                options = ProduceOptions(compression_type=codec)
                found[f"client writes, {name}"] = timed(
                    repeat, partial(client.produce, topic, table, options=options)
                )
    return found


def leader_moves(bootstrap: str, repeat: int) -> Times:
    """Move the leader of an embedded cluster's partition; see benchmarks.leader_moves."""
    from benchmarks.leader_moves import HINTS, moving_cluster, play_parley

    found: Times = {"after a leader move, written": [], "after a leader move, read": []}
    for _ in range(repeat):
        with moving_cluster(HINTS) as (address, send):
            for times, milliseconds in zip(found.values(), play_parley(address, send), strict=True):
                times += [one / 1000 for one in milliseconds]
    return found


def spark(bootstrap: str, repeat: int) -> Times:
    """Read all columns, and write keys and values at least once and exactly
    once, in one Spark session.
    """
    from benchmarks.jobs import load, noop, session
    from parley.client import Client

    spark = session("")
    found = {}
    for topic in CODECS:
        frame = load(spark, "parley", bootstrap, topic)
        found[f"Spark reads, {topic}"] = timed(repeat, partial(noop, frame))
    rows = load(spark, "parley", bootstrap, "plain").select("key", "value").cache()
    rows.count()
    with Client(bootstrap_servers=bootstrap) as client:
        for delivery in ("at-least-once", "exactly-once"):
            with new_topic(client) as topic:
                options = {
                    "kafka.bootstrap.servers": bootstrap,
                    "topic": topic,
                    "delivery": delivery,
                }
                writer = rows.write.format("parley").options(**options).mode("append")
                found[f"Spark writes, {delivery}"] = timed(repeat, writer.save)
    spark.stop()
    return found


@contextmanager
def new_topic(client: object) -> Iterator[str]:
    """Yield the name of a topic that is there until the end of the block."""
    from parley.client import Client, NewTopic

    assert isinstance(client, Client)
    topic = f"turn-{time.time_ns()}"
    client.create_topics([NewTopic(topic, PARTITIONS, 1)])
    try:
        yield topic
    finally:
        client.delete_topics([topic])


def timed(repeat: int, work: Callable[[], object]) -> list[float]:
    """Return the seconds of each call but the first."""
    seconds = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


MEASURED: dict[str, Callable[[str, int], Times]] = {
    "read": read,
    "write": write,
    "leader-moves": leader_moves,
    "spark": spark,
}

if __name__ == "__main__":
    main()
