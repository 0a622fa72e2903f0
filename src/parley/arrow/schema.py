"""The one place for Arrow schemas: the client's, and Spark's (names, types and order differ).

Spark checks that a batch's schema is *exactly* that of its own conversion with timezone UTC,
nullability and field names inside lists included; it takes no dictionary, large or view types.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

HEADERS_TYPE = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                pa.field("key", pa.string(), nullable=True),
                pa.field("value", pa.binary(), nullable=True),
            ]
        ),
        nullable=True,
    )
)
"""Spark's array<struct<key: string, value: binary>>; the client's batches use the same."""

RECORD_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""What a fetch yields. `timestamp_type`: -1 none (timestamp is then -1 ms), 0 create, 1 append."""

_SPARK_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
SPARK_COLUMNS = tuple(field.name for field in _SPARK_FIELDS)


@cache
def spark_schema(include_headers: bool = False) -> pa.Schema:
    """Return the schema of Spark's own `kafka` source as Arrow has it."""
    return pa.schema(
        _SPARK_FIELDS + ([pa.field("headers", HEADERS_TYPE)] if include_headers else [])
    )
