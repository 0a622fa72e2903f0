"""parley: Arrow record batches with all columns (key, value, offset, timestamp, its
type, headers), CRC checked.
"""

from __future__ import annotations

from benchmarks.contestants import Job, run
from parley import EARLIEST, LATEST, Client, TopicPartition


def read(job: Job) -> int:
    with Client(bootstrap_servers=job.bootstrap) as client:
        ranges = {TopicPartition(job.topic, p): (EARLIEST, LATEST) for p in range(job.partitions)}
        rows = sum(found.batch.num_rows for found in client.fetch_many(ranges))
        job.finish()
        return rows


if __name__ == "__main__":
    run(read)
