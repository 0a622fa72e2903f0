"""From confluent-kafka's serializers over a cluster and its registry into Arrow columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import (
    SchemaRegistryClient as TheirClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from parley import EARLIEST, LATEST, Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import RegistryUnreachable, SchemaDecodeError
from parley.registry import SchemaRegistryClient
from parley.serdes import ColumnDecoder

pytestmark = pytest.mark.foreign

AT = TopicPartition("cities", 0)
FIRST = [{"name": "name", "type": "string"}, {"name": "people", "type": "long"}]
LATER = [*FIRST, {"name": "founded", "type": ["null", {"type": "int", "logicalType": "date"}],
                  "default": None}]  # fmt: skip


def described(fields: list[dict[str, object]]) -> str:
    return json.dumps({"type": "record", "name": "City", "fields": fields})


def send(cluster: LocalCluster, fields: list[dict[str, object]], rows: int, **conf: object) -> None:
    """Write rows as their program would: the serializer registers the schema."""
    with TheirClient({"url": cluster.schema_registry.url}) as registry:
        serialize = AvroSerializer(registry, described(fields), conf=conf)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for index in range(rows):
            headers: list[tuple[str, bytes]] = []
            value = serialize(
                {"name": f"city {index}", "people": index, "founded": None},
                SerializationContext("cities", MessageField.VALUE, headers),
            )
            producer.produce("cities", value=value, headers=headers, partition=0)
        assert producer.flush(60) == 0


def test_writers_of_several_schemas_and_framings_become_one_table() -> None:
    with LocalCluster(brokers=1, schema_registry=True) as cluster:
        cluster.create_topic("cities")
        send(cluster, FIRST, 20)
        send(cluster, LATER, 20)
        header = {"schema.id.serializer": header_schema_id_serializer}
        send(cluster, LATER, 20, **header)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.produce("cities", pa.table({"value": pa.array([None, b"no frame"])}))
            batches = list(client.fetch(AT, EARLIEST, LATEST))
        registry = SchemaRegistryClient(cluster.schema_registry.url)
        latest = registry.get_latest_version("cities-value").schema
        cluster.schema_registry.clear_requests()
        decoder = ColumnDecoder(registry, latest, on_schema_error="null")
        table = pa.Table.from_batches([decoder.decode(one) for one in batches])
        values = table.column("value").combine_chunks()
        assert values.field("people").to_pylist() == [*range(20)] * 3 + [None, None]
        assert values.type.field("founded").type == pa.date32()
        errors = [one for one in table.column("_error").to_pylist() if one is not None]
        assert [(one["code"], one["bytes"]) for one in errors] == [("framing", b"no frame")]
        paths = [one.path for one in cluster.schema_registry.requests()]
        assert len(paths) == len(set(paths)) == 3, "each id and GUID once"

        cluster.schema_registry.stop()
        names = ColumnDecoder(registry, latest, columns=["name"], on_schema_error="null")
        known = names.decode(batches[0]).column("value")
        assert known.type == pa.struct([pa.field("name", pa.string(), nullable=False)])
        assert known[0].as_py() == {"name": "city 0"}, "what is known needs no registry"
        fresh = SchemaRegistryClient(cluster.schema_registry.url, max_retries=0)
        with pytest.raises(RegistryUnreachable):
            ColumnDecoder(fresh, latest, on_schema_error="null").decode(batches[0])
        strict = ColumnDecoder(registry, latest)
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        with pytest.raises(SchemaDecodeError, match=r"cities-0, offset 61.*begins with the bytes"):
            strict.decode(whole, topic="cities", partition=0)
