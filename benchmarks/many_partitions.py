"""An embedded cluster with one topic of many partitions, a record in each: `python -m
benchmarks.many_partitions N`.

Prints its bootstrap servers as JSON and serves until its standard input ends.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from parley.client import Client
from parley.devcluster import LocalCluster

TOPIC = "many"


def main() -> None:
    partitions = int(sys.argv[1])
    with LocalCluster(brokers=3, release="3.9") as cluster:
        cluster.create_topic(TOPIC, partitions=partitions, replication_factor=1)
        rows = {"value": [b"x"] * partitions, "partition": pa.array(range(partitions), pa.int32())}
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce(TOPIC, pa.record_batch(rows))
        print(json.dumps({"bootstrap": cluster.bootstrap_servers}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
