"""Found by Spark: modules named `pyspark_*` with a `DefaultSource` are data
sources without registration.
"""

from parley.spark.lakes.source import DeltaSink

__all__ = ["DefaultSource"]


class DefaultSource(DeltaSink):
    """`format("parley-delta")`."""
