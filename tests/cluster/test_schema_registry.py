"""The embedded schema registry: confluent-kafka's client and serializers, and parley's client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import (
    Schema as TheirSchema,
    SchemaReference as TheirReference,
    SchemaRegistryClient as TheirClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp

from parley.devcluster import LocalCluster, Security
from parley.errors import (
    ConfigError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnreachable,
    SchemaNotFoundError,
)
from parley.registry import (
    AsyncSchemaRegistryClient,
    RegistryOptions,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from parley.serdes import SchemaGuid, SchemaId, framing

pytestmark = pytest.mark.foreign

CITY = {
    "type": "record",
    "name": "City",
    "fields": [{"name": "name", "type": "string"}, {"name": "people", "type": "long"}],
}
OSLO = {"name": "Oslo", "people": 717_710}


def avro(**changed: object) -> str:
    return json.dumps({**CITY, **changed})


def with_field(name: str, kind: str, **more: object) -> str:
    return avro(fields=[*CITY["fields"], {"name": name, "type": kind, **more}])


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, schema_registry=True) as running:
        yield running


@contextmanager
def their_client(**config: str) -> Iterator[TheirClient]:
    """Their client by its options; its connections end with it."""
    with TheirClient({name.replace("_", "."): value for name, value in config.items()}) as client:
        yield client


@pytest.fixture
def theirs(cluster: LocalCluster) -> Iterator[TheirClient]:
    with their_client(url=cluster.schema_registry.url) as client:
        yield client


@pytest.fixture
def ours(cluster: LocalCluster) -> SchemaRegistryClient:
    return SchemaRegistryClient(cluster.schema_registry.url)


def value_of(topic: str, headers: list[tuple[str, bytes]] | None = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_their_avro_serializers_work_and_ours_find_the_schema(
    cluster: LocalCluster, theirs: TheirClient, ours: SchemaRegistryClient
) -> None:
    serialize = AvroSerializer(theirs, avro())
    cluster.schema_registry.clear_requests()
    message = serialize(OSLO, value_of("cities"))
    assert message is not None
    assert serialize(OSLO, value_of("cities")) == message
    asked = [(one.method, one.path, one.status) for one in cluster.schema_registry.requests()]
    assert ("POST", "/subjects/cities-value/versions", 200) in asked
    assert asked[0][1:] == ("/associations/resources/-/cities", 404)
    assert len(asked) <= 3, "one registration for any number of messages"

    found = framing("confluent").read(message)
    assert isinstance(found.schema, SchemaId)
    assert json.loads(ours.get_schema_for(found.schema).text) == CITY
    with their_client(url=cluster.schema_registry.url) as fresh:
        assert AvroDeserializer(fresh)(message, value_of("cities")) == OSLO


def test_their_deserializer_reads_what_is_framed_here(
    theirs: TheirClient, ours: SchemaRegistryClient
) -> None:
    registered = ours.register_schema("framed-value", Schema(avro()))
    datum = b"\x08Oslo" + b"\x9c\xce\x57"  # 4 letters, zigzag 717,710
    message = framing("confluent").write(datum, SchemaId(registered.id))
    assert AvroDeserializer(theirs)(message.value, value_of("framed")) == OSLO
    assert registered.guid is not None
    headed = framing("confluent").write(datum, registered.guid)
    context = value_of("framed", list(headed.headers))
    assert headed.value == datum
    assert AvroDeserializer(theirs)(headed.value, context) == OSLO


def test_their_header_framing_leads_to_the_schema_by_its_guid(
    theirs: TheirClient, ours: SchemaRegistryClient
) -> None:
    headers: list[tuple[str, bytes]] = []
    serialize = AvroSerializer(
        theirs, avro(), conf={"schema.id.serializer": header_schema_id_serializer}
    )
    message = serialize(OSLO, value_of("headed", headers))
    assert message is not None
    found = framing("confluent").read(message, headers)
    assert isinstance(found.schema, SchemaGuid)
    assert bytes(found.payload) == message
    assert json.loads(ours.get_schema_for(found.schema).text) == CITY
    assert str(UUID(found.schema.text)) == found.schema.text


def test_their_json_and_protobuf_serializers_work(
    theirs: TheirClient, ours: SchemaRegistryClient
) -> None:
    described = json.dumps({"title": "City", "type": "object", "properties": {"name": {}}})
    as_json = JSONSerializer(described, theirs)
    message = as_json({"name": "Oslo"}, value_of("j"))
    assert message is not None
    found = framing("confluent").read(message)
    assert found.schema is not None
    assert ours.get_schema_for(found.schema).schema_type == "JSON"
    assert json.loads(bytes(found.payload)) == {"name": "Oslo"}
    assert JSONDeserializer(described)(message, value_of("j")) == {"name": "Oslo"}

    moment = Timestamp(seconds=5)
    as_protobuf = ProtobufSerializer(Timestamp, theirs, {"use.deprecated.format": False})
    message = as_protobuf(moment, value_of("p"))
    assert message is not None
    from parley.serdes import Confluent

    found = Confluent(protobuf=True).read(message)
    assert found.message_indexes == (0,)
    assert found.schema is not None
    assert ours.get_schema_for(found.schema).schema_type == "PROTOBUF"
    assert bytes(found.payload) == moment.SerializeToString()
    back = ProtobufDeserializer(Timestamp, {"use.deprecated.format": False})
    assert back(message, value_of("p")) == moment


def test_both_clients_see_the_same_registry(
    theirs: TheirClient, ours: SchemaRegistryClient
) -> None:
    first = theirs.register_schema_full_response("same", TheirSchema(avro(), "AVRO"))
    again = ours.register_schema("same", Schema(json.dumps(CITY, indent=4)))
    assert (again.id, again.version) == (first.schema_id, 1), "spaces make no other schema"
    assert again.guid is not None
    assert again.guid.text == first.guid
    second = ours.register_schema("same", Schema(with_field("mayor", "string", default="")))
    assert second.version == 2
    assert theirs.get_versions("same") == ours.get_versions("same") == [1, 2]
    latest = theirs.get_latest_version("same")
    assert (latest.version, latest.schema_id) == (2, second.id)
    found = ours.get_latest_version("same")
    assert (found.version, found.id, found.subject) == (2, second.id, "same")
    looked_up = theirs.lookup_schema("same", TheirSchema(avro(), "AVRO"))
    assert (looked_up.version, looked_up.schema_id) == (1, first.schema_id)
    assert ours.lookup_schema("same", Schema(avro())).version == 1
    assert "same" in ours.get_subjects()
    text = theirs.get_schema_by_guid(str(first.guid)).schema_str
    assert json.loads(str(text)) == json.loads(ours.get_schema(again.id).text) == CITY
    assert [
        one.version for one in theirs.get_schema_versions(first.schema_id) if one.subject == "same"
    ] == [1]
    other = ours.register_schema("a/b ü", Schema(avro()))
    assert (other.id, other.version) == (again.id, 1), "one id under all subjects"
    assert theirs.get_versions("a/b ü") == [1]


def test_references_are_followed(theirs: TheirClient, ours: SchemaRegistryClient) -> None:
    ours.register_schema("a.City", Schema(avro(namespace="a")))
    people = Schema(
        '{"type":"record","name":"Person","namespace":"a","fields":[{"name":"home","type":"City"}]}',
        references=(SchemaReference("a.City", "a.City", 1),),
    )
    ours.register_schema("a.Person", people)
    trip = {
        "type": "record",
        "name": "Trip",
        "fields": [{"name": "who", "type": "a.Person"}, {"name": "to", "type": "a.City"}],
    }
    references = [TheirReference("a.Person", "a.Person", 1), TheirReference("a.City", "a.City", 1)]
    schema = TheirSchema(json.dumps(trip), "AVRO", references)
    message = AvroSerializer(theirs, schema)({"who": {"home": OSLO}, "to": OSLO}, value_of("trips"))
    assert message is not None
    ref = framing("confluent").read(message).schema
    assert ref is not None
    followed = ours.get_references(ours.get_schema_for(ref))
    assert [one.name for one in followed] == ["a.City", "a.Person"]
    with pytest.raises(RegistryError, match=r"42206.*One or more references exist"):
        ours.delete_subject("a.City")
    with pytest.raises(InvalidSchemaError, match='subject "gone" and version 1'):
        ours.register_schema("x", Schema('"X"', references=(SchemaReference("X", "gone", 1),)))


@pytest.mark.parametrize(
    ("level", "optional", "required", "removed"),
    [
        ("BACKWARD", True, False, True),
        ("FORWARD", True, True, False),
        ("FULL", True, False, False),
        ("NONE", True, True, True),
        ("BACKWARD_TRANSITIVE", True, False, True),
        ("FORWARD_TRANSITIVE", True, True, False),
        ("FULL_TRANSITIVE", True, False, False),
    ],
)
def test_compatibility_levels(
    theirs: TheirClient,
    ours: SchemaRegistryClient,
    level: str,
    optional: bool,
    required: bool,
    removed: bool,
) -> None:
    subject = f"level-{level}"
    ours.register_schema(subject, Schema(avro()))
    ours.set_compatibility(level, subject)
    assert theirs.get_config(subject).compatibility_level.value == level
    assert ours.get_compatibility(subject) == level
    fewer = avro(fields=CITY["fields"][:1])
    for text, may in (
        (with_field("mayor", "string", default=""), optional),
        (with_field("mayor", "string"), required),
        (fewer, removed),
        (avro(name="Town"), level == "NONE"),
    ):
        found = ours.test_compatibility(subject, Schema(text))
        assert bool(found) is may, found.messages
        assert theirs.test_compatibility(subject, TheirSchema(text, "AVRO")) is may
        if not may:
            with pytest.raises(IncompatibleSchemaError, match="test_compatibility says why"):
                ours.register_schema(subject, Schema(text))
            with pytest.raises(SchemaRegistryError) as caught:
                theirs.register_schema(subject, TheirSchema(text, "AVRO"))
            assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)


def test_transitive_levels_look_at_all_versions(ours: SchemaRegistryClient) -> None:
    def one(kind: str | None) -> Schema:
        field = [] if kind is None else [{"name": "x", "type": kind, "default": "a"}]
        return Schema(avro(fields=[*CITY["fields"], *field]))

    number = Schema(avro(fields=[*CITY["fields"], {"name": "x", "type": "int", "default": 0}]))
    for subject, level in (("t1", "BACKWARD"), ("t2", "BACKWARD_TRANSITIVE")):
        ours.register_schema(subject, number)
        ours.register_schema(subject, one(None))
        ours.set_compatibility(level, subject)
        found = ours.test_compatibility(subject, one("string"), None)
        assert found.is_compatible is (level == "BACKWARD")
    assert any("oldSchemaVersion: 1" in text for text in found.messages)


def test_what_is_not_there_is_said(theirs: TheirClient, ours: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaNotFoundError, match=r"40401.*register a schema under this subject"):
        ours.get_latest_version("none")
    ours.register_schema("one", Schema('"string"'))
    with pytest.raises(SchemaNotFoundError, match="40402"):
        ours.get_version("one", 7)
    with pytest.raises(SchemaNotFoundError, match="40403"):
        ours.lookup_schema("one", Schema('"bytes"'))
    with pytest.raises(InvalidSchemaError, match=r"42201.*there is no type"):
        ours.register_schema("one", Schema('{"type": "array", "items": "Nothing"}'))
    for call, code in (
        (lambda: theirs.get_schema(4711), 40403),
        (lambda: theirs.get_latest_version("none"), 40401),
        (lambda: theirs.get_version("one", 7), 40402),
        (lambda: theirs.get_config("one"), 40408),
        (lambda: ours.delete_subject("one", permanent=True), 40405),
    ):
        with pytest.raises((SchemaRegistryError, RegistryError)) as caught:
            call()
        assert caught.value.error_code == code


def test_subjects_are_deleted_first_softly(theirs: TheirClient, ours: SchemaRegistryClient) -> None:
    registered = ours.register_schema("bin", Schema(avro()))
    assert ours.delete_subject("bin") == [1]
    assert "bin" not in theirs.get_subjects()
    assert "bin" in theirs.get_subjects(deleted=True)
    assert json.loads(theirs.get_schema(registered.id).schema_str) == CITY
    with pytest.raises(RegistryError, match="40404"):
        ours.delete_subject("bin")
    assert ours.delete_subject("bin", permanent=True) == [1]
    assert "bin" not in theirs.get_subjects(deleted=True)
    again = ours.register_schema("bin", Schema(avro()))
    assert again.id == registered.id


def test_a_read_only_registry_takes_nothing(
    theirs: TheirClient, ours: SchemaRegistryClient
) -> None:
    ours.register_schema("ro", Schema(avro()))
    assert theirs.update_mode("ro", "READONLY") == "READONLY"
    assert theirs.get_mode("ro") == "READONLY"
    assert ours.register_schema("ro", Schema(avro())).version == 1
    with pytest.raises(RegistryError, match=r"42205.*read-only"):
        ours.register_schema("ro", Schema(with_field("mayor", "string", default="")))
    assert theirs.get_global_mode() == "READWRITE"


def test_schemas_survive_a_kill_and_are_in_a_topic(tmp_path: Path) -> None:
    from parley import EARLIEST, LATEST, Client, TopicPartition

    with LocalCluster(brokers=3, data_dir=tmp_path, schema_registry=True) as cluster:
        ours = SchemaRegistryClient(cluster.schema_registry.url)
        first = ours.register_schema("kept", Schema(avro()))
        ours.set_compatibility("FULL", "kept")
        ours.register_schema("gone", Schema('"string"'))
        ours.delete_subject("gone")
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            batches = client.fetch(TopicPartition("_schemas", 0), EARLIEST, LATEST)
            rows = [row for batch in batches for row in batch.to_pylist()]
        assert [json.loads(row["key"])["keytype"] for row in rows] == [
            "SCHEMA", "CONFIG", "SCHEMA", "SCHEMA",
        ]  # fmt: skip
        assert json.loads(rows[0]["value"])["subject"] == "kept"
        url = cluster.schema_registry.url
        for broker in cluster.brokers:
            broker.kill()
        with pytest.raises(RegistryError, match=r"50003.*no leader"):
            SchemaRegistryClient(url, max_retries=0).register_schema("x", Schema('"int"'))
    with LocalCluster(brokers=3, data_dir=tmp_path, schema_registry=True) as cluster:
        ours = SchemaRegistryClient(cluster.schema_registry.url)
        assert ours.get_subjects() == ["kept"]
        assert json.loads(ours.get_schema(first.id).text) == CITY
        assert ours.get_compatibility("kept") == "FULL"
        assert ours.register_schema("gone", Schema('"string"')).version == 2
        assert ours.register_schema("new", Schema('"double"')).id > first.id + 1


@pytest.mark.parametrize("release", ["0.9", "0.10.2", "2.4"])
def test_every_release_keeps_schemas(release: str) -> None:
    with LocalCluster(brokers=1, release=release, schema_registry=True) as cluster:
        registry = cluster.schema_registry
        made = SchemaRegistryClient(registry.url).register_schema("s", Schema(avro()))
        registry.stop()
        registry.start()
        assert json.loads(SchemaRegistryClient(registry.url).get_schema(made.id).text) == CITY


def test_https_and_a_login(tmp_path: Path) -> None:
    security = Security("SASL_SSL", users={"ann": "se:cret"})
    with LocalCluster(brokers=1, schema_registry=security) as cluster:
        config = cluster.schema_registry.client_config()
        ours = SchemaRegistryClient(options=RegistryOptions.from_config(config))
        made = ours.register_schema("s", Schema(avro()))
        ca = tmp_path / "ca.pem"
        ca.write_text(config["ssl.truststore.certificates"])
        more = {"ssl_ca_location": str(ca), "basic_auth_user_info": "ann:se:cret"}
        with their_client(url=config["url"], **more) as theirs:
            assert json.loads(str(theirs.get_schema(made.id).schema_str)) == CITY
        wrong = SchemaRegistryClient(
            config["url"].replace("https://", "https://ann:canary@"), ssl_cafile=str(ca)
        )
        with pytest.raises(
            RegistryAuthenticationError, match=r"401.*basic_auth_user_info"
        ) as caught:
            wrong.get_subjects()
        for text in (repr(wrong), repr(wrong.options), repr(ours.options), str(caught.value)):
            assert "canary" not in text
            assert "cret" not in text
        with pytest.raises(RegistryUnreachable, match=r"not trusted.*ssl_cafile"):
            SchemaRegistryClient(config["url"]).get_subjects()
    with (
        LocalCluster(brokers=1) as none,
        pytest.raises(ConfigError, match="schema_registry=True"),
    ):
        _ = none.schema_registry


def test_mutual_tls(tmp_path: Path) -> None:
    security = Security("SSL", client_auth="required")
    with LocalCluster(brokers=1, security=security, schema_registry=security) as cluster:
        own = cluster.client_certificate("ann")
        files = tmp_path / "ca.pem", tmp_path / "own.pem", tmp_path / "key.pem"
        texts = cluster.ca_pem, own.certificate_pem, own.key_pem.reveal()
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        ca, certificate, key = map(str, files)
        url = cluster.schema_registry.url
        ours = SchemaRegistryClient(url, ssl_cafile=ca, ssl_certfile=certificate, ssl_keyfile=key)
        assert ours.get_subjects() == []
        with pytest.raises(RegistryUnreachable):
            SchemaRegistryClient(url, ssl_cafile=ca, max_retries=0).get_subjects()


async def test_the_asynchronous_client(cluster: LocalCluster) -> None:
    ours = AsyncSchemaRegistryClient(cluster.schema_registry.url)
    made = await ours.register_schema("async", Schema(avro()))
    assert (await ours.get_schema(made.id)).text == json.dumps(CITY, separators=(",", ":"))
    with pytest.raises(SchemaNotFoundError):
        await ours.get_versions("nothing")
