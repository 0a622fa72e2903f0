"""`format("parley")`: the class that Spark finds, and nothing that is dear to import.

Every Spark planner process imports this module: at its top stand the standard library and
pyspark.sql.datasource only (and what is as light), the rest is imported where it is used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from parley.spark.edge import edge

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "parley"


class ParleySource(DataSource):  # type: ignore[misc]  # pyspark comes without types
    """Kafka topics as a Spark source and sink: Spark's own options and columns, without JARs.

    Made by Spark. Errors in options are ConfigErrors that name the option, the value and the
    remedy.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        _settle_memory()

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        _settle_memory()

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`. Spark keeps "kafka" for its own JAR."""
        return FORMAT

    @edge
    def schema(self) -> StructType | str:
        """Return a read's columns, without a user's schema. Checks options that need no broker."""
        from parley.spark.options.table import INCLUDE_HEADERS
        from parley.spark.options.texts import Use, read_options
        from parley.spark.tables import is_table, schema_of_table
        from parley.spark.values.schema import read_schema, read_schema_ddl

        include_headers = read_options(self.options, Use.BATCH_READ)[INCLUDE_HEADERS]
        if is_table(self.options):
            return schema_of_table(read_schema(include_headers), self.options)
        return read_schema_ddl(include_headers)

    @edge
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch; one that takes filters where that is wanted and
        Spark is about to hand some.
        """
        from parley.spark.options.source import read_source_options
        from parley.spark.options.table import PUSH_FILTERS
        from parley.spark.options.texts import Use
        from parley.spark.read.reader import BatchReader, FilteringReader
        from parley.spark.tables import options_of_read
        from parley.spark.values.schema import arrow_read_schema

        options = read_source_options(options_of_read(self.options, schema), Use.BATCH_READ)
        # Spark refuses a reader with pushFilters unless its setting
        # allows push-down, and does not say which it is; but only with
        # the setting on does this module of Spark's ask for a reader.
        asks = sys._getframe(2).f_globals.get("__name__")
        hands_some = asks == "pyspark.sql.worker.data_source_pushdown_filters"
        filters = options.own[PUSH_FILTERS] and hands_some
        return (FilteringReader if filters else BatchReader)(options, arrow_read_schema(schema))

    @edge
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream. Cheap: nothing is opened before Spark asks for offsets."""
        from parley.spark.options.source import read_source_options
        from parley.spark.options.texts import Use
        from parley.spark.stream.reader import StreamReader
        from parley.spark.tables import options_of_read
        from parley.spark.values.schema import arrow_read_schema

        options = read_source_options(options_of_read(self.options, schema), Use.STREAM_READ)
        return StreamReader(options, arrow_read_schema(schema))

    @edge
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch. Raises ConfigError for mode "overwrite": a
        topic is only ever added to.
        """
        from parley.errors import ConfigError
        from parley.spark.options.texts import Use
        from parley.spark.write.options import read_sink_options
        from parley.spark.write.writer import (
            BatchWriter,
            TransactionalBatchWriter,
            columns_to_write,
        )

        if overwrite:
            raise ConfigError(
                'mode "overwrite" cannot be used: rows can only be added to a topic. Use '
                'mode("append").'
            )
        options = read_sink_options(self.options, Use.BATCH_WRITE)
        columns = columns_to_write(schema, options)
        if options.transactions is None:
            return BatchWriter(options, columns)
        writer = TransactionalBatchWriter(options, columns)
        writer.plan()
        return writer

    @edge
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a micro-batch. Output mode complete adds the whole result
        each time, as Spark's own.
        """
        from parley.spark.options.texts import Use
        from parley.spark.write.options import read_sink_options
        from parley.spark.write.writer import (
            StreamWriter,
            TransactionalStreamWriter,
            columns_to_write,
        )

        options = read_sink_options(self.options, Use.STREAM_WRITE)
        columns = columns_to_write(schema, options)
        if options.transactions is None:
            return StreamWriter(options, columns)
        writer = TransactionalStreamWriter(options, columns)
        # Spark asks for a writer when it plans a micro-batch and again when it commits; only the
        # first is to take the query over. Where the module's name does not say, the writer plans
        # when it is pickled.
        if (
            sys._getframe(2).f_globals.get("__name__")
            == "pyspark.sql.worker.write_into_data_source"
        ):
            writer.plan()
        return writer


def _settle_memory() -> None:
    from parley.spark.worker_memory import settle_memory

    settle_memory()
