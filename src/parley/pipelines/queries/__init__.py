"""Streaming queries as jobs: Spark reads topics with `format("parley")`, and writes a topic or a
table, exactly once.

Map: `options` is what to do; `frames` makes Spark's rows of it, in a `session`, or Arrow batches
where `as_read` finds nothing to compute; `following` watches the query, `failures` says what it
failed with; `checkpoint` knows how far it is, without Spark. `query` puts them together.
"""

from __future__ import annotations

from parley.pipelines.queries.options import (
    APPEND,
    COMPLETE,
    DELTA,
    ICEBERG,
    ISOLATION,
    TOPIC,
    QueryOptions,
    Sink,
)
from parley.pipelines.queries.query import LATER, AsyncQuery, QueryPlan
from parley.pipelines.queries.session import SharedSession

__all__ = [
    "APPEND",
    "COMPLETE",
    "DELTA",
    "ICEBERG",
    "ISOLATION",
    "LATER",
    "TOPIC",
    "AsyncQuery",
    "QueryOptions",
    "QueryPlan",
    "SharedSession",
    "Sink",
]
