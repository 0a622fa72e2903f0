"""Read typed values with both sources, alternately: Avro in a registry's frames, and JSON; all
fields, and two of ten. Then Avro into a table, by streaming queries.

Spark's own connector has bytes, of which `from_avro` makes columns once the frame is cut off, and
`from_json` does. parley writes a Delta table, as Arrow batches and as Spark's rows, Spark its
Parquet sink: each exactly once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, functions as f
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from benchmarks.jobs import alternate, arguments_of, noop, options_of, same, session

AVRO, JSON = "typed-avro", "typed-json"
FRAME_BYTES = 5
TWO = ("id", "amount")
BATCHES = 4
ROWS = "parley-rows"
"""parley, with rows that Spark makes on the way."""


class Given(NamedTuple):
    """Where things are."""

    spark: SparkSession
    bootstrap: str
    rounds: int
    registry: str
    avro_schema: Path
    json_schema: Path


def main() -> None:
    found = arguments_of(_add)
    spark = session(found.jars)
    given = Given(
        spark, found.bootstrap, found.rounds, found.registry,
        Path(found.avro_schema), Path(found.json_schema),
    )  # fmt: skip
    for topic in found.topics:
        _read(given, topic)
        if topic == AVRO:
            _stream(given)
    spark.stop()


def _add(parser: argparse.ArgumentParser) -> None:
    for name in ("--registry", "--avro-schema", "--json-schema"):
        parser.add_argument(name, required=True)


# -- batch reads -----------------------------------------------------------------------------------


def _read(given: Given, topic: str) -> None:
    options = options_of(given.bootstrap, topic)
    typed = given.spark.read.format("parley").options(**options, **_typed(given, topic))
    kind = StructType([typed.load().schema[name] for name in _names(given)])
    theirs = _columns(
        given, topic, given.spark.read.format("kafka").options(**options).load(), kind
    )
    for what, names in (("all", kind.names), ("two", list(TWO))):
        ours = typed.option("columns", ",".join(names)).load()
        frames = {"parley": ours, "spark": theirs.select(*names)}
        works = {source: partial(noop, frame) for source, frame in frames.items()}
        alternate(given.rounds, works, topic=topic, what=what)
        same(topic, frames)


def _typed(given: Given, topic: str) -> dict[str, str]:
    flat = {"envelope": "flat"}
    if topic == AVRO:
        return {**flat, "valueFormat": "avro", "schemaRegistryUrl": given.registry}
    schema = f"file:{given.json_schema}"
    return {**flat, "valueFormat": "json", "valueFraming": "none", "valueSchema": schema}


def _names(given: Given) -> list[str]:
    return [field["name"] for field in json.loads(given.avro_schema.read_text())["fields"]]


def _columns(given: Given, topic: str, records: DataFrame, kind: StructType) -> DataFrame:
    if topic == AVRO:
        datum = f.expr(f"substring(value, {FRAME_BYTES + 1})")
        value = from_avro(datum, given.avro_schema.read_text(), {"mode": "FAILFAST"})
    else:
        value = f.from_json(f.col("value").cast("string"), kind)
    return records.select(value.alias("value")).select("value.*")


# -- a stream into a table -------------------------------------------------------------------------


def _stream(given: Given) -> None:
    """Stream all records into a new table, with each in turn."""
    records = given.spark.read.format("kafka").options(**options_of(given.bootstrap, AVRO)).load()
    most = str(-(-records.count() // BATCHES))
    with tempfile.TemporaryDirectory(prefix="parley-typed-") as folder:
        works: dict[str, Callable[[], object]] = {
            source: partial(_into_table, given, source, Path(folder), most)
            for source in ("parley", ROWS, "spark")
        }
        alternate(given.rounds, works, topic=AVRO, what="table")


def _into_table(given: Given, source: str, folder: Path, most: str) -> None:
    options = options_of(given.bootstrap, AVRO)
    at = folder / f"{source}-{time.time_ns()}"
    stream = given.spark.readStream.options(**options, maxOffsetsPerTrigger=most)
    if source == "spark":
        rows = _columns(given, AVRO, stream.format("kafka").load(), StructType())
    else:
        stream = stream.format("parley").options(**_typed(given, AVRO))
        batches = str(source == "parley").lower()
        rows = stream.options(columns=",".join(_names(given)), arrowBatches=batches).load()
    writer = rows.writeStream.format("parquet" if source == "spark" else "parley-delta")
    query = (
        writer.option("path", str(at / "table"))
        .option("checkpointLocation", str(at / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
