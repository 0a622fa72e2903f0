"""An embedded cluster with many partitions, a record in each: `python -m
benchmarks.many_partitions N`.

They are those of one topic, or of several with as many as a broker creates at once. Prints its
bootstrap servers and the topics as JSON, and serves until its standard input ends.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from parley.client import Client
from parley.devcluster import LocalCluster

MOST_AT_ONCE = 10_000


def main() -> None:
    partitions = int(sys.argv[1])
    topics = [f"many{number}" for number in range(-(-partitions // MOST_AT_ONCE))]
    with LocalCluster(brokers=3, release="3.9") as cluster:
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            for topic in topics:
                count = min(partitions, MOST_AT_ONCE)
                cluster.create_topic(topic, partitions=count, replication_factor=1)
                rows = {"value": [b"x"] * count, "partition": pa.array(range(count), pa.int32())}
                client.produce(topic, pa.record_batch(rows))
        ready = {"bootstrap": cluster.bootstrap_servers, "topics": ",".join(topics)}
        print(json.dumps(ready), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
