"""An embedded cluster in a process of its own, commanded over stdin: `python -m
benchmarks.moving_cluster 4.3`.

Prints its bootstrap servers. Then each line is answered by one of JSON: `move` moves the leader of
partition 0 and gives the moment (CLOCK_MONOTONIC, one for the machine); `moves N PERIOD_MS` moves
it again and again; `requests` counts the Metadata requests since it was asked last.
"""

from __future__ import annotations

import json
import sys
import time

from parley.devcluster import LocalCluster

TOPIC = "moves"


def main() -> None:
    with LocalCluster(brokers=3, release=sys.argv[1]) as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
        print(json.dumps({"bootstrap": cluster.bootstrap_servers}), flush=True)
        for line in sys.stdin:
            command, *numbers = line.split()
            print(json.dumps(act(cluster, command, *map(int, numbers))), flush=True)


def act(cluster: LocalCluster, command: str, *numbers: int) -> dict[str, float]:
    if command == "move":
        return {"at": move(cluster)}
    if command == "moves":
        count, period_ms = numbers
        begun = time.monotonic()
        for turn in range(count):
            time.sleep(max(0.0, begun + turn * period_ms / 1000 - time.monotonic()))
            move(cluster)
        return {"moves": count, "seconds": time.monotonic() - begun}
    asked = len(cluster.requests("Metadata"))
    cluster.clear_requests()
    return {"metadata": asked}


def move(cluster: LocalCluster) -> float:
    leader, _ = cluster.leaders(TOPIC)[0]
    cluster.move_leader(TOPIC, 0, leader % 3 + 1)
    return time.monotonic()


if __name__ == "__main__":
    main()
