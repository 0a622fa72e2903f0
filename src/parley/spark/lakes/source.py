"""`format("parley-delta")` and `format("parley-iceberg")`: the classes that Spark finds, and
nothing that is dear to import.

Every Spark planner process imports this module, as it does `parley.spark.source`.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
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

    from parley.spark.lakes.options import LakeOptions
    from parley.spark.options.row import Use

DELTA_FORMAT = "parley-delta"
ICEBERG_FORMAT = "parley-iceberg"
_PLANS = "pyspark.sql.worker.write_into_data_source"
"""Who asks for a writer to plan a micro-batch; another module does to commit it."""


class _LakeSink(DataSource):  # type: ignore[misc]  # pyspark comes without types
    """A table as a Spark sink, batch and stream, without JARs. It writes only."""

    _FORMAT = ""
    _READERS = ""
    """Who reads such a table."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`. That of the lake itself belongs to its own JAR."""
        return cls._FORMAT

    @edge
    def schema(self) -> StructType | str:
        """Raise ConfigError: only a read asks for columns."""
        raise self._no_reader()

    @edge
    def reader(self, schema: StructType) -> DataSourceReader:
        """Raise ConfigError: a table is read by others."""
        raise self._no_reader()

    @edge
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Raise ConfigError: a table is read by others."""
        raise self._no_reader()

    @edge
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch, which has looked at the table."""
        from parley.spark.lakes.writer import LakeBatchWriter
        from parley.spark.options.row import Use

        writer = LakeBatchWriter(self._read(Use.BATCH_WRITE), schema, overwrite)
        writer.plan()
        return writer

    @edge
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a micro-batch. Output mode complete replaces the table's rows."""
        from parley.spark.lakes.writer import LakeStreamWriter
        from parley.spark.options.row import Use

        writer = LakeStreamWriter(self._read(Use.STREAM_WRITE), schema, overwrite)
        # Where the module's name does not say what Spark wants, the writer plans when it is
        # pickled: only what goes to tasks is.
        if sys._getframe(2).f_globals.get("__name__") == _PLANS:
            writer.plan()
        return writer

    @abstractmethod
    def _read(self, use: Use) -> LakeOptions:
        """Return what the user gave; each lake has options of its own."""

    def _no_reader(self) -> Exception:
        from parley.errors import ConfigError

        return ConfigError(f'format("{self._FORMAT}") only writes. Read the table {self._READERS}')


class DeltaSink(_LakeSink):
    """A Delta table as a Spark sink, batch and stream, without JARs. It writes only.

    Made by Spark. Errors in options are ConfigErrors that name the option, the value and the
    remedy.
    """

    _FORMAT = DELTA_FORMAT
    _READERS = (
        "with deltalake (DeltaTable(path).to_pyarrow_dataset()), DuckDB or Polars, or with Delta's "
        'own format("delta") where its JARs are.'
    )

    def _read(self, use: Use) -> LakeOptions:
        from parley.spark.lakes.options import read_lake_options

        return read_lake_options(self.options, use)


class IcebergSink(_LakeSink):
    """An Iceberg table as a Spark sink, batch and stream, without JARs. It writes only.

    Made by Spark. Errors in options are ConfigErrors that name the option, the value and the
    remedy.
    """

    _FORMAT = ICEBERG_FORMAT
    _READERS = (
        "with pyiceberg (catalog.load_table(name).scan().to_arrow()), DuckDB, Polars or Trino, or "
        'with Iceberg\'s own format("iceberg") where its JAR is.'
    )

    def _read(self, use: Use) -> LakeOptions:
        from parley.spark.lakes.iceberg_options import read_iceberg_options

        return read_iceberg_options(self.options, use)
