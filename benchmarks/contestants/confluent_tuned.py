"""confluent-kafka with the one setting that made it fastest here; larger
queues and fetches did not.
"""

from __future__ import annotations

from benchmarks.contestants import Job, run
from benchmarks.contestants.confluent import read


def read_tuned(job: Job) -> int:
    return read(job, **{"fetch.queue.backoff.ms": 1})


if __name__ == "__main__":
    run(read_tuned)
