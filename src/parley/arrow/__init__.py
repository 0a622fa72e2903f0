"""Arrow at the edges: the schemas, decoded columns as RecordBatches, RecordBatches for producing.

Map: `schema` has the columns; `build` makes batches of what is read, `parse` takes those that are
written apart; `digests` has hashes of records.
"""

from parley.arrow.build import one_int32, to_record_batch, to_spark_batch, valid_utf8, want_for
from parley.arrow.digests import to_digest_batch
from parley.arrow.parse import ProduceColumns, columns_from_arrow
from parley.arrow.schema import HEADERS_TYPE, RECORD_SCHEMA, SPARK_COLUMNS, spark_schema

__all__ = [
    "HEADERS_TYPE",
    "RECORD_SCHEMA",
    "SPARK_COLUMNS",
    "ProduceColumns",
    "columns_from_arrow",
    "one_int32",
    "spark_schema",
    "to_digest_batch",
    "to_record_batch",
    "to_spark_batch",
    "valid_utf8",
    "want_for",
]
