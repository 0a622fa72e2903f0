"""Fetches with a format: typed columns over a cluster and its registry."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley import EARLIEST, LATEST, AsyncClient, Client, FetchOptions, TopicPartition
from parley.client import SchemaOptions, record_shape
from parley.devcluster import LocalCluster
from parley.errors import (
    ConfigError,
    RegistryUnreachable,
    SchemaDecodeError,
    SchemaNotFoundError,
)
from parley.registry import RegistryOptions, Schema, SchemaRegistryClient
from parley.serdes import ColumnEncoder, Serializer

CITY = {"type": "record", "name": "City", "fields": [
    {"name": "name", "type": "string"}, {"name": "people", "type": "long"}]}  # fmt: skip
LATER = {**CITY, "fields": [*CITY["fields"], {"name": "mayor", "type": "string", "default": "?"}]}
AT = TopicPartition("cities", 0)
CITY_TYPE = pa.struct([("name", pa.string()), ("people", pa.int64())])


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True) as running:
        url = running.schema_registry.url
        registry = SchemaRegistryClient(url)
        key = Serializer(registry, "cities-key", Schema('"string"'), auto_register_schemas=True)
        running.create_topic("cities")
        running.create_topic("damaged")
        running.create_topic("documents")
        with Client(bootstrap_servers=running.bootstrap_servers) as client:
            for schema in (CITY, LATER):
                encoder = ColumnEncoder(
                    registry, "cities-value", Schema(json.dumps(schema)),
                    auto_register_schemas=True,
                )  # fmt: skip
                rows = pa.array([{"name": f"c{one}", "people": one} for one in range(3)], CITY_TYPE)
                keys = [key(f"k{one}") for one in range(3)]
                table = pa.table({"key": keys, "value": rows})
                client.produce("cities", encoder.encode(table), partition=0)
            good = encoder.encode_values(rows).array.to_pylist()
            values = [good[0], None, good[1], b"no frame", good[2], good[0][:-2]]
            client.produce("damaged", pa.table({"value": pa.array(values, pa.binary())}))
            documents = ColumnEncoder(
                registry, "documents-value", None, value_format="json", auto_register_schemas=True
            )
            client.produce("documents", documents.encode(pa.table({"value": rows})))
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as running:
        yield running


def test_values_and_keys_are_typed(cluster: LocalCluster, client: Client) -> None:
    url = cluster.schema_registry.url
    found = pa.Table.from_batches(
        list(client.fetch(AT, EARLIEST, LATEST, value_format="avro", key_format="avro",
                          schema_registry_url=url))
    )  # fmt: skip
    assert found.column("key").to_pylist() == ["k0", "k1", "k2"] * 2
    assert found.column("value").to_pylist() == [
        {"name": f"c{one}", "people": one, "mayor": "?"} for one in (0, 1, 2, 0, 1, 2)
    ]
    assert found.column("offset").to_pylist() == [*range(6)]
    first = pa.Table.from_batches(
        list(client.fetch(AT, 1, 5, value_format="avro", schema_registry_url=url,
                          value_schema="subject:cities-value:1", value_columns=["people"]))
    )  # fmt: skip
    assert first.column("value").to_pylist() == [{"people": one} for one in (1, 2, 0, 1)]
    assert first.column("key").type == pa.binary(), "what has no format stays bytes"


async def test_the_asynchronous_client_reads_several_topics(cluster: LocalCluster) -> None:
    ranges = {AT: (EARLIEST, LATEST), TopicPartition("damaged", 0): (EARLIEST, LATEST)}
    rows: dict[str, list[object]] = {"cities": [], "damaged": []}
    async with AsyncClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        async for found in client.fetch_many(
            ranges,
            value_format="avro",
            on_schema_error="null",
            schema_registry={"schema.registry.url": cluster.schema_registry.url},
            value_subject="cities-value",
        ):
            rows[found.partition.topic] += found.batch.column("value").to_pylist()
            if found.partition.topic == "damaged":
                errors = found.batch.column("_error").to_pylist()
    assert len(rows["cities"]) == 6
    assert [one is not None for one in rows["damaged"]] == [True, False, True, False, True, False]
    assert [one and one["code"] for one in errors] == [
        None, None, None, "framing", None, "datum",
    ]  # fmt: skip


@pytest.mark.parametrize("max_batch_rows", [2, 65_536])
def test_a_damaged_message_is_named_after_all_before_it(
    cluster: LocalCluster, client: Client, max_batch_rows: int
) -> None:
    seen: list[object] = []
    options = FetchOptions(max_batch_rows=max_batch_rows)
    place = TopicPartition("damaged", 0)
    reading = client.fetch_many(
        {place: (EARLIEST, LATEST)}, options, value_format="avro", value_subject="cities-value",
        schema_registry_url=cluster.schema_registry.url,
    )  # fmt: skip
    last = 0

    def drain() -> None:
        nonlocal last
        for found in reading:
            seen.extend(found.batch.column("value").to_pylist())
            last = found.next_offset

    with pytest.raises(SchemaDecodeError, match=r"damaged-0, offset 3.*begins with") as caught:
        drain()
    assert [one and one["name"] for one in seen] == ["c0", None, "c1"]  # type: ignore[index]
    assert last == 3
    assert caught.value.code == "framing"
    with pytest.raises(SchemaDecodeError, match=r"damaged-0, offset 5 .*schema id"):
        list(client.fetch(place, 4, LATEST, value_format="avro", value_subject="cities-value",
                          schema_registry_url=cluster.schema_registry.url))  # fmt: skip


def test_json_and_a_schema_of_the_callers_own(cluster: LocalCluster, client: Client) -> None:
    place = TopicPartition("documents", 0)
    (found,) = client.fetch(
        place, EARLIEST, LATEST, value_format="json",
        schema_registry_url=cluster.schema_registry.url,
    )  # fmt: skip
    assert found.column("value").to_pylist() == [
        {"name": f"c{one}", "people": one} for one in range(3)
    ]
    own = Schema('{"properties": {"people": {"type": "number"}}}', "JSON")
    cluster.schema_registry.clear_requests()
    (found,) = client.fetch(place, EARLIEST, LATEST, value_format="json", value_schema=own)
    assert found.column("value").to_pylist() == [{"people": float(one)} for one in range(3)]
    assert cluster.schema_registry.requests() == []


def test_the_registry_is_asked_once_and_before_anything_is_read(
    cluster: LocalCluster, client: Client
) -> None:
    url = cluster.schema_registry.url
    cluster.schema_registry.clear_requests()
    batches = list(
        client.fetch(
            AT,
            EARLIEST,
            LATEST,
            FetchOptions(max_batch_rows=1),
            value_format="avro",
            schema_registry_url=url,
        )
    )
    assert len(batches) == 2, "one for each record batch"
    assert len(cluster.schema_registry.requests()) == 3, "the reader's schema, and two ids"
    with pytest.raises(SchemaNotFoundError, match="register a schema under this subject first"):
        next(client.fetch(TopicPartition("nowhere", 0), 0, value_format="avro",
                          schema_registry_url=url))  # fmt: skip
    unreachable = RegistryOptions(url="http://127.0.0.1:1", max_retries=0)
    with pytest.raises(RegistryUnreachable):
        next(client.fetch(AT, 0, value_format="avro", schema_registry=unreachable))


def test_what_cannot_be_is_refused_at_once(cluster: LocalCluster, client: Client) -> None:
    url = cluster.schema_registry.url
    for options, why in (
        ({"value_format": "avor"}, 'Did you mean "avro"'),
        ({"value_frmat": "avro"}, 'Did you mean "value_format"'),
        ({"schema_registry_url": url}, "value_format is missing"),
        ({"value_format": "avro"}, "needs a registry"),
        ({"value_format": "avro", "schema_registry_url": url, "value_schema": "newest"},
         "names no schema"),
        ({"value_format": "avro", "schema_registry_url": url, "schema_registry": {}}, "give one"),
        ({"value_format": "avro", "schema_registry": 5}, "not int"),
        ({"value_format": "avro", "value_schema": 5}, "not int"),
        ({"value_format": "avro", "schema_registry_url": url, "on_schema_error": "skip"}, "null"),
        ({"value_format": "avro", "schema_registry_url": url, "value_framing": "confluence"},
         'Did you mean "confluent"'),
        ({"value_format": "avro", "schema_registry_url": url, "value_columns": "name"},
         r"\[.name.\]"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=why):
            next(client.fetch(AT, 0, **options))  # type: ignore[arg-type]
    without = FetchOptions(shape=record_shape(["key", "offset"]))
    with pytest.raises(ConfigError, match="has no column value"):
        list(client.fetch(AT, 0, 1, without, value_format="avro", schema_registry_url=url))
    shown = SchemaOptions(value_format="avro", schema_registry_url="http://ann:secret@x:1")
    assert "secret" not in repr(shown)
