"""Timestamps that Spark cannot hold: the record is named, instead of a time that it never had.

Kafka keeps milliseconds in 64 bits, Spark microseconds. A producer that wrote microseconds or
nanoseconds where milliseconds belong made times that may not fit; the kernel brings them to the
nearest that does, which is no multiple of 1000 and therefore no time of a record. Spark's own
source fails in the same place, since 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from parley.errors import ConfigError

LARGEST_MS = (2**63 - 1) // 1000
"""The last millisecond, and with a minus the first one, that Spark's TimestampType holds."""
_ENDS = (-(2**63), 2**63 - 1)


def has_overflow(batch: pa.RecordBatch) -> bool:
    """Return whether a batch in microseconds holds a timestamp that did not fit. Looks
    at the column as a whole.
    """
    if "timestamp" not in batch.schema.names or not batch.num_rows:
        return False
    found = pc.min_max(batch.column("timestamp").view(pa.int64()))
    return bool(found["min"].as_py() == _ENDS[0] or found["max"].as_py() == _ENDS[1])


def overflow_error(where: str, batches: Iterable[pa.RecordBatch]) -> ConfigError:
    """Return the error for the first record whose timestamp does not fit.

    `batches` have the columns offset and timestamp, in milliseconds as Kafka has them.
    """
    which = ""
    for batch in batches:
        times = batch.column("timestamp").view(pa.int64())
        outside = pc.or_(pc.greater(times, LARGEST_MS), pc.less(times, -LARGEST_MS))
        row = pc.index(outside, True).as_py()
        if row >= 0:
            which = (
                f"at offset {batch.column('offset')[row]} has the timestamp {times[row]} ms, which"
            )
            break
    return ConfigError(
        f"KAFKA_MALFORMED_RECORD_TIMESTAMP: a record of {where} {which or 'has a timestamp that'} "
        "does not fit into Spark's microseconds. Kafka's timestamps are milliseconds since 1970: "
        "its producer seems to write microseconds or nanoseconds. Correct the producer; to read "
        'what is there, leave the column out: .schema("key binary, value binary, offset bigint").'
    )
