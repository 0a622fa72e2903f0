"""Typed values in Spark: Avro and JSON columns, and Avro into a table, against Spark's own
connector with `from_avro`, `from_json` and its Parquet sink.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.bench import CONNECTOR, PARTITIONS, SOURCES, Bench, progress, seconds_by
from benchmarks.report import Section, goal, spread, table
from benchmarks.schemas import JSON_SCHEMA, ORDER, row
from parley.client import Client, NewTopic
from parley.devcluster import LocalCluster
from parley.registry import Schema, SchemaRegistryClient
from parley.serdes import ColumnEncoder

AVRO, JSON = "typed-avro", "typed-json"
FROM_AVRO = "org.apache.spark:spark-avro_2.13:4.2.0:-"
FACTORS = {
    (AVRO, "all"): 4.0,
    (AVRO, "two"): 8.0,
    (AVRO, "table"): 2.5,
    (JSON, "all"): 4.0,
}
WHAT = {
    "all": "ten fields",
    "two": "two of ten fields",
    "table": "streamed into a table",
    "rows": "streamed into a table, through Spark's rows",
}
ROWS = "parley-rows"
"""What the job calls parley with rows that Spark makes on the way."""
DIFFERENT = 100_000
"""Rows that are made; they are written again and again."""


class Measured(NamedTuple):
    """(topic, what, source) → seconds of each round."""

    seconds: dict[tuple[str, ...], list[float]]
    records: int


def measure(bench: Bench) -> Measured:
    with LocalCluster(1, schema_registry=True) as beside, tempfile.TemporaryDirectory() as folder:
        registry = beside.schema_registry.url
        avro, texts = Path(folder) / "order.avsc", Path(folder) / "order.json"
        avro.write_text(json.dumps(ORDER))
        texts.write_text(json.dumps(JSON_SCHEMA))
        for topic, batch in _batches(registry):
            _fill(bench, topic, batch)
        facts = bench.spark_job(
            "typed", [AVRO, JSON], "--registry", registry,
            "--avro-schema", str(avro), "--json-schema", str(texts),
            artifacts=(*CONNECTOR, FROM_AVRO),
        )  # fmt: skip
    seconds = seconds_by(facts, "topic", "what", "source")
    seconds[AVRO, "rows", "parley"] = seconds.pop((AVRO, "table", ROWS))
    seconds[AVRO, "rows", "spark"] = seconds[AVRO, "table", "spark"]
    return Measured(seconds, bench.records)


def _batches(registry: str) -> Iterator[tuple[str, pa.Table]]:
    rows = [row(number) for number in range(DIFFERENT)]
    encoder = ColumnEncoder(
        SchemaRegistryClient(registry), f"{AVRO}-value", Schema(json.dumps(ORDER)),
        auto_register_schemas=True,
    )  # fmt: skip
    encoder.prepare()
    kind = pa.array(rows).type
    at = kind.get_field_index("at")
    fields = [kind.field(index) for index in range(kind.num_fields)]
    fields[at] = fields[at].with_type(pa.timestamp("ms", "UTC"))
    yield AVRO, encoder.encode(pa.table({"value": pa.array(rows, pa.struct(fields))}))
    texts = [json.dumps({**one, "at": "2026-11-03T04:05:06.789Z"}) for one in rows]
    yield JSON, pa.table({"value": texts})


def _fill(bench: Bench, topic: str, batch: pa.Table) -> None:
    progress(f"filling {topic} with {bench.records:,} records")
    with Client(bootstrap_servers=bench.bootstrap_servers) as client:
        if topic in client.metadata().topics:
            return
        client.create_topics([NewTopic(topic, PARTITIONS)])
        left = bench.records
        while left > 0:
            client.produce(topic, batch.slice(0, left))
            left -= len(batch)


def report(found: Measured) -> Section:
    goals, rows = [], []
    for topic, what in dict.fromkeys(key[:2] for key in found.seconds):
        both = [found.seconds[topic, what, source] for source in SOURCES]
        ours, theirs = (statistics.median(seconds) for seconds in both)
        name = f"{topic.removeprefix('typed-')}, {WHAT[what]}"
        rates = [f"{found.records / seconds / 1e6:.2f}" for seconds in (ours, theirs)]
        rows.append([name, *rates, f"{theirs / ours:.2f} ×", spread(*both)])
        wanted = FACTORS.get((topic, what))
        if wanted is not None:
            said = f"{theirs / ours:.2f} ×"
            goals.append(goal(f"Spark, {name}", f"≥ {wanted} ×", said, theirs / ours >= wanted))
    head = ["values", "parley, M rows/s", "Spark's own, M rows/s", "ratio"]
    head.append("seconds (parley, Spark's own)")
    return Section(
        "Typed values in Spark",
        f"{_TEXT.format(records=found.records)}\n\n{table(head, rows)}",
        goals,
    )


_TEXT = (
    "Topics of {records:,} records with ten fields (a long, three strings of which one may be "
    "null, a double, an int, a boolean, a timestamp, an array of two strings, a record of two "
    "doubles): Avro in Confluent's frames, and JSON. In one PySpark 4.2.0 session, `local[2]`, "
    "by turns: parley decodes in Spark's Python workers (`valueFormat`, `envelope=flat`, "
    "`columns`); Spark's own connector hands over bytes, which `from_avro`, without the frame's "
    "five bytes, and `from_json` decode in the JVM. Columns go to the noop sink, and a hash "
    "over all rows is compared at the end. Streamed into a table: four micro-batches with "
    "availableNow, parley into a Delta table by `parley-delta`, once as Arrow batches "
    "(`arrowBatches`) and once as rows of Spark's, Spark's own into its Parquet sink; all "
    "exactly once."
)
