"""Typed keys and values as Spark asks for them, without Spark: planning, tasks, checkpoints."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from parley.client import Client, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import (
    ConfigError,
    RegistryError,
    RegistryUnreachable,
    SchemaDecodeError,
    SchemaNotFoundError,
)
from parley.registry import Schema, SchemaRegistryClient
from parley.serdes import Serializer
from parley.spark.options.source import read_source_options
from parley.spark.options.texts import Use
from parley.spark.source import ParleySource
from parley.spark.tables import options_of_read, schema_of_table
from parley.spark.values.schema import read_schema

from .typed_sources import CITY, LATER, cities, loaded, people, put, read, values

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True) as running:
        yield running


@pytest.fixture(scope="module")
def registry(cluster: LocalCluster) -> SchemaRegistryClient:
    return SchemaRegistryClient(cluster.schema_registry.url)


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(bootstrap_servers=cluster.bootstrap_servers) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: LocalCluster) -> str:
    name = re.sub("[^a-z0-9]+", "-", request.node.name)[:100]
    cluster.create_topic(name, partitions=1)
    return name


@pytest.fixture
def options(cluster: LocalCluster, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "valueFormat": "avro",
        "schemaRegistryUrl": cluster.schema_registry.url,
    }


def test_values_and_keys_are_columns(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str],
    cluster: LocalCluster,
) -> None:  # fmt: skip
    key = Serializer(registry, f"{topic}-key", Schema('"string"'), auto_register_schemas=True)
    old = cities(registry, topic, CITY)
    put(client, topic, [*old, None], key=pa.array([key("a"), key("b"), None, key("d")]))
    new = cities(registry, topic, LATER)
    put(client, topic, [*new])
    _, schema = loaded({**options, "keyFormat": "avro", "includeHeaders": "true"})
    assert schema["value"].dataType.simpleString() == (
        "struct<name:string,people:bigint,mayor:string>"
    )
    assert schema["key"].dataType.simpleString() == "string"
    assert schema.names[2:] == ["topic", "partition", "offset", "timestamp", "timestampType",
                                "headers"]  # fmt: skip
    cluster.schema_registry.clear_requests()
    rows = read({**options, "keyFormat": "avro"})
    assert [row["key"] for row in rows] == ["a", "b", None, "d", None, None, None]
    expected = [{"name": f"c{one}", "people": one, "mayor": "?"} for one in range(3)]
    assert [row["value"] for row in rows] == [*expected, None, *expected]
    assert [row["offset"] for row in rows] == [*range(7)]
    asked = [one.path for one in cluster.schema_registry.requests()]
    assert len(asked) == len({*asked}), "each once in a process"
    first = values({**options, "valueSchema": f"subject:{topic}-value:1"})
    assert first[0] == {"name": "c0", "people": 0}


def test_only_what_is_wanted_is_decoded(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    put(client, topic, [*cities(registry, topic, CITY)])
    chosen = {**options, "valueColumns": "people"}
    assert values(chosen) == [{"people": one} for one in range(3)]
    own = StructType().add("offset", LongType()).add("value", people(LongType()))
    assert values(options, own) == values(chosen)
    put(client, topic, [b"damaged"])
    without = StructType().add("offset", LongType()).add("key", StringType())
    assert len(read(options, without)) == 4, "nothing is decoded"
    for kind, why in (
        (people(IntegerType()), "value.people is bigint in the schema, and not int"),
        (people(LongType(), "peple"), r"City has no field peple.*people"),
        (people(LongType(), nullable=False), "NOT NULL, and may be null"),
        (BinaryType(), r"value is struct<.*> in the schema, and not binary"),
    ):
        with pytest.raises(ConfigError, match=why):
            read(options, StructType().add("value", kind))
    with pytest.raises(ConfigError, match='no column "_error"'):
        read(options, StructType().add("_error", StringType()))
    with pytest.raises(ConfigError, match=r"value: City has no field peple.*people"):
        loaded({**options, "valueColumns": "peple"})


def test_a_bad_message_is_named_or_set_aside(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str],
    cluster: LocalCluster,
) -> None:  # fmt: skip
    good = cities(registry, topic, CITY)
    damaged = [good[0][:-2], b"no frame", b"\x00\x00\x00\x99\x99ab"]
    keys = pa.array([None, b"\xff", b"k", None, None], pa.binary())
    put(client, topic, [good[0], *damaged, good[1]], key=keys)
    with pytest.raises(SchemaDecodeError, match=rf"at {topic}-0, offset 1 .*cannot be decoded"):
        read(options)
    source, schema = loaded(options)
    reader = source.reader(schema)
    batches = reader.read(reader.partitions()[0])
    assert next(batches).column("value").to_pylist() == [{"name": "c0", "people": 0}]
    rows = read({**options, "onSchemaError": "null"})
    assert [row["value"] and row["value"]["name"] for row in rows] == ["c0", None, None, None, "c1"]
    assert [row["_error"] and row["_error"]["code"] for row in rows] == [
        None, "datum", "framing", "schema", None]  # fmt: skip
    assert rows[2]["_error"]["bytes"] == b"no frame"
    letters = f"{topic}.dlq"
    cluster.create_topic(letters, partitions=1)
    aside = {**options, "onSchemaError": "dead-letter", "deadLetterTopic": letters}
    assert [row["value"]["name"] for row in read(aside)] == ["c0", "c1"]
    found = [
        row for one in client.fetch(TopicPartition(letters, 0), 0, 3) for row in one.to_pylist()
    ]
    assert [row["value"] for row in found] == damaged
    assert [row["key"] for row in found] == [b"\xff", b"k", None]
    said = {one["key"]: one["value"] for one in found[1]["headers"]}
    assert (said["__connect.errors.topic"], said["__connect.errors.partition"]) == (
        topic.encode(), b"0",
    )  # fmt: skip
    assert said["__connect.errors.offset"] == b"2"
    assert said["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert b"begins with" in said["__connect.errors.exception.message"]
    assert (said["parley-error"], said["parley-attempts"]) == (b"framing", b"1")
    with pytest.raises(SchemaDecodeError, match=r"offset 3.*more than deadLetterLimit=2"):
        read({**aside, "deadLetterLimit": "2"})
    again = {**aside, "subscribe": letters, "valueSubject": f"{topic}-value",
             "deadLetterTopic": f"{letters}.2"}  # fmt: skip
    cluster.create_topic(f"{letters}.2", partitions=1)
    assert read(again) == []
    (twice,) = client.fetch(TopicPartition(f"{letters}.2", 0), 1, 2)
    said = {one["key"]: one["value"] for one in twice.column("headers").to_pylist()[0]}
    assert (said["__connect.errors.topic"], said["__connect.errors.offset"]) == (
        topic.encode(), b"2")  # fmt: skip
    assert said["parley-attempts"] == b"2"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, "a duration of"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "a time in nanoseconds"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2},
            "a decimal of 40 digits, and Spark's have 38",
        ),
        (["null", "City"], "contains itself"),
    ],
)
def test_what_spark_cannot_hold_is_refused_at_planning(
    registry: SchemaRegistryClient, topic: str, options: dict[str, str], kind: Any, why: str
) -> None:
    nested = {"type": "record", "name": "In", "fields": [{"name": "x", "type": kind}]}
    schema = {**CITY, "fields": [*CITY["fields"], {"name": "inner", "type": nested}]}
    registry.register_schema(f"{topic}-value", Schema(json.dumps(schema)))
    given = {**options, "valueSchema": "latest"}
    with pytest.raises(ConfigError, match=rf"value\.inner\.x .*{why}.*valueColumns"):
        loaded(given)
    _, columns = loaded({**given, "valueColumns": "name,people"})
    assert columns["value"].dataType.simpleString() == "struct<name:string,people:bigint>"


def test_a_schema_of_another_format_is_refused_with_what_helps(
    registry: SchemaRegistryClient, topic: str, options: dict[str, str]
) -> None:
    registry.register_schema(f"{topic}-value", Schema(json.dumps(CITY)))
    expected = "AVRO, where JSON is wanted. Give valueFormat and valueSchema that belong together"
    with pytest.raises(ConfigError, match=expected):
        loaded({**options, "valueFormat": "json", "valueSchema": "latest"})


def test_times_of_day_are_numbers(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    noon = {"type": "record", "name": "Noon", "fields": [
        {"name": "micros", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "millis", "type": ["null", {"type": "int", "logicalType": "time-millis"}]},
        {"name": "none", "type": "null"},
    ]}  # fmt: skip
    serialize = Serializer(
        registry, f"{topic}-value", Schema(json.dumps(noon)), auto_register_schemas=True
    )
    at = dt.time(12, 0, 0, 5000)
    put(client, topic, [serialize({"micros": at, "millis": at, "none": None})])
    assert values(options) == [{"micros": 43_200_005_000, "millis": 43_200_005_000, "none": None}]


def test_what_is_wrong_is_said_when_a_query_is_planned(
    options: dict[str, str], topic: str, cluster: LocalCluster
) -> None:
    with pytest.raises(SchemaNotFoundError, match="register a schema under this subject"):
        loaded(options)
    down = {**options, "schemaRegistryUrl": "http://127.0.0.1:1",
            "schemaRegistryMaxRetries": "0"}  # fmt: skip
    with pytest.raises(RegistryUnreachable, match=r"127\.0\.0\.1:1"):
        loaded(down)
    for more, why in (
        ({"valueFormat": "avor"}, 'Did you mean "avro"'),
        ({"valueFromat": "avro"}, 'Did you mean "valueFormat"'),
        ({"valueSchema": "newest"}, "names no schema"),
        ({"onSchemaError": "dead-letter"}, "deadLetterTopic is not"),
        ({"deadLetterTopic": "x"}, "onSchemaError=dead-letter is not"),
        ({"deadLetterTopic": topic, "onSchemaError": "dead-letter"}, "of their own"),
        ({"subscribe": f"{topic},other"}, "valueSubject, or valueSchema=subject:NAME:latest"),
        ({"subscribe": f"{topic},{topic}-value"}, "latest of which subject"),
        ({"schemaRegistrySslCafile": "/x"}, "schemaRegistrySslCafile is given.*no https"),
        ({"schemaRegistryBasicAuthUserInfo": "canary-4711"}, "schemaRegistryBasicAuthUserInfo is"),
        ({"valueFraming": "confluence"}, 'Did you mean "confluent"'),
    ):
        with pytest.raises(ConfigError, match=why) as caught:
            loaded({**options, **more})
        assert "canary" not in str(caught.value)
    without = {name: text for name, text in options.items() if name != "schemaRegistryUrl"}
    with pytest.raises(ConfigError, match="needs a registry: give schemaRegistryUrl"):
        loaded(without)
    del without["valueFormat"]
    with pytest.raises(ConfigError, match="valueFormat is missing"):
        loaded({**without, "schemaRegistryUrl": "http://x:1"})


def test_a_registry_that_is_away_while_a_query_runs(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str],
    cluster: LocalCluster,
) -> None:  # fmt: skip
    given = {**options, "schemaRegistryMaxRetries": "0", "onSchemaError": "null"}
    put(client, topic, [*cities(registry, topic, CITY)])
    assert len(values(given)) == 3
    source, schema = loaded(given)
    reader = source.reader(schema)
    cluster.schema_registry.fail(503, times=-1)
    try:
        (known,) = reader.read(reader.partitions()[0])
        assert known.num_rows == 3, "what a process knows it need not ask for"
        cluster.schema_registry.fail(times=0)
        put(client, topic, [*cities(registry, topic, LATER)])
        cluster.schema_registry.fail(503, times=-1)
        with pytest.raises((RegistryUnreachable, RegistryError), match="503"):
            list(reader.read(reader.partitions()[0]))
    finally:
        cluster.schema_registry.fail(times=0)
    rows = [row for one in reader.read(reader.partitions()[0]) for row in one.to_pylist()]
    assert [row["_error"] for row in rows] == [None] * 6, "nothing is taken for a bad message"


def test_no_secret_shows(options: dict[str, str], registry: SchemaRegistryClient) -> None:
    given = {
        **options, "schemaRegistryUrl": "https://ann:canary-4711@x:1",
        "schemaRegistrySslPassword": "canary-4711", "valueSchema": "id:1",
    }  # fmt: skip
    read = read_source_options(given, Use.BATCH_READ)
    assert read.typed is not None
    assert "canary" not in repr(read)
    token = {**options, "schemaRegistryBearerAuthToken": "canary-4711"}
    assert "canary" not in repr(read_source_options(token, Use.STREAM_READ))
    login = {"schemaRegistryBasicAuthUserInfo": "ann:canary-4711"}
    table = schema_of_table(read_schema(False), {**given, **token, **login})
    assert "canary" not in table.json()


def test_a_table_keeps_the_schema_that_its_columns_are_of(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    put(client, topic, [*cities(registry, topic, CITY)])
    _, table = loaded({**options, "provider": "parley"})
    put(client, topic, [*cities(registry, topic, LATER)])
    source = ParleySource(options_of_read({}, table))
    reader = source.reader(table)
    rows = [row for one in reader.read(reader.partitions()[0]) for row in one.to_pylist()]
    assert [row["value"] for row in rows] == [{"name": f"c{one}", "people": one}
                                              for one in (0, 1, 2, 0, 1, 2)]  # fmt: skip


class Query:
    """A stream as Spark runs it: a source that is loaded, and offsets that a checkpoint keeps."""

    def __init__(self, folder: Path, options: dict[str, str]) -> None:
        self.folder = folder
        self.options = options
        (folder / "offsets").mkdir()
        self.batches = 0
        self.last: dict[str, Any] | None = None

    def run(self, **more: str) -> list[Any]:
        """Load, start, and read what is new; return the values."""
        source, schema = loaded({"startingOffsets": "earliest", **self.options, **more})
        planner, tasks = source.streamReader(schema), source.streamReader(schema)
        tasks = pickle.loads(pickle.dumps(tasks))
        start = planner.initialOffset() if self.last is None else self.last
        end = json.loads(json.dumps(planner.latestOffset(start, ALL)))
        assert planner.latestOffset(end, ALL) == end, "an idle stream keeps its text"
        text = f"v1\n{{}}\n{json.dumps(end)}"
        (self.folder / "offsets" / str(self.batches)).write_text(text)
        self.batches += 1
        rows = []
        for partition in planner.partitions(start, end):
            for batch in tasks.read(pickle.loads(pickle.dumps(partition))):
                assert to_arrow_schema(schema, timezone="UTC").equals(batch.schema)
                rows += batch.column("value").to_pylist()
        self.last = end
        return rows


def test_a_stream_goes_on_with_the_schema_that_it_began_with(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    put(client, topic, [*cities(registry, topic, CITY)])
    begun = registry.get_latest_version(f"{topic}-value").id
    query = Query(tmp_path, options)
    assert query.run() == [{"name": f"c{one}", "people": one} for one in range(3)]
    assert query.last is not None
    assert query.last["@schemas"] == {"value": f"id:{begun}"}
    docs = {**CITY, "doc": "the same columns"}
    put(client, topic, [*cities(registry, topic, docs)])
    assert query.run()[0] == {"name": "c0", "people": 0}
    assert query.last["@schemas"] == {"value": f"id:{begun}"}, "not the one with the same columns"
    put(client, topic, [*cities(registry, topic, LATER)])
    now = registry.get_latest_version(f"{topic}-value").id
    why = (
        rf"schema id:{begun}, and was loaded with id:{now}, .*value.mayor.*"
        rf"valueSchema=id:{begun}\. .*valueSchema=id:{now}\."
    )
    with pytest.raises(ConfigError, match=why):
        query.run()
    assert query.run(checkpointLocation=str(tmp_path)) == [
        {"name": f"c{one}", "people": one} for one in range(3)
    ]
    put(client, topic, [*cities(registry, topic, LATER)])
    assert query.run(checkpointLocation=f"file://{tmp_path}")[0] == {"name": "c0", "people": 0}
    put(client, topic, [*cities(registry, topic, LATER)])
    assert query.run(valueSchema=f"id:{now}")[0] == {"name": "c0", "people": 0, "mayor": "?"}
    assert query.last["@schemas"] == {"value": f"id:{now}"}
    put(client, topic, [*cities(registry, topic, LATER)])
    assert len(query.run()) == 3, "and latest is that now"


def test_a_schema_of_a_file_stands_in_the_checkpoint_itself(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    put(client, topic, [*cities(registry, topic, CITY)])
    file = tmp_path / "city.avsc"
    file.write_text(json.dumps(CITY))
    query = Query(tmp_path, {**options, "valueSchema": f"file:{file}"})
    assert len(query.run()) == 3
    assert query.last is not None
    kept = query.last["@schemas"]["value"]
    assert (kept["type"], json.loads(kept["schema"])) == ("AVRO", CITY)
    unknown = {**query.last, "@schemas": {"value": 7}}
    source, schema = loaded(options)
    with pytest.raises(ConfigError, match="names schemas that this parley does not know"):
        source.streamReader(schema).latestOffset(unknown, ALL)
