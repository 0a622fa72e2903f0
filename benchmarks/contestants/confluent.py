"""confluent-kafka with its defaults: `consume()`; the messages are not looked at.

A consumer that is faster than its application waits here: when 100,000 messages of a partition are
queued, librdkafka asks for more only after `fetch.queue.backoff.ms`, a second by default.
"""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks.contestants import Job, run

BATCH = 1_000
"""1,000 messages per call were faster than 10,000 and 100,000."""


def read(job: Job, **settings: str | int) -> int:
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.assign([TopicPartition(job.topic, p, OFFSET_BEGINNING) for p in range(job.partitions)])
    rows = 0
    while rows < job.records:
        for message in consumer.consume(BATCH, timeout=10):
            if message.error() is not None:
                raise SystemExit(str(message.error()))
            rows += 1
    job.finish()
    consumer.close()
    return rows


if __name__ == "__main__":
    run(read)
