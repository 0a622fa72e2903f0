"""Print, as one JSON line, how long a Metadata answer
of 10,000 partitions takes in a fresh interpreter.

1,000 topics of 10 partitions, three replicas each, as brokers from 4.0 on send them. `decode` is
bytes → message; `apply` reads the message into plain values and gives them to a cache, an empty one
and then one that knows them (`refresh`). In milliseconds of CPU time: what else the machine does is
not counted, garbage collections are. The first call comes first, which compiles the decoder.
"""

from __future__ import annotations

import json
import time

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.view import read_metadata
from parley.messages import MetadataResponse, decode_body, encode_body

VERSION = 13
TOPICS, PARTITIONS, REPLICAS = 1_000, 10, [1, 2, 3]
CALLS = 15


def main() -> None:
    data = make_answer()
    times: dict[str, list[float]] = {"decode": [], "apply": [], "refresh": []}
    for _ in range(CALLS):
        cache = MetadataCache()
        begun = time.process_time()
        message = decode_body(MetadataResponse, VERSION, data)
        decoded = time.process_time()
        cache.apply(read_metadata(message, VERSION), full=True)
        applied = time.process_time()
        cache.apply(read_metadata(message, VERSION), full=True)
        refreshed = time.process_time()
        marks = (begun, decoded, applied, refreshed)
        for what, before, after in zip(times, marks, marks[1:], strict=False):
            times[what].append((after - before) * 1000)
    print(json.dumps(times))


def make_answer() -> bytes:
    """Return the body of the answer."""
    make = MetadataResponse
    partitions = [
        make.MetadataResponsePartition(
            partition_index=index,
            leader_id=1,
            leader_epoch=5,
            replica_nodes=REPLICAS,
            isr_nodes=REPLICAS,
        )
        for index in range(PARTITIONS)
    ]
    topics = [
        make.MetadataResponseTopic(
            name=f"t{number}", topic_id=number.to_bytes(16, "big"), partitions=partitions
        )
        for number in range(1, TOPICS + 1)
    ]
    brokers = [
        make.MetadataResponseBroker(node_id=number, host="localhost", port=9092)
        for number in REPLICAS
    ]
    return b"".join(
        bytes(part)
        for part in encode_body(make(brokers=brokers, topics=topics, controller_id=1), VERSION)
    )


if __name__ == "__main__":
    main()
