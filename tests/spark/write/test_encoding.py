"""What a write settles before tasks start, and how tasks make messages; without Spark."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ByteType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimeType,
    VariantType,
)

from parley.devcluster import LocalCluster
from parley.errors import (
    ConfigError,
    IncompatibleSchemaError,
    RegistryUnreachable,
    SchemaEncodeError,
    SchemaError,
)
from parley.registry import Schema, SchemaRegistryClient
from parley.serdes import Deserializer
from parley.spark.options.texts import Use
from parley.spark.write.encoding import settle
from parley.spark.write.options import read_sink_options
from parley.spark.write.writer import columns_to_write

CITY = {"type": "record", "name": "City", "fields": [
    {"name": "name", "type": "string"}, {"name": "people", "type": "int"}]}  # fmt: skip
COLUMNS = StructType(
    [
        StructField("key", StringType()),
        StructField("value", StructType().add("name", StringType()).add("people", LongType())),
    ]
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"key": "a", "value": {"name": "Oslo", "people": 7}},
        {"key": "b", "value": None},
        {"key": "c", "value": {"name": "Bergen", "people": 2**40}},
    ],
    pa.schema(
        [
            ("key", pa.string()),
            ("value", pa.struct([("name", pa.string()), ("people", pa.int64())])),
        ]
    ),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True) as running:
        yield running


@pytest.fixture
def options(cluster: LocalCluster, request: pytest.FixtureRequest) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": "127.0.0.1:1", "topic": request.node.name,
        "valueFormat": "avro", "schemaRegistryUrl": cluster.schema_registry.url,
    }  # fmt: skip


def plan(options: dict[str, str], columns: StructType = COLUMNS) -> Any:
    found = read_sink_options(options, Use.BATCH_WRITE)
    assert found.encoding is not None
    columns_to_write(columns, found)
    return pickle.loads(pickle.dumps(settle(found.encoding, columns)))


def test_the_registrys_schema_is_settled_once_and_tasks_ask_nobody(
    cluster: LocalCluster, options: dict[str, str]
) -> None:
    registry = SchemaRegistryClient(cluster.schema_registry.url)
    registered = registry.register_schema(f"{options['topic']}-value", Schema(json.dumps(CITY)))
    encoding = plan(options)
    plan(options)
    cluster.schema_registry.clear_requests()
    found = encoding.encode(ROWS.slice(0, 2), 0)
    assert found.column("key").to_pylist() == ["a", "b"]
    message, tombstone = found.column("value").to_pylist()
    assert message == b"\x00" + registered.id.to_bytes(4, "big") + b"\x08Oslo\x0e"
    assert tombstone is None
    with pytest.raises(SchemaEncodeError, match=r"value\.people: .*1099511627776 not in range"):
        encoding.encode(ROWS, 100)
    lacking = [None, {"name": "Bergen", "people": None}]
    wrong = pa.record_batch({"value": pa.array(lacking, ROWS.schema.field("value").type)})
    with pytest.raises(SchemaEncodeError, match=r"row 101 .*value\.people") as caught:
        encoding.encode(wrong, 100)
    assert (caught.value.path, caught.value.row) == ("value.people", 101)
    assert cluster.schema_registry.requests() == []
    in_header = plan({**options, "valueFraming": "confluent-header"}).encode(ROWS.slice(0, 1), 0)
    assert in_header.column("value").to_pylist() == [b"\x08Oslo\x0e"]
    (header,) = in_header.column("headers").to_pylist()[0]
    assert header["key"] == "__value_schema_id"


def test_a_schema_is_derived_and_registered_only_if_wanted(
    cluster: LocalCluster, options: dict[str, str]
) -> None:
    registry = SchemaRegistryClient(cluster.schema_registry.url)
    encoding = plan({**options, "registerSchemas": "true", "keyFormat": "json"})
    found = encoding.encode(ROWS, 0)
    assert Deserializer(registry)(found.column("value")[2].as_py()) == {
        "name": "Bergen", "people": 2**40}  # fmt: skip
    assert found.column("key")[0].as_py()[5:] == b'"a"'
    assert registry.get_versions(f"{options['topic']}-key") == [1]
    changed = StructType([StructField("value", StructType([
        StructField("name", StringType()), StructField("people", StringType())]))])  # fmt: skip
    with pytest.raises(IncompatibleSchemaError):
        plan({**options, "registerSchemas": "true"}, changed)
    bare = {name: text for name, text in options.items() if name != "schemaRegistryUrl"}
    plain = plan({**bare, "valueFormat": "json", "valueFraming": "none"})
    assert json.loads(plain.encode(ROWS, 0).column("value")[0].as_py()) == {
        "name": "Oslo", "people": 7}  # fmt: skip


def test_a_time_of_day_is_written_from_sparks_type_for_it(
    cluster: LocalCluster, options: dict[str, str]
) -> None:
    noon = {"type": "record", "name": "Noon", "fields": [
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}}]}  # fmt: skip
    registry = SchemaRegistryClient(cluster.schema_registry.url)
    registry.register_schema(f"{options['topic']}-value", Schema(json.dumps(noon)))
    number, time = (
        StructType().add("value", StructType().add("at", kind)) for kind in (LongType(), TimeType())
    )
    with pytest.raises(SchemaError, match=r"value\.at: .*cast it: time_from_micros"):
        plan(options, number)
    at = dt.time(12, 0, 0, 5000)
    rows = pa.array([{"at": at}], pa.struct([("at", pa.time64("ns"))]))
    found = plan(options, time).encode(pa.record_batch({"value": rows}), 0)
    assert Deserializer(registry)(found.column("value")[0].as_py()) == {"at": at}


def test_what_does_not_fit_is_refused_before_tasks_start(
    cluster: LocalCluster, options: dict[str, str]
) -> None:
    registry = SchemaRegistryClient(cluster.schema_registry.url)
    registry.register_schema(f"{options['topic']}-value", Schema(json.dumps(CITY)))
    other = StructType().add("value", StructType().add("name", StringType()).add("x", ByteType()))
    with pytest.raises(SchemaError, match=r"value\.x: .*no such field"):
        plan(options, other)
    variant = StructType().add("value", StructType().add("x", VariantType()))
    with pytest.raises((SchemaError, ConfigError), match="value"):
        plan(options, variant)
    down = {**options, "schemaRegistryUrl": "http://127.0.0.1:1", "schemaRegistryMaxRetries": "0"}
    with pytest.raises(RegistryUnreachable, match=r"127\.0\.0\.1:1"):
        plan(down)
    for changes, why in (
        ({"valueFormat": ""}, "valueFormat"),
        ({"schemaRegistryUrl": None}, "schemaRegistryUrl is missing: values name a schema"),
        ({"valueFormat": None}, "schemaRegistryUrl is given, and valueFormat is not"),
        ({"topic": None}, "valueSubject is missing: the rows have their topics in a column"),
        ({"valueSchema": "subject:other:1"}, "other"),
        ({"keyFormat": "avro", "keySchema": "newest"}, "keyFormat: .*names no schema"),
    ):
        given = {name: text for name, text in {**options, **changes}.items() if text is not None}
        with pytest.raises(Exception, match=why):
            plan(given, COLUMNS.add("topic", StringType()) if "topic" in changes else COLUMNS)
    with pytest.raises(ConfigError, match='no column "key", and keyFormat is given'):
        plan({**options, "keyFormat": "avro"}, StructType().add("value", IntegerType()))
    with pytest.raises(ConfigError, match="or set valueFormat"):
        columns_to_write(
            StructType().add("value", IntegerType()),
            read_sink_options({"kafka.bootstrap.servers": "a:1", "topic": "t"}, Use.BATCH_WRITE),
        )
