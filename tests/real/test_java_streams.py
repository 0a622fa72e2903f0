"""Kafka Streams' own word count on the embedded cluster: no real broker
runs, only Java's clients.
"""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from parley import EARLIEST, LATEST, Client, FetchOptions, TopicPartition
from parley.devcluster import LocalCluster

from ..support import GENEROUS_S, eventually
from ..support.java import java_running, properties_file

pytestmark = [pytest.mark.foreign, pytest.mark.matrix]
APPLICATION, INPUT, OUTPUT = "counting", "streams-plaintext-input", "streams-wordcount-output"
STORE = f"{APPLICATION}-KSTREAM-AGGREGATE-STATE-STORE-0000000003"
REPARTITION, CHANGELOG = f"{STORE}-repartition", f"{STORE}-changelog"
PARTITIONS = 3
MAIN = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
EXAMPLES = "org.apache.kafka:kafka-streams-examples:4.3.0:-"
"""Maven Central has no older ones; they run on the Streams of any release."""
FIRST = ["to be or not to be", "that is the question", "be"] * 20
SECOND = ["to sleep", "perchance to dream", "be"] * 5


def expected(*lines: str) -> dict[bytes, int]:
    return dict(Counter(word.encode() for line in lines for word in line.split()))


def counted(client: Client) -> dict[bytes, int]:
    """Return the last count of each word that is committed."""
    found: dict[bytes, int] = {}
    options = FetchOptions(isolation_level="read_committed")
    for index in range(PARTITIONS):
        tp = TopicPartition(OUTPUT, index)
        for batch in client.fetch(tp, EARLIEST, LATEST, options=options):
            counts = [struct.unpack(">q", value)[0] for value in batch["value"].to_pylist()]
            found.update(zip(batch["key"].to_pylist(), counts, strict=True))
    return found


def write(client: Client, lines: Sequence[str]) -> None:
    client.produce(INPUT, pa.table({"value": [line.encode() for line in lines]}))


@pytest.mark.parametrize(
    ("streams", "release", "guarantee"),
    [
        ("4.3.0", "4.3", "exactly_once_v2"),
        ("4.3.0", "4.3", "at_least_once"),
        ("4.3.0", "3.9", "exactly_once_v2"),
        ("4.3.0", "2.8", "exactly_once_v2"),
        ("4.3.0", "2.1", "at_least_once"),
        ("3.9.1", "4.3", "exactly_once_v2"),
        ("3.9.1", "3.9", "exactly_once_v2"),
        ("3.9.1", "2.8", "at_least_once"),
    ],
)
def test_words_are_counted_and_the_counts_outlive_the_application(
    streams: str, release: str, guarantee: str, tmp_path: Path
) -> None:
    """The second run finds no state on its disk: it restores the counts
    from the changelog topic.
    """
    artifacts, state = (EXAMPLES, f"org.apache.kafka:kafka-streams:{streams}"), tmp_path / "state"
    with (
        LocalCluster(brokers=3, release=release) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        for topic in (INPUT, OUTPUT):
            cluster.create_topic(topic, PARTITIONS)
        properties = {
            "application.id": APPLICATION,
            "bootstrap.servers": cluster.bootstrap_servers,
            "processing.guarantee": guarantee,
            "auto.offset.reset": "earliest",
            "commit.interval.ms": "100",
            "repartition.purge.interval.ms": "100",
            "replication.factor": "3",
            "state.dir": str(state),
        }
        main = [MAIN, properties_file(tmp_path / "streams.properties", properties)]
        write(client, FIRST)
        with java_running(artifacts, main, tmp_path / "first.log"):
            eventually(lambda: counted(client) == expected(*FIRST))
            assert settings_of(cluster, CHANGELOG)["cleanup.policy"] == "compact"
            assert settings_of(cluster, REPARTITION)["retention.ms"] == "-1"
            for topic in (CHANGELOG, REPARTITION):
                assert len(client.metadata([topic]).topics[topic].partitions) == PARTITIONS
            eventually(lambda: purged(client), "what was counted is deleted (DeleteRecords)")
            (group,) = client.describe_groups([APPLICATION]).values()
            assert (group.state, group.protocol) == ("Stable", "stream")
        client.remove_members(APPLICATION)  # Streams does not leave when it ends
        shutil.rmtree(state)
        write(client, SECOND)
        with java_running(artifacts, main, tmp_path / "second.log"):
            eventually(lambda: counted(client) == expected(*FIRST, *SECOND))


def settings_of(cluster: LocalCluster, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (answer,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in answer.result(GENEROUS_S).items()}


def purged(client: Client) -> bool:
    """Whether Streams had records of its repartition topic deleted."""
    starts = client.list_offsets(
        {TopicPartition(REPARTITION, index): EARLIEST for index in range(PARTITIONS)}
    )
    return any(found.offset > 0 for found in starts.values())
