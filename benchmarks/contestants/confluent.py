"""confluent-kafka: `consume()` in the batches it likes best; the messages are not looked at."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks.contestants import Job, run


def read(job: Job) -> int:
    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(job.topic, p, OFFSET_BEGINNING) for p in range(job.partitions)])
    rows = 0
    while rows < job.records:
        for message in consumer.consume(10_000, timeout=10):
            if message.error() is not None:
                raise SystemExit(str(message.error()))
            rows += 1
    job.finish()
    consumer.close()
    return rows


if __name__ == "__main__":
    run(read)
