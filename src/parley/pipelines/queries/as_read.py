"""Queries that compute nothing: records go from topics into a table as Arrow batches, of which
Spark makes no rows (`parley.spark.values.arrow_batches`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parley.errors import ConfigError
from parley.pipelines.queries.options import DELTA, ICEBERG, QueryOptions
from parley.spark.values.arrow_batches import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.types import StructType

FIELDS = "value.*"
_ONLY_COLUMNS = re.compile(
    r"select\s+(\*|(?:value\.\*|\w+)(?:\s*,\s*(?:value\.\*|\w+))*)\s+from\s+input",
    re.ASCII | re.IGNORECASE,
)
_NAME = re.compile(r"\w+")
_REPORT = "parley"
"""Under which Spark reports the records of batches."""


def batch_options(options: QueryOptions, columns: StructType) -> dict[str, str] | None:
    """Return options of the source that yield Arrow batches with the columns that a query selects;
    None where Spark has something to do with rows. `columns` are those of the source.
    """
    found = _ONLY_COLUMNS.fullmatch(options.sql.strip())
    is_changed = options.transform is not None or options.watermark is not None
    if found is None or is_changed or options.sink.format not in (DELTA, ICEBERG):
        return None
    if found[1] == "*":
        return {"arrowBatches": "true"}
    names = [name.strip() for name in found[1].split(",")]
    more = {}
    if FIELDS in names:
        flat = _flat(columns)
        if flat is None:
            return None
        fields = columns["value"].dataType.names
        names = [one for name in names for one in (fields if name == FIELDS else [name])]
        columns, more = flat, {"envelope": "flat"}
    is_clear = len(set(names)) == len(names) and all(_NAME.fullmatch(name) for name in names)
    if not is_clear or not set(names) <= set(columns.names):
        return None
    return {"arrowBatches": "true", "columns": ",".join(names), **more}


def _flat(columns: StructType) -> StructType | None:
    """Return columns with values' fields among them; None where there are none, or one is called as
    a column of records is.
    """
    from parley.spark.values.envelopes import flat_schema

    if "value" not in columns.names:
        return None
    try:
        return flat_schema(columns)
    except ConfigError:
        return None


def counted(batches: DataFrame) -> DataFrame:
    """Return Arrow batches whose records Spark reports; by itself it counts batches."""
    from pyspark.sql import functions as f

    return batches.observe(_REPORT, f.sum(RECORDS).alias(RECORDS))


def records_in(progress: StreamingQueryProgress) -> int:
    """Return how many records a micro-batch had, by Spark's report of it."""
    found = progress["observedMetrics"].get(_REPORT)
    return int(progress["numInputRows"] if found is None else found[RECORDS] or 0)
