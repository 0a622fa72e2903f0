"""A query's rows as Spark makes them: read, changed, and as the sink wants them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from parley.errors import ConfigError
from parley.pipelines.queries.as_read import batch_options, counted
from parley.pipelines.queries.failures import clearest_line, failure_text
from parley.pipelines.queries.options import AVAILABLE_NOW, TOPIC, QueryOptions, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

INPUT = "input"
RECORDS_OWN = ("topic", "partition", "headers", "timestamp")
"""Columns that are a record's own, beside key and value."""


def rows_of(session: SparkSession, options: QueryOptions) -> DataFrame:
    """Return the rows that a query writes. Asks the schema registry; reads no record.

    Where nothing is computed on their way into a table, they are Arrow batches of many records.
    Raises ConfigError for SQL that Spark cannot analyse, and for a transform that is not there or
    fails.
    """
    reader = session.readStream.format("parley").options(**options.source_options())
    rows = reader.load()
    batches = batch_options(options, rows.schema)
    if batches is not None:
        return counted(reader.options(**batches).load())
    if options.watermark is not None:
        rows = rows.withWatermark(*options.watermark)
    if options.transform is not None:
        rows = _transformed(rows, options.transform, options.modules)
    rows.createOrReplaceTempView(INPUT)
    rows = _analysed("sql", lambda: session.sql(options.sql))
    return _analysed("key", lambda: _for_sink(rows, options.sink))


def check_output_mode(rows: DataFrame, mode: str) -> None:
    """Raise ConfigError where Spark cannot write these rows in a mode, as it would when the query
    starts.
    """
    from pyspark.errors import AnalysisException

    spark = rows.sparkSession._jvm.org.apache.spark.sql
    wanted = getattr(spark.streaming.OutputMode, mode.capitalize())()
    check = spark.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming
    try:
        check(rows._jdf.queryExecution().analyzed(), wanted)
    except AnalysisException as error:
        said = " ".join(str(error).split("SQLSTATE")[0].split())
        raise ConfigError(
            f'output-mode="{mode}" cannot be used: {said} An aggregate needs "complete", or a '
            'window and a watermark; other rows need "append"'
        ) from None
    except TypeError:  # a Spark that keeps the check elsewhere says it when the query starts
        return


def writer_of(rows: DataFrame, options: QueryOptions) -> DataStreamWriter:
    """Return what starts the query."""
    writer = rows.writeStream.queryName(options.name).format(options.sink.format)
    writer = writer.outputMode(options.output_mode).options(**options.sink_options())
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=options.trigger or "0 seconds")


def _for_sink(rows: DataFrame, sink: Sink) -> DataFrame:
    """Return rows with a record's columns: without a `value`, all others are fields of it."""
    from pyspark.sql import functions as f

    if sink.format != TOPIC:
        return rows
    made = []
    if sink.key is not None:
        made.append(f.expr(sink.key).alias("key"))
    elif "key" in rows.columns:
        made.append(f.col("key"))
    made += [f.col(name) for name in RECORDS_OWN if name in rows.columns]
    if "value" in rows.columns:
        return rows.select(*made, "value")
    fields = [f.col(f"`{name}`") for name in rows.columns if name not in ("key", *RECORDS_OWN)]
    return rows.select(*made, f.struct(*fields).alias("value"))


def _analysed(what: str, work: Callable[[], DataFrame]) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException

    try:
        return work()
    except (AnalysisException, ParseException) as error:
        text = " ".join(str(error).split(";")[0].split())
        raise ConfigError(f"Spark cannot make rows of {what}: {text}") from None


def _transformed(rows: DataFrame, name: str, modules: Path) -> DataFrame:
    from pyspark.sql import DataFrame

    module, function = name.split(":")
    made = getattr(_module(module, modules), function, None)
    if made is None:
        raise ConfigError(f'transform="{name}": the module has no function "{function}"')
    try:
        found = made(rows)
    except Exception as error:
        raise ConfigError(
            f'transform="{name}" failed: {clearest_line(failure_text(error))}'
        ) from error
    if not isinstance(found, DataFrame):
        raise ConfigError(f'transform="{name}" returned {type(found).__name__}, not a DataFrame')
    return found


def _module(name: str, folder: Path) -> ModuleType:
    """Return a module, of the file's folder too. What Spark's workers call of it goes to them."""
    from pyspark.cloudpickle import register_pickle_by_value

    sys.path.insert(0, str(folder.resolve()))
    try:
        found = importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f'transform: the module "{name}" cannot be imported: {error}') from error
    finally:
        sys.path.remove(str(folder.resolve()))
    if Path(found.__file__ or "").is_relative_to(folder.resolve()):
        register_pickle_by_value(found)
    return found
