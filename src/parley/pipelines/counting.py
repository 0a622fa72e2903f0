"""Reads back what the job wrote: the Parquet table by pyarrow, the aggregates as consumer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds

from parley.client import LATEST, Client
from parley.types import TopicPartition


def table_batches(table: Path) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (row ids, checksums) of all rows in a folder's Parquet files, without Spark."""
    dataset = ds.dataset(table, format="parquet", exclude_invalid_files=False)
    for batch in dataset.to_batches(columns=["row_id", "value_crc32"]):
        yield batch.column(0).to_pylist(), batch.column(1).to_pylist()


def count_files(table: Path) -> int:
    """Return the number of Parquet files under a folder."""
    return sum(1 for _ in table.rglob("*.parquet"))


def topic_records(client: Client, topic: str) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield (key, value) of a topic's records, by partition in the order of offsets."""
    partitions = [
        TopicPartition(topic, index) for index in client.metadata([topic]).topics[topic].partitions
    ]
    ends = client.list_offsets(dict.fromkeys(partitions, LATEST))
    for partition in partitions:
        if ends[partition].offset <= 0:
            continue
        for batch in client.fetch(partition, 0, ends[partition].offset):
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            yield from zip(keys, values, strict=True)
