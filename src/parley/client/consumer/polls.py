"""What polls of a consumer may be asked for."""

from __future__ import annotations

from collections.abc import Collection

from parley.client.options import arguments
from parley.types import TopicPartition

MOST_RECORDS = 2**31 - 1
"""What `getmany` returns at most where nothing is said."""


def named(partitions: Collection[TopicPartition]) -> frozenset[TopicPartition] | None:
    """Return the partitions that a poll names, None for all. Raises ConfigError for another
    value.
    """
    return frozenset(map(arguments.partition, partitions)) if partitions else None


def check_getmany(timeout_ms: object, max_records: object) -> None:
    """Raise ConfigError for what `getmany` cannot wait or count by."""
    arguments.number("timeout_ms", timeout_ms, 0, arguments.INT32)
    if max_records is not None:
        arguments.number("max_records", max_records, 1, arguments.INT32)
