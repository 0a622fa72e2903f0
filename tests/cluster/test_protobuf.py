"""Protobuf through a cluster and its registry: confluent-kafka's serializers both ways."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient as TheirClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2 as pb, json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from parley import EARLIEST, LATEST, Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import InvalidSchemaError, SchemaDecodeError
from parley.registry import Schema, SchemaReference, SchemaRegistryClient
from parley.serdes import ColumnDecoder, ColumnEncoder, Deserializer, Serializer

from ..support.protoc import protoc_files

pytestmark = pytest.mark.foreign

LINE = 'syntax = "proto3";\npackage shop;\nmessage Line { string what = 1; double much = 2; }\n'
ORDER = """syntax = "proto3";
package shop;
import "shop/line.proto";
import "google/protobuf/timestamp.proto";
// what a customer wants
message Order {
  int64 number = 1;
  repeated shop.Line lines = 2;
  google.protobuf.Timestamp at = 3;
  message Note { string text = 1; }
  map<string, int32> tags = 4;
}
message Paid { int64 number = 1; }
"""
FILES = {"shop/line.proto": LINE, "order.proto": ORDER}


def order(number: int) -> dict[str, object]:
    return {
        "number": str(number + 1),
        "lines": [{"what": f"item {one}", "much": one + 0.5} for one in range(1 + number % 3)],
        "at": f"2026-11-03T04:05:06.00000{number + 1}Z",
        "tags": {"a": number + 1},
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True) as running:
        yield running


@pytest.fixture
def registry(cluster: LocalCluster) -> SchemaRegistryClient:
    return SchemaRegistryClient(cluster.schema_registry.url)


@pytest.fixture
def theirs(cluster: LocalCluster) -> Iterator[TheirClient]:
    with TheirClient({"url": cluster.schema_registry.url}) as client:
        yield client


@pytest.fixture(scope="module")
def pool() -> DescriptorPool:
    found = DescriptorPool()
    for one in protoc_files(FILES).values():
        found.AddSerializedFile(one.SerializeToString())
    return found


def made(pool: DescriptorPool, name: str, document: object) -> Message:
    return json_format.ParseDict(document, GetMessageClass(pool.FindMessageTypeByName(name))())


def as_json(value: object) -> object:
    assert isinstance(value, Message)
    return json_format.MessageToDict(value)


def context(topic: str, headers: list[tuple[str, bytes]] | None = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def registered(registry: SchemaRegistryClient, subject: str) -> Schema:
    """Return the schema with its reference, registered by its text."""
    registry.register_schema("shop/line.proto", Schema(LINE, "PROTOBUF"))
    version = registry.get_latest_version("shop/line.proto").version
    assert version is not None
    reference = SchemaReference("shop/line.proto", "shop/line.proto", version)
    schema = Schema(ORDER, "PROTOBUF", (reference,))
    registry.register_schema(subject, schema)
    return schema


@pytest.mark.parametrize("message", ["shop.Order", "shop.Order.Note", "shop.Paid"])
def test_their_serializer_and_ours_write_the_same_bytes(
    theirs: TheirClient, registry: SchemaRegistryClient, pool: DescriptorPool, message: str
) -> None:
    topic = f"same-{message.lower()}"
    kind = GetMessageClass(pool.FindMessageTypeByName(message))
    their = ProtobufSerializer(kind, theirs)
    documents = {
        "shop.Order": [order(one) for one in range(9)],
        "shop.Order.Note": [{}, {"text": "é"}],
        "shop.Paid": [{"number": "7"}],
    }[message]
    ours = Serializer(registry, f"{topic}-value", value_format="protobuf", message=message)
    read = Deserializer(registry, value_format="protobuf")
    their_read = ProtobufDeserializer(kind, {}, theirs)
    for document in documents:
        value = made(pool, message, document)
        data = their(value, context(topic))
        assert data is not None
        assert ours(value) == data[: len(data) - value.ByteSize()] + value.SerializeToString(
            deterministic=True
        )
        assert as_json(read(data)) == document
        assert as_json(their_read(ours(value), context(topic))) == document


def test_headers(theirs: TheirClient, registry: SchemaRegistryClient, pool: DescriptorPool) -> None:
    kind = GetMessageClass(pool.FindMessageTypeByName("shop.Paid"))
    conf = {"schema.id.serializer": header_schema_id_serializer}
    headers: list[tuple[str, bytes]] = []
    value = made(pool, "shop.Paid", {"number": "3"})
    data = ProtobufSerializer(kind, theirs, conf)(value, context("headed", headers))
    assert data == value.SerializeToString()
    frame = Serializer(
        registry, "headed-value", value_format="protobuf", framing="confluent-header",
        message="shop.Paid",
    ).frame({"number": 3})  # fmt: skip
    assert (frame.value, dict(frame.headers)) == (data, dict(headers))
    read = Deserializer(registry, value_format="protobuf")
    assert as_json(read(data, headers)) == {"number": "3"}
    their_read = ProtobufDeserializer(kind, {}, theirs)
    assert as_json(their_read(frame.value, context("headed", list(frame.headers)))) == {
        "number": "3"
    }


def test_texts_and_their_descriptors_are_one_schema(
    theirs: TheirClient, registry: SchemaRegistryClient, pool: DescriptorPool
) -> None:
    schema = registered(registry, "mixed-value")
    kind = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    value = made(pool, "shop.Order", order(1))
    data = ProtobufSerializer(kind, theirs)(value, context("mixed"))
    assert registry.get_versions("mixed-value") == [1]
    assert registry.get_latest_version("mixed-value").schema.text == ORDER
    assert data is not None
    assert registry.get_schema(int.from_bytes(data[1:5], "big")) == schema
    assert as_json(Deserializer(registry, schema, value_format="protobuf")(data)) == order(1)


def test_the_registry_answers_with_descriptors(
    cluster: LocalCluster, registry: SchemaRegistryClient
) -> None:
    registered(registry, "described-value")
    number = registry.get_latest_version("described-value").id
    wanted = protoc_files(FILES)["order.proto"]
    for path in (f"schemas/ids/{number}", "subjects/described-value/versions/latest"):
        url = f"{cluster.schema_registry.url}/{path}?format=serialized"
        with urllib.request.urlopen(url) as answer:
            said = json.load(answer)
        found = pb.FileDescriptorProto.FromString(base64.b64decode(said["schema"]))
        found.name = wanted.name
        assert found == wanted
        assert said["references"][0]["name"] == "shop/line.proto"
    for text in ("message A { Gone x = 1; }", "message", ""):
        with pytest.raises(InvalidSchemaError):
            registry.register_schema("wrong-value", Schema(text, "PROTOBUF"))


def test_columns_by_reference(
    cluster: LocalCluster, registry: SchemaRegistryClient, theirs: TheirClient, pool: DescriptorPool
) -> None:
    schema = registered(registry, "orders-value")
    kind = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    write = ProtobufSerializer(kind, theirs)
    messages = [write(made(pool, "shop.Order", order(one)), context("orders")) for one in range(5)]
    cluster.create_topic("orders")
    url = cluster.schema_registry.url
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce("orders", pa.table({"value": pa.array([*messages, None, b"\0\0"])}))
        at = TopicPartition("orders", 0)
        found = list(client.fetch(at, 0, 6, value_format="protobuf", schema_registry_url=url))
        rows = pa.Table.from_batches(found).column("value").to_pylist()
        expected = [json_format.ParseDict(order(one), kind()) for one in range(5)]
        assert rows[5] is None
        for row, value in zip(rows, expected, strict=False):
            assert row["number"] == value.number  # type: ignore[attr-defined]  # a field
            assert [one["what"] for one in row["lines"]] == [one.what for one in value.lines]  # type: ignore[attr-defined]  # a field
            assert row["at"].microsecond == value.at.nanos // 1000  # type: ignore[attr-defined]  # a field
            assert dict(row["tags"]) == dict(value.tags)  # type: ignore[attr-defined]  # a field
        with pytest.raises(SchemaDecodeError, match="orders-0, offset 6") as caught:
            list(client.fetch(at, 6, LATEST, value_format="protobuf", schema_registry_url=url))
        assert caught.value.code == "framing"
        paid = client.fetch(
            at, EARLIEST, 5, value_format="protobuf", schema_registry_url=url,
            value_message="shop.Paid", on_schema_error="null",
        )  # fmt: skip
        (batch,) = list(paid)
        assert batch.column("value").null_count == 5
        assert "a message of shop.Order" in batch.column("_error")[0]["message"].as_py()
    again = ColumnEncoder(registry, "orders-value", schema, value_format="protobuf")
    column = (
        ColumnDecoder(registry, schema, value_format="protobuf")
        .decode_values(pa.array(messages))
        .array
    )
    read = ProtobufDeserializer(kind, {}, theirs)
    for message, value in zip(again.encode_values(column).array.to_pylist(), expected, strict=True):
        assert as_json(read(message, context("orders"))) == as_json(value)


def test_a_derived_schema_is_registered(
    registry: SchemaRegistryClient, theirs: TheirClient
) -> None:
    column = pa.array([{"id": 1, "tags": ["a"]}, {"id": None, "tags": []}])
    encoder = ColumnEncoder(
        registry, "made-value", None, value_format="protobuf", auto_register_schemas=True
    )
    messages = encoder.encode_values(column).array
    schema = registry.get_latest_version("made-value").schema
    assert "message made_value {\n  optional int64 id = 1;" in schema.text
    found = ColumnDecoder(registry, schema, value_format="protobuf").decode_values(messages)
    assert found.array.to_pylist() == column.to_pylist()
    file = protoc_files({"made.proto": schema.text})["made.proto"]
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    kind = GetMessageClass(pool.FindMessageTypeByName("made_value"))
    read = ProtobufDeserializer(kind, {}, theirs)
    assert as_json(read(messages[0].as_py(), context("made"))) == {"id": "1", "tags": ["a"]}
