"""parley: Arrow record batches with all columns (key, value, offset, timestamp, its type, headers), CRC checked."""

from __future__ import annotations

from benchmarks.contestants import Job, run
from parley import BlockingClient, TopicPartition


def read(job: Job) -> int:
    with BlockingClient(bootstrap_servers=job.bootstrap) as client:
        partitions = [TopicPartition(job.topic, p) for p in range(job.partitions)]
        ends = client.list_offsets(dict.fromkeys(partitions, "latest"))
        ranges = {tp: (0, ends[tp].offset) for tp in partitions}
        rows = 0
        for _, batch in client.fetch_many(ranges):
            rows += batch.num_rows
        return rows


if __name__ == "__main__":
    run(read)
