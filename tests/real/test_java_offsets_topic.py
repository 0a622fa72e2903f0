"""Java's tools read `__consumer_offsets` of the embedded cluster: what each release wrote, and the
files of a data directory.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from parley import Client, OffsetAndMetadata, TopicPartition
from parley.client import Consumer, ShareConsumer
from parley.devcluster import ClusterSettings, LocalCluster
from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command
from parley.testing.realbroker.releases import broker_artifacts, tools_artifacts

from ..support import GENEROUS_S

TOPIC = "t"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
Pair = tuple[dict[str, Any], dict[str, Any] | None]


def dumped(log: Path, folder: Path) -> list[Pair]:
    """Return keys and values as Kafka 4.3.0 reads the records of a log."""
    command = java_command(
        class_path((*broker_artifacts("4.3.0"), *tools_artifacts("4.3.0"))),
        [DUMP, "--offsets-decoder", "--files", str(log)],
        heap_mb=256,
        log4j_file=folder / "log4j.properties",
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=2 * GENEROUS_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [_pair(line) for line in done.stdout.splitlines() if " payload: " in line]


def _pair(line: str) -> Pair:
    key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
    return json.loads(key), None if payload.strip() == "<DELETE>" else json.loads(payload)


def filled(release: str, folder: Path) -> Path:
    """Let groups of every protocol live on a cluster; return the log that they are written to."""
    settings = ClusterSettings(offsets_topic_num_partitions=1)
    with (
        LocalCluster(brokers=1, release=release, data_dir=folder, settings=settings) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        cluster.create_topic(TOPIC, 2)
        client.commit_offsets("simple", {TopicPartition(TOPIC, 1): OffsetAndMetadata(5, "note")})
        for protocol in ("classic", "consumer") if release >= "4" else ("classic",):
            with Consumer(
                bootstrap_servers=cluster.bootstrap_servers,
                group_id=protocol,
                group_protocol=protocol,
            ) as consumer:
                consumer.subscribe([TOPIC])
                while not consumer.assignment():
                    consumer.getmany(timeout_ms=200)
                consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(0)})
        if release >= "4.2":
            with ShareConsumer(
                bootstrap_servers=cluster.bootstrap_servers, group_id="shared"
            ) as sharer:
                sharer.subscribe([TOPIC])
                while not sharer.health().assigned:
                    sharer.getmany(timeout_ms=200)
        client.delete_groups(["simple"])
    (log,) = (folder / "broker-1" / "__consumer_offsets").rglob("*.log")
    return log


CLASSIC = ["2", "2"]
CONSUMER = ["5", "3", "7", "6", "8", "8 -", "7 -", "5 -", "3"]
SHARED = ["10", "11", "13", "12", "14", "15", "14 -", "13 -", "10 -", "11"]
WITH_TOPICS = ["5", "4", "3", "7", "6", "8", "8 -", "7 -", "5 -", "4", "3"]
"""The kinds of the records of a group of one member, in order; of those without a value. Until 4.0
the topics are a record, which the last one who leaves empties (tests/golden/groups/4.0.0.jsonl).
"""


@pytest.mark.parametrize(
    ("release", "versions", "of_groups"),
    [
        ("4.3", {"4"}, [*CLASSIC, *CONSUMER, *SHARED]),
        pytest.param("4.0", {"3"}, [*CLASSIC, *WITH_TOPICS], marks=pytest.mark.matrix),
        pytest.param("2.4", {"3"}, CLASSIC, marks=pytest.mark.matrix),
        pytest.param("1.1", {"1"}, CLASSIC, marks=pytest.mark.matrix),
    ],
)
def test_kafka_reads_what_the_embedded_cluster_wrote(
    release: str, versions: set[str], of_groups: list[str], tmp_path: Path
) -> None:
    found = dumped(filled(release, tmp_path / "data"), tmp_path)
    offsets = [pair for pair in found if pair[0]["type"] == "1"]
    kinds = [
        key["type"] if value is not None else f"{key['type']} -"
        for key, value in found
        if key["type"] != "1"
    ]
    assert kinds == of_groups
    assert {value["version"] for _, value in offsets if value is not None} == versions
    (first, data), (last, nothing) = offsets[0], offsets[-1]
    assert first["data"] == last["data"] == {"group": "simple", "topic": TOPIC, "partition": 1}
    assert data is not None
    assert data["data"].items() >= {"offset": 5, "metadata": "note"}.items()
    assert nothing is None
    for _, value in (pair for pair in found if pair[0]["type"] == "15"):
        assert value is not None
        (topic,) = value["data"]["initializedTopics"]
        assert (topic["topicName"], topic["partitions"]) == (TOPIC, [0, 1])
