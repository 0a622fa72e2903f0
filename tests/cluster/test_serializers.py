"""Single values and columns through a cluster and its registry; confluent-kafka both ways."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient as TheirClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from parley import EARLIEST, LATEST, AsyncProducer, Client, Producer, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, SchemaError, SchemaNotFoundError
from parley.registry import RegisteredSchema, Schema, SchemaRegistryClient
from parley.serdes import ColumnDecoder, ColumnEncoder, Deserializer, Serializer

pytestmark = pytest.mark.foreign

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line",
            "fields": [{"name": "what", "type": "string"}, {"name": "much", "type": "double"}]}}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string", "long"]}},
    ],
}  # fmt: skip


def order(number: int) -> dict[str, object]:
    return {
        "number": number,
        "at": dt.datetime(2026, 11, 3, 4, 5, 6, number, dt.UTC),
        "day": dt.date(2026, 11, 3) if number % 2 else None,
        "price": Decimal(number) / 4,
        "lines": [{"what": f"item {one}", "much": one / 2} for one in range(number % 3)],
        "tags": {"a": None, "b": "text", "c": number},
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


def context(topic: str, headers: list[tuple[str, bytes]] | None = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_their_serializer_and_ours_write_the_same_bytes(
    theirs: TheirClient, registry: SchemaRegistryClient
) -> None:
    their = AvroSerializer(theirs, json.dumps(ORDER))
    ours = Serializer(registry, "same-value", Schema(json.dumps(ORDER)), auto_register_schemas=True)
    read, their_read = Deserializer(registry), AvroDeserializer(theirs)
    for number in range(20):
        message = ours(order(number))
        assert message == their(order(number), context("same"))
        assert read(message) == their_read(message, context("same")) == order(number)


def test_headers_and_keys(theirs: TheirClient, registry: SchemaRegistryClient) -> None:
    schema = Schema(json.dumps(ORDER))
    headed = Serializer(
        registry, "headed-value", schema, framing="confluent-header", auto_register_schemas=True
    )
    frame = headed.frame(order(3))
    assert AvroDeserializer(theirs)(frame.value, context("headed", list(frame.headers))) == order(3)
    with pytest.raises(ConfigError, match=r"send frame\(value\)\.value"):
        headed(order(3))
    headers: list[tuple[str, bytes]] = []
    their = AvroSerializer(
        theirs, json.dumps(ORDER), conf={"schema.id.serializer": header_schema_id_serializer}
    )
    message = their(order(5), context("headed", headers))
    assert message is not None
    assert message == headed.frame(order(5)).value
    assert dict(headers)["__value_schema_id"] == dict(frame.headers)["__value_schema_id"]
    assert Deserializer(registry)(message, headers) == order(5)
    key = Serializer(
        registry, "headed-key", Schema('"string"'), framing="confluent-header", is_key=True,
        auto_register_schemas=True,
    ).frame("a")  # fmt: skip
    assert [name for name, _ in key.headers] == ["__key_schema_id"]


def test_which_schema_is_written_with(
    cluster: LocalCluster, registry: SchemaRegistryClient, tmp_path: Path
) -> None:
    first = registry.register_schema("chosen", Schema('{"type":"int"}'))
    second = registry.register_schema("chosen", Schema('{"type":"long"}'))
    found = {
        "latest": second, "subject:chosen:latest": second, "subject:chosen:1": first,
        f"id:{first.id}": first,
    }  # fmt: skip
    for choice, wanted in found.items():
        chosen = registry.choose_schema(choice, "chosen")
        assert isinstance(chosen, RegisteredSchema)
        assert chosen.id == wanted.id, choice
        message = Serializer(registry, "chosen", choice)(5)
        assert message == b"\0" + wanted.id.to_bytes(4, "big") + b"\x0a"
    assert first.guid is not None
    by_guid = Serializer(registry, "chosen", f"guid:{first.guid.text}")
    assert by_guid(5) == b"\0" + first.id.to_bytes(4, "big") + b"\x0a"
    file = tmp_path / "new.avsc"
    file.write_text('{"type": "double"}')
    with pytest.raises(
        SchemaError, match=r"not registered under files.*auto_register_schemas=True"
    ):
        Serializer(registry, "files", f"file:{file}")(1.0)
    made = Serializer(registry, "files", f"file:{file}", auto_register_schemas=True)
    cluster.schema_registry.clear_requests()
    assert made(1.0) == made(1.0)
    assert len(cluster.schema_registry.requests()) == 1, "asked once"
    assert registry.get_versions("files") == [1]
    for bad, why in (
        ("newest", "names no schema"), ("id:x", "names no schema"), ("subject:a", "names no"),
        ("file:/nowhere.avsc", "cannot be read"), ("file:a.txt", r"\.avsc, \.json, \.proto"),
        ("guid:5", "no GUID"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=why):
            registry.choose_schema(bad, "chosen")
    with pytest.raises(ConfigError, match="of which subject"):
        registry.choose_schema("latest")
    with pytest.raises(SchemaNotFoundError):
        Serializer(registry, "nothing-there")(1)


def test_json_both_ways(theirs: TheirClient, registry: SchemaRegistryClient) -> None:
    described = {
        "title": "City",
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "people": {"type": "integer"},
            "founded": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        },
        "required": ["name"],
    }
    value = {"name": "Zürich", "people": 5, "founded": None}
    their = JSONSerializer(json.dumps(described), theirs)
    message = their(value, context("j"))
    assert message is not None
    assert Deserializer(registry, value_format="json")(message) == value
    ours = Serializer(registry, "j-value", value_format="json")
    their_read = JSONDeserializer(None, schema_registry_client=theirs)
    assert their_read(ours(value), context("j")) == value
    assert ours(value)[:5] == message[:5], "the same schema"  # type: ignore[index]

    schema = registry.get_latest_version("j-value").schema
    decoder = ColumnDecoder(registry, schema, value_format="json")
    column = decoder.decode_values(pa.array([message, ours(value), None], pa.binary())).array
    assert column.to_pylist() == [value, value, None]
    encoder = ColumnEncoder(registry, "j-value", value_format="json")
    messages = encoder.encode_values(column).array.to_pylist()
    fewer = {"name": "Zürich", "people": 5}
    assert [their_read(one, context("j")) for one in messages] == [fewer, fewer, None]
    derived = ColumnEncoder(
        registry, "derived-value", None, value_format="json", auto_register_schemas=True
    )
    messages = derived.encode_values(column).array.to_pylist()
    assert their_read(messages[0], context("derived")) == fewer


async def test_producers_take_serializers(
    cluster: LocalCluster, registry: SchemaRegistryClient, theirs: TheirClient
) -> None:
    cluster.create_topic("orders")
    serialize = Serializer(
        registry, "orders-value", Schema(json.dumps(ORDER)), auto_register_schemas=True
    )
    serialize.prepare()
    servers = cluster.bootstrap_servers
    async with AsyncProducer(bootstrap_servers=servers, value_serializer=serialize) as producer:
        await producer.send_and_wait("orders", order(0), partition=0)
    with Producer(bootstrap_servers=servers, value_serializer=serialize) as producer:
        producer.produce("orders", order(1), partition=0)
        producer.flush()
    with Client(bootstrap_servers=servers) as client:
        (batch,) = pa.Table.from_batches(
            list(client.fetch(TopicPartition("orders", 0), EARLIEST, LATEST))
        ).combine_chunks().to_batches()  # fmt: skip
    messages = batch.column("value").to_pylist()
    assert [AvroDeserializer(theirs)(one, context("orders")) for one in messages] == [
        order(0), order(1),
    ]  # fmt: skip
    assert [Deserializer(registry)(one) for one in messages] == [order(0), order(1)]


@pytest.mark.parametrize("framing", ["confluent-prefix", "confluent-header"])
def test_columns_are_written_for_their_deserializer(
    cluster: LocalCluster, registry: SchemaRegistryClient, theirs: TheirClient, framing: str
) -> None:
    topic = f"columns-{framing}"
    cluster.create_topic(topic)
    ids = pa.array([uuid.UUID(int=one).bytes for one in (1, 2, 0)], pa.binary(16))
    values = pa.StructArray.from_arrays(
        [
            pa.ExtensionArray.from_storage(pa.uuid(), ids),
            pa.array([1, 2, 0], pa.int32()),
            pa.array([order(1)["at"], order(2)["at"], None], pa.timestamp("us", tz="UTC")),
        ],
        fields=[
            pa.field("id", pa.uuid(), nullable=False),
            pa.field("n", pa.int32()),
            pa.field("at", pa.timestamp("us", tz="UTC")),
        ],
        mask=pa.array([False, False, True]),
    )
    rows = pa.table({"key": ["a", "b", "c"], "value": values})
    encoder = ColumnEncoder(registry, f"{topic}-value", None, framing=framing)
    with pytest.raises(SchemaError, match="auto_register_schemas=True"):
        encoder.encode(rows)
    encoder = ColumnEncoder(
        registry, f"{topic}-value", None, framing=framing, auto_register_schemas=True
    )
    at = TopicPartition(topic, 0)
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.produce(topic, encoder.encode(rows), partition=0)
        table = pa.Table.from_batches(list(client.fetch(at, EARLIEST, LATEST)))
    read = AvroDeserializer(theirs)
    found = [
        read(value, context(topic, [(one["key"], one["value"]) for one in headers or ()]))
        for value, headers in zip(
            table.column("value").to_pylist(), table.column("headers").to_pylist(), strict=True
        )
    ]
    assert found == [
        {"id": uuid.UUID(int=one), "n": one, "at": order(one)["at"]} for one in (1, 2)
    ] + [None]  # fmt: skip
    schema = registry.get_latest_version(f"{topic}-value").schema
    assert json.loads(schema.text)["name"] == f"columns_{framing.replace('-', '_')}_value"
    decoder = ColumnDecoder(registry, schema)
    back = pa.Table.from_batches([decoder.decode(one) for one in table.to_batches()])
    assert [one and one["n"] for one in back.column("value").to_pylist()] == [1, 2, None]
