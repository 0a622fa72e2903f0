"""Found by Spark: modules named `pyspark_*` with a `DefaultSource` are data
sources without registration.
"""

from parley.spark.lakes.source import IcebergSink

__all__ = ["DefaultSource"]


class DefaultSource(IcebergSink):
    """`format("parley-iceberg")`."""
