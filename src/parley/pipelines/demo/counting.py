"""Reads back what the job wrote: the Delta table without Spark, the aggregates as consumer."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from parley.client import LATEST, Client, FetchOptions
from parley.pipelines.demo.feed import Encode, checksums, row_type
from parley.pipelines.demo.inputs import ROW_ID, Dataset
from parley.pipelines.replication.clusters import partitions_of
from parley.types import TopicPartition

COMMITTED = FetchOptions(isolation_level="read_committed")


def table_batches(
    table: Path, dataset: Dataset, encode: Encode
) -> Iterator[tuple[list[int], array[int]]]:
    """Yield (row ids, checksums) of all rows of a Delta table: checksums of the records that the
    rows would be.
    """
    from deltalake import DeltaTable

    fields = list(row_type(dataset))
    names = [field.name for field in fields]
    for batch in DeltaTable(table).to_pyarrow_dataset().to_batches(columns=names):
        columns = [batch.column(field.name).cast(field.type) for field in fields]
        rows = pa.StructArray.from_arrays(columns, fields=fields)
        yield batch.column(ROW_ID).to_pylist(), checksums(encode(rows))


def table_text(table: Path) -> str:
    """Return what a Delta table is in words."""
    from deltalake import DeltaTable

    found = DeltaTable(table)
    by = ", ".join(found.metadata().partition_columns)
    return f"Delta, version {found.version()}, {len(found.file_uris())} files by {by}"


def record_count(client: Client, topic: str) -> int:
    """Return the records of a topic that was only appended to, without transactions."""
    return sum(_ends(client, topic).values())


def topic_records(client: Client, topic: str) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield (key, value) of a topic's committed records, by partition in the order of offsets."""
    for partition, end in _ends(client, topic).items():
        if end <= 0:
            continue
        for batch in client.fetch(partition, 0, end, COMMITTED):
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            yield from zip(keys, values, strict=True)


def _ends(client: Client, topic: str) -> dict[TopicPartition, int]:
    partitions = partitions_of(client.metadata([topic]), [topic])
    ends = client.list_offsets(dict.fromkeys(partitions, LATEST))
    return {partition: ends[partition].offset for partition in partitions}
