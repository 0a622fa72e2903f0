"""Found by Spark: modules named `pyspark_*` with a `DefaultSource` are data
sources without registration.
"""

from parley.spark.source import ParleySource

__all__ = ["DefaultSource"]


class DefaultSource(ParleySource):
    """`format("parley")`."""
