"""Protobuf as columns in Spark, read and written; confluent-kafka's serializers as oracle."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as TheirClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from parley.client import EARLIEST, LATEST, Client, TopicPartition
from parley.devcluster import LocalCluster

from ..support import GENEROUS_S, sparks
from ..support.protoc import protoc_files

pytestmark = [pytest.mark.foreign, pytest.mark.matrix]

VISIT = """syntax = "proto3";
package shop;
import "google/protobuf/duration.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Visit {
  uint64 number = 1;
  State state = 2;
  google.protobuf.Timestamp at = 3;
  google.protobuf.Duration took = 4;
  repeated Line lines = 5;
  map<int32, string> pages = 6;
  oneof how { string by = 7; int32 line = 8; }
  google.protobuf.StringValue note = 9;
  optional float ratio = 10;
  bytes mark = 11;
}
enum State { NEW = 0; PAID = 1; }
message Line { string what = 1; double much = 2; }
message Left { int64 number = 1; string why = 2; }
"""
LARGEST = 2**64 - 1
ROWS = [
    {"number": Decimal(LARGEST), "state": "PAID", "at": dt.datetime(2026, 11, 3, 4, 5, 6, 7),
     "took": dt.timedelta(hours=30, microseconds=5), "lines": [{"what": "tea", "much": 0.5}],
     "pages": {-1: "a", 7: "b"}, "by": "bus", "line": None, "note": "", "ratio": 0.5,
     "mark": b"\x00\xff"},
    {"number": Decimal(0), "state": "NEW", "at": None, "took": None, "lines": [], "pages": {},
     "by": None, "line": 0, "note": None, "ratio": None, "mark": b""},
]  # fmt: skip
DOCUMENTS = [
    {"number": str(LARGEST), "state": "PAID", "at": "2026-11-03T04:05:06.000007Z",
     "took": "108000.000005s", "lines": [{"what": "tea", "much": 0.5}],
     "pages": {"-1": "a", "7": "b"}, "by": "bus", "note": "", "ratio": 0.5, "mark": "AP8="},
    {"line": 0},
]  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(running: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=running.bootstrap_servers) as opened:
        yield opened


@pytest.fixture(scope="module")
def theirs(running: LocalCluster) -> Iterator[TheirClient]:
    with TheirClient({"url": running.schema_registry.url}) as opened:
        yield opened


@pytest.fixture(scope="module")
def kinds() -> dict[str, type[Message]]:
    pool = DescriptorPool()
    for one in protoc_files({"visit.proto": VISIT}).values():
        pool.AddSerializedFile(one.SerializeToString())
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
        for name in ("Visit", "Left")
    }


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def put(client: Client, topic: str, values: list[bytes | None]) -> None:
    client.produce(topic, pa.table({"value": pa.array(values, pa.binary())}))


def stored(client: Client, topic: str) -> list[dict[str, Any]]:
    found = client.fetch(TopicPartition(topic, 0), EARLIEST, LATEST)
    return [one for batch in found for one in batch.to_pylist()]


def test_protobuf_both_ways(
    spark: Any,
    running: LocalCluster,
    client: Client,
    theirs: TheirClient,
    kinds: dict[str, type[Message]],
) -> None:
    for topic in ("visits", "again", "derived"):
        running.create_topic(topic, partitions=1)
    write = ProtobufSerializer(kinds["Visit"], theirs)
    made = [json_format.ParseDict(one, kinds["Visit"]()) for one in DOCUMENTS]
    put(client, "visits", [*(write(one, context("visits")) for one in made), None])
    given = {
        "kafka.bootstrap.servers": running.bootstrap_servers,
        "schemaRegistryUrl": running.schema_registry.url,
        "valueFormat": "protobuf",
    }

    frame = spark.read.format("parley").options(**given, subscribe="visits").load()
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<number:decimal(20,0),state:string,at:timestamp,took:interval day to second,"
        "lines:array<struct<what:string,much:double>>,pages:map<int,string>,by:string,line:int,"
        "note:string,ratio:float,mark:binary>"
    )
    found = frame.orderBy("offset").collect()
    assert [one.value and one.value.asDict(recursive=True) for one in found] == [*ROWS, None]
    some = spark.read.format("parley").options(
        **given, subscribe="visits", valueColumns="pages,number"
    )
    assert [tuple(one) for one in some.load().selectExpr("value.pages[7]").collect()] == [
        ("b",), (None,), (None,),
    ]  # fmt: skip

    # what was read can be written again, and the schema's other message can be chosen
    same = frame.select("value").coalesce(1).write.format("parley").mode("append")
    same.options(**given, topic="again", valueSubject="visits-value").save()
    read = ProtobufDeserializer(kinds["Visit"], {}, theirs)
    again = [read(one["value"], context("again")) for one in stored(client, "again")]
    assert again == [*made, None]
    left = spark.createDataFrame([((7, "late"),)], "value struct<number: bigint, why: string>")
    left = left.write.format("parley").mode("append")
    left.options(
        **given, topic="again", valueSubject="visits-value", valueMessage="shop.Left"
    ).save()
    read_left = ProtobufDeserializer(kinds["Left"], {}, theirs)
    last = read_left(stored(client, "again")[-1]["value"], context("again"))
    assert json_format.MessageToDict(last) == {"number": "7", "why": "late"}

    one = spark.createDataFrame(
        [((1, ["a"], {1: 0.5}, dt.timedelta(seconds=1)),)],
        "value struct<n: int, names: array<string>, much: map<int,double>, "
        "took: interval day to second>",
    )
    one.write.format("parley").mode("append").options(
        **given, topic="derived", registerSchemas="true"
    ).save()
    derived = spark.read.format("parley").options(**given, subscribe="derived").load()
    assert derived.select("value.*").first().asDict() == {
        "n": 1, "names": ["a"], "much": {1: 0.5}, "took": dt.timedelta(seconds=1),
    }  # fmt: skip


def test_a_stream_of_protobuf_with_dead_letters(
    spark: Any,
    running: LocalCluster,
    client: Client,
    theirs: TheirClient,
    kinds: dict[str, type[Message]],
    tmp_path: Path,
) -> None:
    for topic in ("leaving", "leaving.dlq"):
        running.create_topic(topic, partitions=1)
    write = ProtobufSerializer(kinds["Left"], theirs)
    good = [write(kinds["Left"](number=one), context("leaving")) for one in range(3)]
    visit = ProtobufSerializer(kinds["Visit"], theirs)
    another = visit(json_format.ParseDict(DOCUMENTS[0], kinds["Visit"]()), context("leaving"))
    cut = write(kinds["Left"](why="far too long"), context("leaving"))[:-3]
    put(client, "leaving", [good[0], another, cut, *good[1:]])
    place = {"checkpointLocation": str(tmp_path / "checkpoint")}
    rows = (
        spark.readStream.format("parley")
        .options(
            **place,
            **{"kafka.bootstrap.servers": running.bootstrap_servers},
            subscribe="leaving",
            startingOffsets="earliest",
            schemaRegistryUrl=running.schema_registry.url,
            valueFormat="protobuf",
            valueMessage="shop.Left",
            onSchemaError="dead-letter",
            deadLetterTopic="leaving.dlq",
        )
        .load()
    )
    sink = rows.select("offset", "value.number").writeStream.format("parquet")
    query = sparks.started(
        sink.options(**place, path=str(tmp_path / "out")).trigger(availableNow=True).start
    )
    assert query.awaitTermination(GENEROUS_S)
    assert query.exception() is None
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    assert [tuple(one) for one in found] == [(0, 0), (3, 1), (4, 2)]
    letters = stored(client, "leaving.dlq")
    assert [one["value"] for one in letters] == [another, cut]
    codes = [
        [pair["value"] for pair in one["headers"] if pair["key"] == "parley-error"]
        for one in letters
    ]
    assert codes == [[b"schema"], [b"datum"]]
