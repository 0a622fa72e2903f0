"""Avro and JSON as columns in Spark, read and written; confluent-kafka's serializers as oracle."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient as TheirClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from parley.arrow import HEADERS_TYPE
from parley.client import EARLIEST, LATEST, Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.registry import Schema, SchemaRegistryClient

from ..support import GENEROUS_S, sparks

pytestmark = [pytest.mark.foreign, pytest.mark.matrix]

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "ratio", "type": ["float", "double"]},
        {"name": "what", "type": ["null", "string", "long"]},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line",
            "fields": [{"name": "what", "type": "string"}, {"name": "much", "type": "double"}]}}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    ],
}  # fmt: skip
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "by", "type": "string", "default": "?"}]}
AT = dt.datetime(2026, 11, 3, 4, 5, 6, 7000, dt.UTC)


def order(number: int) -> dict[str, Any]:
    return {
        "number": number,
        "state": "PAID" if number % 2 else "NEW",
        "at": AT,
        "day": dt.date(2026, 11, 3) if number % 2 else None,
        "price": Decimal(number) / 4,
        "mark": b"\x00\xff",
        "ratio": number / 2,
        "what": [None, "text", number][number % 3],
        "lines": [{"what": f"item {one}", "much": one / 2} for one in range(number % 3)],
        "tags": {"a": None, "b": number},
        "local": dt.datetime(2026, 11, 3, 4, 5, 6),
    }


def row(number: int) -> dict[str, Any]:
    """Return what Spark has of an order."""
    what = [None, {"member0": "text", "member1": None}, {"member0": None, "member1": number}]
    return {**order(number), "at": AT.replace(tzinfo=None), "what": what[number % 3]}


@pytest.fixture(scope="module")
def running() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def putting(running: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=running.bootstrap_servers) as client:
        yield client


@pytest.fixture(scope="module")
def theirs(running: LocalCluster) -> Iterator[TheirClient]:
    with TheirClient({"url": running.schema_registry.url}) as client:
        yield client


def context(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def options(running: LocalCluster, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": running.bootstrap_servers,
        "schemaRegistryUrl": running.schema_registry.url,
        "valueFormat": "avro",
        **more,
    }


def put(client: Client, topic: str, values: list[Any], **more: pa.Array) -> None:
    client.produce(topic, pa.table({"value": pa.array(values, pa.binary()), **more}))


def test_their_avro_is_read_by_batch_and_by_stream(
    spark: Any, running: LocalCluster, putting: Client, theirs: TheirClient, tmp_path: Path
) -> None:
    running.create_topic("orders", partitions=1)
    serialize = AvroSerializer(theirs, json.dumps(ORDER))
    put(putting, "orders", [serialize(order(one), context("orders")) for one in range(6)])
    in_header = AvroSerializer(
        theirs, json.dumps(ORDER), conf={"schema.id.serializer": header_schema_id_serializer}
    )
    headers: list[tuple[str, bytes]] = []
    message = in_header(order(6), context("orders", headers))
    listed = pa.array([[{"key": key, "value": value} for key, value in headers]], HEADERS_TYPE)
    put(putting, "orders", [message], headers=listed)
    put(putting, "orders", [None])

    given = options(running, subscribe="orders")
    frame = spark.read.format("parley").options(**given).load()
    found = [one.value.asDict(recursive=True) if one.value else None for one in frame.collect()]
    assert found == [*(row(one) for one in range(7)), None]
    flat = spark.read.format("parley").options(**given, envelope="flat").load()
    sums = flat.where("state = 'PAID'").groupBy("state").sum("number").collect()
    assert [tuple(one) for one in sums] == [("PAID", 9)]
    some = spark.read.format("parley").options(**given, valueColumns="number,state").load()
    paid = some.where("value.state = 'PAID'").groupBy("value.state").sum("value.number")
    assert [tuple(one) for one in paid.collect()] == [("PAID", 9)]
    bad = options(running, subscribe="orders", schemaRegistryBasicAuthUserInfo="ann:canary-4711")
    explained = spark.read.format("parley").options(**bad).load()
    assert "canary" not in explained._jdf.queryExecution().toString()

    def run() -> list[tuple[Any, ...]]:
        """Run the query as it stands in a program that is started again."""
        place = {"checkpointLocation": str(tmp_path / "checkpoint")}
        stream = spark.readStream.format("parley").options(
            **given, **place, startingOffsets="earliest", valueColumns="state,number"
        )
        shown = stream.load().select("offset", "value.*").writeStream.format("parquet")
        query = sparks.started(
            shown.options(**place, path=str(tmp_path / "out")).trigger(availableNow=True).start
        )
        assert query.awaitTermination(GENEROUS_S)
        assert query.exception() is None
        rows = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
        return [tuple(one) for one in rows]

    begun = run()
    assert begun == [*((one, row(one)["state"], one) for one in range(7)), (7, None, None)]
    later = AvroSerializer(theirs, json.dumps(LATER))
    put(putting, "orders", [later({**order(8), "by": "me"}, context("orders"))])
    assert run() == [*begun, (8, "NEW", 8)]
    kept = [file.read_text() for file in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")]
    assert any('"@schemas":{"value":"id:' in text.replace(" ", "") for text in kept)
    shutil.rmtree(tmp_path / "out")
    put(putting, "orders", [b"damaged"])
    with pytest.raises(Exception, match=r"orders-0, offset 9.*cannot be decoded"):
        run()


def test_what_is_written_their_deserializers_read(
    spark: Any, running: LocalCluster, putting: Client, theirs: TheirClient, tmp_path: Path
) -> None:
    running.create_topic("copies", partitions=1)
    registry = SchemaRegistryClient(running.schema_registry.url)
    registry.register_schema("copies-value", Schema(json.dumps(ORDER)))
    rows = spark.createDataFrame(
        [
            ("k", (1, dt.date(2026, 11, 3), Decimal("0.25"), ["a"], {"x": 1}, AT)),
            (None, (2, None, None, [], {}, AT)),
            ("gone", None),
        ],
        "key string, value struct<number: bigint not null, day: date, price: decimal(9,2), "
        "names: array<string>, tags: map<string,int>, at: timestamp not null>",
    )

    def write(frame: Any, topic: str, **more: str) -> list[dict[str, Any]]:
        frame.coalesce(1).write.format("parley").options(
            **{**options(running, topic=topic), **more}
        ).mode("append").save()
        found = putting.fetch(TopicPartition(topic, 0), EARLIEST, LATEST)
        return [one for batch in found for one in batch.to_pylist()]

    with pytest.raises(Exception, match=r"value\.names.*no such field"):
        write(rows, "copies")
    running.create_topic("derived", partitions=1)
    with pytest.raises(Exception, match="derived-value"):
        write(rows, "derived")
    stored = write(rows, "derived", registerSchemas="true")
    read = AvroDeserializer(theirs)
    assert [read(one["value"], context("derived")) for one in stored] == [
        {"number": 1, "day": dt.date(2026, 11, 3), "price": Decimal("0.25"), "names": ["a"],
         "tags": {"x": 1}, "at": AT},
        {"number": 2, "day": None, "price": None, "names": [], "tags": {}, "at": AT},
        None,
    ]  # fmt: skip
    assert [one["key"] for one in stored] == [b"k", None, b"gone"]

    # what was read can be written again: the same bytes, times and headers
    running.create_topic("again", partitions=1)
    times = pa.array([1_700_000_000_123, 1_700_000_000_456], pa.int64())
    headers = pa.array([[{"key": "a", "value": None}, {"key": "b", "value": b""}], None],
                       HEADERS_TYPE)  # fmt: skip
    serialize = AvroSerializer(theirs, json.dumps(ORDER))
    sent = [serialize(order(one), context("copies")) for one in (1, 2)]
    put(putting, "copies", sent, timestamp=times, headers=headers)
    frame = spark.read.format("parley").options(
        **options(running, subscribe="copies", includeHeaders="true")
    ).load()  # fmt: skip
    kept = frame.select("key", "value", "headers", "timestamp")
    stored = write(kept, "again", valueSchema="subject:copies-value:1", valueSubject="copies-value")
    assert [one["value"] for one in stored] == sent
    assert [one["headers"] for one in stored] == [
        [{"key": "a", "value": None}, {"key": "b", "value": b""}], []]  # fmt: skip
    assert [one["timestamp"].timestamp() for one in stored] == [
        1_700_000_000.123,
        1_700_000_000.456,
    ]


def test_json_both_ways_and_exactly_once(
    spark: Any, running: LocalCluster, putting: Client, theirs: TheirClient, tmp_path: Path
) -> None:
    running.create_topic("documents", partitions=1)
    running.create_topic("sums", partitions=1)
    running.create_topic("sums.dlq", partitions=1)
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "City",
              "type": "object", "properties": {
                  "name": {"type": "string"}, "people": {"type": "integer"}}}  # fmt: skip
    serialize = JSONSerializer(json.dumps(schema), theirs)
    cities = [{"name": f"c{one}", "people": one} for one in range(4)]
    good = [serialize(city, context("documents")) for city in cities]
    put(putting, "documents", [*good[:2], b"no frame", *good[2:]])
    place = {"checkpointLocation": str(tmp_path / "checkpoint")}
    given = options(running, subscribe="documents", valueFormat="json", onSchemaError="null",
                    startingOffsets="earliest")  # fmt: skip
    read = spark.readStream.format("parley").options(**given, **place).load()
    # good and bad rows in one transaction: both or neither become visible
    rows = read.selectExpr(
        "if(_error is null, 'sums', 'sums.dlq') as topic",
        "key",
        "if(_error is null, cast(to_json(value) as binary), _error.bytes) as value",
        "array(struct('__connect.errors.topic' as key, cast(topic as binary) as value), "
        "struct('__connect.errors.offset' as key, cast(string(offset) as binary) as value)) "
        "as headers",
    )
    sink = rows.writeStream.format("parley").options(
        **place, **{"kafka.bootstrap.servers": running.bootstrap_servers}, delivery="exactly-once"
    )
    query = sparks.started(sink.trigger(availableNow=True).start)
    assert query.awaitTermination(GENEROUS_S)
    assert query.exception() is None

    def stored(topic: str) -> list[dict[str, Any]]:
        found = putting.fetch(TopicPartition(topic, 0), EARLIEST, LATEST)
        return [one for batch in found for one in batch.to_pylist()]

    assert [json.loads(one["value"]) for one in stored("sums")] == cities
    (letter,) = stored("sums.dlq")
    assert letter["value"] == b"no frame"
    assert letter["headers"][1]["value"] == b"2"
    running.create_topic("written", partitions=1)
    spark.createDataFrame([((7, "x"),)], "value struct<a: int, b: string>").write.format(
        "parley"
    ).options(**options(running, topic="written", valueFormat="json", registerSchemas="true")).mode(
        "append"
    ).save()
    (message,) = stored("written")
    registered = theirs.get_latest_version("written-value").schema.schema_str
    back = JSONDeserializer(registered, schema_registry_client=theirs)
    assert back(message["value"], context("written")) == {"a": 7, "b": "x"}
