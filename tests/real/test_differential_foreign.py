"""Requests of foreign clients that parley's own does not send, to a real broker
and to the embedded one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster
from parley_laboratory.wire import Wire

from . import message_sets
from .test_differential_admin import PATIENCE_S, Side, accepted, play_on_both

AlterCredentials: Any = request_class(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)
DescribeCredentials: Any = request_class(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
DescribeProducers: Any = request_class(ApiKey.DESCRIBE_PRODUCERS)
Metadata: Any = request_class(ApiKey.METADATA)
Produce: Any = request_class(ApiKey.PRODUCE)


def scene_default_counts(side: Side) -> None:
    for version in side.versions(CreateTopics()):
        for number, (partitions, factor) in enumerate(
            ((-1, -1), (-1, 1), (1, -1), (-2, 1), (1, -2), (0, 1))
        ):
            name = f"{side.topic[:180]}-{version}.{number}"
            made = CreateTopics.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=factor
            )
            answer = side.ask(CreateTopics(topics=[made], timeout_ms=10_000), version)
            for topic in answer["topics"]:
                topic.pop("configs", None)  # not the subject here


def scene_compacted_topics(side: Side) -> None:
    made = CreateTopics.CreatableTopic(name=side.topic, num_partitions=1, replication_factor=1)
    made.configs = [CreateTopics.CreatableTopicConfig(name="cleanup.policy", value="compact")]
    side.wire.ask(CreateTopics(topics=[made], timeout_ms=10_000), side.versions(CreateTopics())[0])
    side.ask(Metadata(topics=[Metadata.MetadataRequestTopic(name=side.topic)]), 1, until=accepted)
    versions = [version for version in side.versions(Produce()) if 3 <= version <= 12]
    for version in versions:
        for keys in ((b"k",), (None,), (b"k", None, b"", None)):
            records = b"".join(message_sets.record(b"v", at, key) for at, key in enumerate(keys))
            data = message_sets.headed(records, count=len(keys), last_delta=len(keys) - 1)
            partition = Produce.PartitionProduceData(index=0, records=data)
            topic = Produce.TopicProduceData(name=side.topic, partition_data=[partition])
            side.ask(
                Produce(acks=-1, timeout_ms=5_000, topic_data=[topic]), version, until=accepted
            )


def scene_credentials_that_cannot_be(side: Side) -> None:
    if not side.versions(AlterCredentials()):
        return

    def user(name: str, mechanism: int = 1, iterations: int = 4096) -> Any:
        return AlterCredentials.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"p"
        )

    gone = [
        AlterCredentials.ScramCredentialDeletion(name=name, mechanism=kind)
        for name, kind in (("n", 1), ("m", 9))
    ]
    side.ask(AlterCredentials())
    side.ask(AlterCredentials(deletions=gone[:1]))
    side.ask(AlterCredentials(deletions=gone[1:]))
    for wrong in (
        [user("u", 9)],
        [user("u", 1, 5)],
        [user("u", 1, 50_000)],
        [user("")],
        [user("u"), user("u")],
    ):
        side.ask(AlterCredentials(upsertions=wrong))
    for names in (["n"], ["n", "n"], []):
        side.ask(
            DescribeCredentials(users=[DescribeCredentials.UserName(name=name) for name in names])
        )


SCENES = {name[6:]: play for name, play in list(globals().items()) if name.startswith("scene_")}


@pytest.fixture(scope="session")
def embedded(real_release: str) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release=real_release) as cluster:
        yield cluster


@pytest.mark.parametrize("scene", list(SCENES))
def test_foreign_requests_are_answered_alike(
    real_broker: Any, real_release: str, embedded: LocalCluster, topic_name: str, scene: str
) -> None:
    play_on_both(real_broker, embedded, real_release, topic_name, SCENES[scene])


def producers_reported(addresses: list[str]) -> list[list[int]]:
    """Return what each broker answers about a topic of two replicas and a
    missing partition, sorted.
    """
    made = CreateTopics.CreatableTopic(name="t", num_partitions=1, replication_factor=2)
    asked = DescribeProducers(
        topics=[DescribeProducers.TopicRequest(name="t", partition_indexes=[0, 9])]
    )
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(address)) for address in addresses]
        wires[0].ask(CreateTopics(topics=[made], timeout_ms=10_000), 5)
        found: list[list[int]] = []
        end = time.monotonic() + PATIENCE_S
        # not all have heard of it yet
        while time.monotonic() < end and [codes[0] for codes in found] != [0, 0, 6]:
            answers = (wire.ask(asked, 0).topics[0].partitions for wire in wires)
            found = sorted([one.error_code for one in answer] for answer in answers)
        return found


@pytest.mark.matrix
def test_followers_describe_producers_too() -> None:
    with RealCluster("3.9.1", brokers=3) as real, LocalCluster(brokers=3, release="3.9.1") as ours:
        reported = producers_reported(real.bootstrap_servers.split(","))
        assert reported == [[0, 3], [0, 3], [6, 3]], (
            "leader and follower, and a broker without a replica"
        )
        assert producers_reported(ours.bootstrap_servers.split(",")) == reported
