"""Messages that cannot be decoded, and the topic that they go to: what it refuses, and how many."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley.client import LATEST, Client, NewTopic, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import ConfigError, InvalidRecordError, MessageTooLargeError, SchemaDecodeError
from parley.registry import SchemaRegistryClient

from .typed_sources import CITY, cities, loaded, put, read, values


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
    cluster.create_topic(name, partitions=3)
    return name


@pytest.fixture
def options(cluster: LocalCluster, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "valueFormat": "avro",
        "schemaRegistryUrl": cluster.schema_registry.url,
        "onSchemaError": "dead-letter",
        "deadLetterTopic": f"{topic}.dlq",
    }


def end(client: Client, topic: str) -> int:
    tp = TopicPartition(topic, 0)
    return int(client.list_offsets({tp: LATEST})[tp].offset)


def test_a_pattern_that_takes_its_own_dead_letters_is_refused(
    registry: SchemaRegistryClient, topic: str, options: dict[str, str]
) -> None:
    cities(registry, topic, CITY)
    del options["subscribe"]
    options["valueSubject"] = f"{topic}-value"
    own = f'deadLetterTopic="{topic}.dlq" is read by this query itself'
    with pytest.raises(ConfigError, match=re.escape(own)) as raised:
        loaded({**options, "subscribePattern": f"{topic}.*"})
    (way_out,) = re.findall(r"(\(\?!.*\))\.\.\.", str(raised.value))
    loaded({**options, "subscribePattern": f"{way_out}{topic}.*"})


def test_ranges_of_one_task_have_one_limit(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    cities(registry, topic, CITY)
    client.create_topics([NewTopic(f"{topic}.dlq", num_partitions=1)])
    put(client, topic, [b"bad"] * 6, partition=pa.array([0, 0, 1, 1, 2, 2], pa.int32()))
    packed = {**options, "maxPartitions": "1"}
    with pytest.raises(SchemaDecodeError, match="more than deadLetterLimit=5"):
        read({**packed, "deadLetterLimit": "5"})
    assert end(client, f"{topic}.dlq") == 4, "no part of a batch that is too much"
    assert read({**packed, "deadLetterLimit": "6"}) == []
    assert read({**options, "deadLetterLimit": "2"}) == [], "three tasks, two in each"


def test_whether_a_dead_letter_is_too_large_is_said_by_its_topic(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    """A record as large as its topic takes is larger as a dead letter."""
    good = cities(registry, topic, CITY)
    large = b"x" * (2**20 - 100)
    partition = pa.array([0, 0, 0], pa.int32())
    put(client, topic, [good[0], large, good[1]], partition=partition)
    letters = f"{topic}.dlq"
    client.create_topics([NewTopic(letters, num_partitions=1)])
    with pytest.raises(MessageTooLargeError) as raised:
        read(options)
    note = raised.value.__notes__[-1]
    assert f'deadLetterTopic="{letters}"' in note
    assert f"{topic}-0, offset 1, that cannot be decoded" in note
    assert "raise max.message.bytes" in note
    roomy = {"max.message.bytes": str(2**21)}
    client.create_topics([NewTopic(f"{topic}.roomy", num_partitions=1, configs=roomy)])
    found = values({**options, "deadLetterTopic": f"{topic}.roomy"})
    assert [one["name"] for one in found] == ["c0", "c1"]
    stored = client.fetch(TopicPartition(f"{topic}.roomy", 0), 0, 1)
    assert [row["value"] for one in stored for row in one.to_pylist()] == [large]


def test_what_a_topic_refuses_is_said_with_the_records_that_it_is_about(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    good = cities(registry, topic, CITY)
    put(client, topic, [good[0], b"bad"], partition=pa.array([2, 2], pa.int32()))
    compacted = {"cleanup.policy": "compact"}
    client.create_topics([NewTopic(f"{topic}.dlq", num_partitions=1, configs=compacted)])
    with pytest.raises(InvalidRecordError) as raised:
        read(options)
    note = raised.value.__notes__[-1]
    assert f"{topic}-2, offset 1, that cannot be decoded" in note
    assert "cleanup.policy=delete" in note


def test_a_batch_whose_dead_letters_are_refused_is_not_passed_over(
    registry: SchemaRegistryClient, client: Client, topic: str, options: dict[str, str]
) -> None:
    """Where a task reads several ranges, a broker's refusal may be about any of them."""
    good = cities(registry, topic, CITY)
    partition = pa.array([0, 0, 0, 1, 2], pa.int32())
    put(client, topic, [good[0], b"bad", good[1], good[2], good[2]], partition=partition)
    letters = f"{topic}.dlq"
    compacted = {"cleanup.policy": "compact"}
    client.create_topics([NewTopic(letters, num_partitions=1, configs=compacted)])
    with pytest.raises(InvalidRecordError, match=f"{letters}-0"):
        read({**options, "maxPartitions": "1"})
