"""`envelope=flat`: fields of values as columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.errors import ConfigError
from parley.registry import Schema, SchemaRegistryClient
from parley.serdes import Serializer
from parley.spark.tables import schema_of_table

from .typed_sources import CITY, cities, loaded, put, read

RECORD = ["key", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def registry(cluster: LocalCluster) -> SchemaRegistryClient:
    return SchemaRegistryClient(cluster.schema_registry.url)


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: LocalCluster) -> str:
    name = re.sub(r"[^a-z_]", "", request.node.name)[:200]
    cluster.create_topic(name, partitions=1)
    return name


@pytest.fixture
def options(cluster: LocalCluster, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "schemaRegistryUrl": cluster.schema_registry.url,
        "subscribe": topic,
        "valueFormat": "avro",
        "envelope": "flat",
    }


def test_fields_are_columns_before_the_records(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    put(client, topic, [*cities(registry, topic, CITY)[:2], None], key=pa.array(["a", None, "c"]))
    _, schema = loaded(options)
    assert schema.names == ["name", "people", *RECORD]
    rows = [(row["name"], row["people"], row["key"], row["offset"]) for row in read(options)]
    assert rows == [("c0", 0, b"a", 0), ("c1", 1, None, 1), (None, None, b"c", 2)]


def test_only_columns_that_are_named_are_decoded(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    put(client, topic, cities(registry, topic, CITY)[1:2])
    own = StructType().add("offset", LongType()).add("people", LongType()).add("topic", "string")
    assert read(options, own) == [{"offset": 0, "people": 1, "topic": topic}]
    assert read({**options, "valueColumns": "name"})[0].keys() == {"name", *RECORD}
    put(client, topic, [b"damaged"])
    assert read(options, StructType().add("offset", LongType())) == [{"offset": 0}, {"offset": 1}]
    for name, kind, why in (
        ("ofset", LongType(), "City has no field ofset"),
        ("people", StringType(), "value.people is bigint in the schema, and not string"),
    ):
        with pytest.raises(ConfigError, match=why):
            read(options, StructType().add(name, kind))


def test_what_cannot_be_decoded_has_no_fields_and_says_why(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    put(client, topic, [cities(registry, topic, CITY)[2], b"no frame"])
    rows = read({**options, "onSchemaError": "null"})
    assert [(row["name"], row["people"]) for row in rows] == [("c2", 2), (None, None)]
    assert [row["_error"] and row["_error"]["bytes"] for row in rows] == [None, b"no frame"]


def test_a_table_keeps_its_columns(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    """Spark hands the columns alone to a read: the first has the options, as metadata."""
    put(client, topic, cities(registry, topic, CITY))
    _, schema = loaded(options)
    assert [row["people"] for row in read({}, schema_of_table(schema, options))] == [0, 1, 2]


@pytest.mark.parametrize(
    ("schema", "changed", "why"),
    [
        (
            {**CITY, "fields": [{"name": "Offset", "type": "long"}]},
            {},
            'the values have a field "Offset", and records have a column "offset"',
        ),
        ("string", {}, "needs values with fields, and these are string"),
        (CITY, {"envelope": "flatt"}, "envelope=.*columns.*flat"),
    ],
)
def test_what_cannot_be_flat_is_refused_when_it_is_loaded(
    registry: SchemaRegistryClient,
    topic: str,
    options: dict[str, str],
    schema: object,
    changed: dict[str, str],
    why: str,
) -> None:
    text = Schema(json.dumps(schema))
    Serializer(registry, f"{topic}-value", text, auto_register_schemas=True).prepare()
    with pytest.raises(ConfigError, match=why):
        loaded({**options, **changed})


def test_bytes_cannot_be_flat(options: dict[str, str]) -> None:
    given = {**options, "keyFormat": "avro"}
    del given["valueFormat"]
    with pytest.raises(ConfigError, match="envelope=flat needs valueFormat"):
        loaded(given)
