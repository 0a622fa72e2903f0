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
    import pyarrow
    from pyspark.sql.types import StructType

    from parley.spark.options.schemas import TypedOptions
    from parley.spark.options.source import SourceOptions
    from parley.spark.options.subscription import Subscription
    from parley.spark.options.texts import GivenOptions
    from parley.spark.read.typed import Readers

FORMAT = "parley"


class ParleySource(DataSource):  # type: ignore[misc]  # pyspark comes without types
    """Kafka topics as a Spark source and sink: Spark's own options and columns, without JARs.

    Made by Spark. Errors in options are ConfigErrors that name the option, the value and the
    remedy.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._readers: Readers | None = None
        """The readers' schemas of keys and values, since `schema` has asked for them. Spark pickles
        this object afterwards, so that what reads has the very same.
        """
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
        """Return a read's columns, without a user's schema. Checks options that need no broker.

        Asks the schema registry for keys and values that are to be decoded.
        """
        from parley.spark.options.table import ARROW_BATCHES, COLUMNS, INCLUDE_HEADERS
        from parley.spark.options.texts import Use, read_options
        from parley.spark.tables import is_table, schema_of_table
        from parley.spark.values.schema import read_schema, read_schema_ddl, selected

        given = read_options(self.options, Use.BATCH_READ)
        names, as_batches = given[COLUMNS], given[ARROW_BATCHES]
        found = self._typed_schema(given)
        if found is None and not names and not as_batches and not is_table(self.options):
            return read_schema_ddl(given[INCLUDE_HEADERS])
        found = found or read_schema(given[INCLUDE_HEADERS])
        if names:
            found = selected(found, names)
        if as_batches:
            from parley.spark.values.arrow_batches import batches_schema

            found = batches_schema(found)
        if not is_table(self.options):
            return found
        # a table's columns are kept, so the schemas that they come from are as well
        pinned = {
            f"{part}schema": one.named
            for part, one in (self._readers or {}).items()
            if one.named is not None
        }
        return schema_of_table(found, {**self.options, **pinned})

    def _typed_schema(self, given: GivenOptions) -> StructType | None:
        """Return the columns of a read that decodes keys or values; None for one that does not."""
        from parley.spark.options.schemas import read_schema_options, read_typed_options

        if read_schema_options(given) is None:
            return None
        from parley.spark.options.subscription import read_subscription

        subscription = read_subscription(given)
        typed = read_typed_options(given, subscription)
        assert typed is not None  # there are options of schemas
        from parley.spark.options.schema_table import NULL
        from parley.spark.options.table import INCLUDE_HEADERS
        from parley.spark.read.typed import column_types
        from parley.spark.values.schema import read_schema

        self._readers = self._choose_readers(typed, subscription)
        types = column_types(typed, self._readers)
        found = read_schema(given[INCLUDE_HEADERS], types, errors=typed.on_error == NULL)
        if not typed.is_flat:
            return found
        from parley.spark.values.envelopes import flat_schema

        return flat_schema(found)

    def _choose_readers(self, typed: TypedOptions, subscription: Subscription) -> Readers:
        """Return the readers' schemas: those of the stream's checkpoint, if it has any."""
        from parley.spark.read.typed import choose_readers
        from parley.spark.stream.schemas import kept_in_checkpoint

        location = next(
            (text for name, text in self.options.items() if name.lower() == "checkpointlocation"),
            None,
        )
        return choose_readers(typed, kept_in_checkpoint(location, typed, subscription))

    def _settled(
        self, options: SourceOptions, schema: StructType
    ) -> tuple[SourceOptions, pyarrow.Schema, Readers | None]:
        """Return what a reader of these columns needs to know."""
        from parley.spark.options.table import ARROW_BATCHES, COLUMNS
        from parley.spark.values.schema import arrow_read_schema, check_selected

        if options.own[ARROW_BATCHES]:
            from parley.spark.values.arrow_batches import columns_of_batches

            schema = columns_of_batches(schema)
        check_selected(schema, options.own[COLUMNS])
        if options.typed is None:
            return options, arrow_read_schema(schema), None
        from dataclasses import replace

        from parley.spark.read.typed import settle

        readers = self._readers or self._choose_readers(options.typed, options.subscription)
        typed, arrow_schema = settle(options.typed, readers, schema)
        return replace(options, typed=typed), arrow_schema, readers

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

        given = options_of_read(self.options, schema, Use.BATCH_READ)
        options = read_source_options(given, Use.BATCH_READ)
        # Spark refuses a reader with pushFilters unless its setting
        # allows push-down, and does not say which it is; but only with
        # the setting on does this module of Spark's ask for a reader.
        asks = sys._getframe(2).f_globals.get("__name__")
        hands_some = asks == "pyspark.sql.worker.data_source_pushdown_filters"
        filters = options.own[PUSH_FILTERS] and hands_some
        reader = FilteringReader if filters else BatchReader
        return reader(*self._settled(options, schema))

    @edge
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream. Cheap: nothing is opened before Spark asks for offsets."""
        from parley.spark.options.source import read_source_options
        from parley.spark.options.texts import Use
        from parley.spark.stream.reader import StreamReader
        from parley.spark.tables import options_of_read

        given = options_of_read(self.options, schema, Use.STREAM_READ)
        options = read_source_options(given, Use.STREAM_READ)
        return StreamReader(*self._settled(options, schema))

    @edge
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch. Raises ConfigError for mode "overwrite": a
        topic is only ever added to.
        """
        from parley.errors import ConfigError
        from parley.spark.options.texts import Use
        from parley.spark.tables import options_of_write
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
        given = options_of_write(self.options, schema)
        options = read_sink_options(given, Use.BATCH_WRITE)
        columns = columns_to_write(schema, options)
        if options.transactions is None:
            rows = BatchWriter(options, columns)
            rows.encode_as(schema)
            return rows
        writer = TransactionalBatchWriter(options, columns)
        writer.encode_as(schema)
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
        # Spark asks for a writer when it plans a micro-batch and again when it commits; only the
        # first is to take the query over, and to ask for schemas. Where the module's name does not
        # say, the writer plans when it is pickled.
        asks = sys._getframe(2).f_globals.get("__name__")
        commits = asks == "pyspark.sql.worker.python_streaming_sink_runner"
        if options.transactions is None:
            rows = StreamWriter(options, columns)
            if not commits:
                rows.encode_as(schema)
            return rows
        writer = TransactionalStreamWriter(options, columns)
        if not commits:
            writer.encode_as(schema)
        if asks == "pyspark.sql.worker.write_into_data_source":
            writer.plan()
        return writer


def _settle_memory() -> None:
    from parley.spark.worker_memory import settle_memory

    settle_memory()
