"""`arrowBatches=true`: rows that are Arrow batches of many records; and `columns`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from parley.client import Client, NewTopic
from parley.devcluster import LocalCluster
from parley.errors import ConfigError
from parley.registry import SchemaRegistryClient
from parley.spark.lakes.options import read_lake_options
from parley.spark.lakes.writer import LakeStreamWriter
from parley.spark.options.texts import Use
from parley.spark.tables import options_of_read, schema_of_table
from parley.spark.values.arrow_batches import (
    batch_column,
    batches_schema,
    packed,
    record_columns,
    unpacked,
)
from parley.spark.values.schema import read_schema

from .typed_sources import CITY, cities, loaded, put, read, sent

TOPIC = "cities"
FLAT = {"valueFormat": "avro", "envelope": "flat"}
BATCHES = {"arrowBatches": "true"}
NESTED = pa.record_batch(
    {
        "n": pa.array([1, None, 3], pa.int64()),
        "what": pa.array([{"a": [1, None], "b": "x"}, None, {"a": None, "b": ""}]),
        "at": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        "tags": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "bytes": pa.array([b"", b"\0" * 10_000, None]),
    }
)


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """Three cities in a topic, and how it is read."""
    with LocalCluster(brokers=1, schema_registry=True) as cluster:
        url = cluster.schema_registry.url
        cluster.create_topic(TOPIC, partitions=1)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            put(client, TOPIC, [*cities(SchemaRegistryClient(url), TOPIC, CITY), None])
        yield {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "schemaRegistryUrl": url,
            "subscribe": TOPIC,
        }


@pytest.fixture(scope="module")
def plain(options: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in options.items() if name != "schemaRegistryUrl"}


@pytest.mark.parametrize("batch", [NESTED, NESTED.slice(1, 1), NESTED.slice(0, 0)])
def test_batches_pass_as_they_are(batch: pa.RecordBatch) -> None:
    row = packed(batch)
    (found,) = row.to_pylist()
    assert found["records"] == batch.num_rows
    assert pa.ipc.open_stream(found["batch"]).read_all() == pa.Table.from_batches([batch])
    two = pa.Table.from_batches([row, row]).combine_chunks().to_batches()
    assert list(unpacked(two, "batch")) == [batch, batch]
    columns = sent(batches_schema(StructType().add("n", LongType())))
    assert to_arrow_schema(columns).remove_metadata() == row.schema


def test_rows_know_the_columns_of_their_records() -> None:
    records = StructType().add("n", LongType(), False).add("text", StringType())
    columns = sent(batches_schema(records))
    assert record_columns(columns) == records
    assert record_columns(records) is records
    assert batch_column(records) is None
    batch = columns["batch"]
    renamed = StructType([StructField("rows", batch.dataType, False, batch.metadata)])
    assert record_columns(renamed) == records
    assert batch_column(renamed) == "rows"
    with pytest.raises(ConfigError, match=r'"batch"\), and "day" would belong to none of them'):
        record_columns(StructType([*columns.fields, *StructType().add("day", "date").fields]))


@pytest.mark.parametrize("columns", [None, "people, offset", "topic"])
@pytest.mark.parametrize("given", [{}, {"valueFormat": "avro"}, FLAT], ids=["", "typed", "flat"])
def test_a_read_yields_the_same_records(
    options: dict[str, str], plain: dict[str, str], given: dict[str, str], columns: str | None
) -> None:
    given = {**(options if given else plain), **given}
    if columns is not None:
        given["columns"] = columns
    if columns is not None and "people" in columns and "envelope" not in given:
        with pytest.raises(ConfigError, match='columns: there is no column "people"'):
            loaded(given)
        return
    default = read_schema(include_headers=False)
    expected = read(given, default if given == plain else None)
    assert len(expected) == 4
    if columns is not None:
        assert list(expected[0]) == columns.split(", ")
    rows = read({**given, **BATCHES})
    assert sum(row["records"] for row in rows) == 4
    found = [one for row in rows for one in pa.ipc.open_stream(row["batch"]).read_all().to_pylist()]
    assert found == expected


def test_only_columns_that_are_named_are_decoded(options: dict[str, str]) -> None:
    with Client(bootstrap_servers=options["kafka.bootstrap.servers"]) as client:
        client.create_topics([NewTopic("damaged", 1)])
        put(client, "damaged", [b"no Avro"])
    given = {**options, **FLAT, "subscribe": "damaged", "valueSubject": f"{TOPIC}-value"}
    assert read({**given, "columns": "offset,topic"}) == [{"offset": 0, "topic": "damaged"}]


@pytest.mark.parametrize(
    ("given", "own", "says"),
    [
        ({"columns": "key,ofset"}, None, r'no column "ofset"\. Did you mean "offset"'),
        ({"columns": "VALUE"}, None, r'no column "VALUE"\. Did you mean "value"'),
        ({"columns": "key,headers"}, None, r'no column "headers"\. Set includeHeaders=true\.'),
        ({"columns": "key,key"}, None, 'columns="key,key" names a column twice'),
        ({"columns": " , "}, None, "names separated by commas is expected"),
        ({"columns": "key"}, StructType().add("topic", "string"), "leave one of them out"),
        (BATCHES, StructType().add("key", "binary"), "choose those of the records with"),
    ],
)
def test_what_does_not_go_together(
    plain: dict[str, str], given: dict[str, str], own: StructType | None, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        read({**plain, **given}, own)


def test_a_table_keeps_what_its_batches_are(plain: dict[str, str]) -> None:
    _, columns = loaded({**plain, **BATCHES})
    table = sent(schema_of_table(columns, {**plain, **BATCHES, "provider": "parley"}))
    assert record_columns(table) == record_columns(columns) == read_schema(include_headers=False)
    assert options_of_read({}, table)["arrowbatches"] == "true"


def test_a_sink_sees_the_records(tmp_path: Path) -> None:
    """It plans with their columns, and goes to tasks so."""
    given = {"path": str(tmp_path / "table"), "checkpointLocation": "/c", "partitionBy": "city"}
    lake = read_lake_options(given, Use.STREAM_WRITE)
    records = StructType().add("city", StringType()).add("n", LongType())
    writer: Any = LakeStreamWriter(lake, sent(batches_schema(records)), overwrite=False)
    planned = pickle.loads(pickle.dumps(writer))._plan.value
    assert planned.layout.schema.names == ["city", "n"]
    with pytest.raises(ConfigError, match='partitionBy names "city"'):
        LakeStreamWriter(lake, sent(batches_schema(records[1:])), overwrite=False).plan()
