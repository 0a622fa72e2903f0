"""kafka-python: `poll()`."""

from __future__ import annotations

from kafka import KafkaConsumer, TopicPartition

from benchmarks.contestants import Job, run


def read(job: Job) -> int:
    consumer = KafkaConsumer(
        bootstrap_servers=job.bootstrap, enable_auto_commit=False, group_id=None
    )
    partitions = [TopicPartition(job.topic, p) for p in range(job.partitions)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    rows = 0
    while rows < job.records:
        found = consumer.poll(timeout_ms=10_000, max_records=10_000)
        rows += sum(len(records) for records in found.values())
    job.finish()
    consumer.close()
    return rows


if __name__ == "__main__":
    run(read)
