"""What every release of the embedded cluster makes of topics, committed
offsets and producer ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.devcluster import ClusterSettings, LocalCluster
from parley.messages import request_class
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

from .conftest import metadata

TOPIC = "events"
AlterTopics: Any = request_class(ApiKey.INCREMENTAL_ALTER_CONFIGS)
CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)
FindCoordinator: Any = request_class(ApiKey.FIND_COORDINATOR)
InitProducerId: Any = request_class(ApiKey.INIT_PRODUCER_ID)
Metadata: Any = request_class(ApiKey.METADATA)
OffsetCommit: Any = request_class(ApiKey.OFFSET_COMMIT)
OffsetFetch: Any = request_class(ApiKey.OFFSET_FETCH)


@pytest.mark.parametrize(("release", "code"), [("0.10", 5), ("2.8", 5), ("3.3", 3), ("4.3", 3)])
def test_a_topic_is_made_by_asking_for_it(release: str, code: int) -> None:
    with LocalCluster(brokers=1, release=release) as cluster:
        address = cluster.bootstrap_servers
        assert metadata(address, 1, TOPIC).topics[0].error_code == code
        answer = metadata(address, 1, TOPIC).topics[0]
        assert (answer.error_code, len(answer.partitions)) == (0, 1)
        assert metadata(address, 1, "a/b").topics[0].error_code == 17


def test_a_topic_is_not_made_where_that_is_forbidden() -> None:
    with LocalCluster(brokers=1, settings=ClusterSettings(auto_create_topics=False)) as cluster:
        assert metadata(cluster.bootstrap_servers, 9, TOPIC).topics[0].error_code == 3
    with LocalCluster(brokers=1) as cluster, Wire(cluster.bootstrap_servers) as wire:
        asked = Metadata(
            topics=[Metadata.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False
        )
        assert wire.ask(asked, 4).topics[0].error_code == 3
        assert metadata(cluster.bootstrap_servers, 9).topics == []


@pytest.mark.parametrize(("version", "names", "found"), [(0, (), 2), (1, (), 2)])
def test_what_asking_for_all_topics_means(version: int, names: tuple[str, ...], found: int) -> None:
    with LocalCluster(brokers=1, release="2.4") as cluster:
        cluster.create_topic("a")
        cluster.create_topic("b")
        with Wire(cluster.bootstrap_servers) as wire:
            assert (
                len(wire.ask(Metadata(topics=[] if version == 0 else None), version).topics)
                == found
            )
            assert len(wire.ask(Metadata(topics=[]), 1).topics) == 0, (
                "an empty list means none since v1"
            )


@pytest.mark.parametrize(("release", "passes"), [("2.8", False), ("3.3", True)])
def test_who_may_create_topics(release: str, passes: bool) -> None:
    with LocalCluster(brokers=2, release=release) as cluster:
        controller = metadata(cluster.broker(1).address).controller_id
        other = next(broker for broker in cluster.brokers if broker.id != controller)
        topic = CreateTopics.CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=2)
        with Wire(other.address) as wire:
            answer = wire.ask(CreateTopics(topics=[topic]), 4)
        assert answer.topics[0].error_code == (0 if passes else 41)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "a b"}, 17),
        ({"name": "old"}, 36),
        ({"num_partitions": 0}, 37),
        ({"replication_factor": 0}, 38),
        ({"replication_factor": 9}, 38),
        ({"configs": [CreateTopics.CreatableTopicConfig(name="no.such", value="1")]}, 40),
        ({"assignments": [CreateTopics.CreatableReplicaAssignment(partition_index=0,
            broker_ids=[1])]}, 42),
        ({"num_partitions": -1, "replication_factor": -1,
          "assignments": [CreateTopics.CreatableReplicaAssignment(partition_index=0,
              broker_ids=[1, 1])]}, 39),
        ({"num_partitions": -1, "replication_factor": -1}, 0),
    ],
)  # fmt: skip
def test_topics_that_cannot_be(fields: dict[str, Any], code: int) -> None:
    with LocalCluster(brokers=2) as cluster, Wire(cluster.broker(1).address) as wire:
        cluster.create_topic("old")
        topic = CreateTopics.CreatableTopic(
            **{"name": "new", "num_partitions": 1, "replication_factor": 1, **fields}
        )
        dry = wire.ask(CreateTopics(topics=[topic], validate_only=True), 7).topics[0]
        assert dry.error_code == code
        assert [t.name for t in metadata(cluster.broker(1).address).topics] == ["old"], "only tried"
        answer = wire.ask(CreateTopics(topics=[topic]), 7).topics[0]
        assert answer.error_code == code
        assert bool(answer.error_message) is (code != 0)


@pytest.mark.parametrize(("release", "code"), [("2.4", 17), ("4.3", 3)])
def test_topics_that_share_a_name_in_metrics(release: str, code: int) -> None:
    """Periods and underscores are the same there; KRaft brokers do not say why nothing is made."""
    with LocalCluster(brokers=1, release=release) as cluster:
        cluster.create_topic("a.b")
        topics = [
            CreateTopics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in ("a_b", "a-b")
        ]
        with Wire(cluster.bootstrap_servers) as wire:
            answer = wire.ask(CreateTopics(topics=topics), 4)
        assert [topic.error_code for topic in answer.topics] == [17, 0]
        for _ in range(2):
            assert metadata(cluster.bootstrap_servers, 9, "a_b").topics[0].error_code == code


@pytest.mark.parametrize(
    ("release", "config", "code"),
    [
        ("4.3", "cleanup.policy=foo", 40),
        ("1.0", "cleanup.policy=foo", -1),
        ("4.3", "message.format.version=2.0", 40),
        ("3.9", "message.format.version=2.0", 0),
        ("4.0", "segment.bytes=10000", 0),
        ("4.1", "segment.bytes=10000", 40),
        ("3.2", "flush.messages=0", 0),
        ("3.3", "flush.messages=0", 40),
        ("2.4", "message.timestamp.before.max.ms=1000", 40),
        ("2.4", "segment.ms=0", 40),
        ("2.4", "retention.bytes=-5", 0),
        ("3.0", "remote.storage.enable=true", 0),
        ("3.9", "remote.storage.enable=true", 40),
        ("3.9", "cleanup.policy=", 0),
        ("3.9", "leader.replication.throttled.replicas=0:1,1:2", 0),
    ],
)
def test_settings_that_a_release_takes(release: str, config: str, code: int) -> None:
    name, _, value = config.partition("=")
    topic = CreateTopics.CreatableTopic(
        name=TOPIC,
        num_partitions=1,
        replication_factor=1,
        configs=[CreateTopics.CreatableTopicConfig(name=name, value=value)],
    )
    with (
        LocalCluster(brokers=1, release=release) as cluster,
        Wire(cluster.bootstrap_servers) as wire,
    ):
        assert wire.ask(CreateTopics(topics=[topic]), 2).topics[0].error_code == code


@pytest.mark.parametrize(("release", "code"), [("2.4", 42), ("4.3", 40)])
def test_values_out_of_range_afterwards(release: str, code: int) -> None:
    with (
        LocalCluster(brokers=1, release=release) as cluster,
        Wire(cluster.bootstrap_servers) as wire,
    ):
        cluster.create_topic(TOPIC, configs={"segment.bytes": "100"})
        for value, expected in (("-7", code), ("5", 0)):
            change = AlterTopics.AlterableConfig(name="retention.ms", value=value)
            resource = AlterTopics.AlterConfigsResource(
                resource_type=2, resource_name=TOPIC, configs=[change]
            )
            answer = wire.ask(AlterTopics(resources=[resource]), 0)
            assert answer.responses[0].error_code == expected, "its own segment.bytes may stay"


@pytest.mark.parametrize(
    ("release", "code", "with_few"), [("3.6", 0, 19), ("3.7", 0, 0), ("4.3", 40, 0)]
)
def test_settings_of_one_broker_act_on_what_it_leads(
    release: str, code: int, with_few: int, talk_to: Callable[..., Any], batch: Callable[..., bytes]
) -> None:
    """min.insync.replicas is the cluster's where KIP-966 is on."""
    with LocalCluster(brokers=2, release=release) as cluster:
        cluster.create_topic(TOPIC, 1, 2)
        for leader, refused in ((1, True), (2, False)):
            if cluster.leaders(TOPIC)[0][0] != leader:
                cluster.move_leader(TOPIC, 0, leader)
            talk = talk_to(cluster, leader)
            assert alter_broker(talk.wire, 1, "message.max.bytes", "200") in (0, 42)
            assert talk.produce(batch(1, size=300)).error_code == (10 if refused else 0)
        with Wire(cluster.broker(2).address) as wire:
            assert alter_broker(wire, 2, "min.insync.replicas", "3") == code
            assert talk_to(cluster, 2).produce(batch(1), version=9).error_code == with_few


def alter_broker(wire: Wire, broker_id: int, name: str, value: str) -> int:
    change = AlterTopics.AlterableConfig(name=name, value=value)
    resource = AlterTopics.AlterConfigsResource(
        resource_type=4, resource_name=str(broker_id), configs=[change]
    )
    code: int = wire.ask(AlterTopics(resources=[resource]), 0).responses[0].error_code
    return code


def test_committed_offsets_live_at_the_coordinator() -> None:
    with LocalCluster(release="3.9") as cluster:
        cluster.create_topic(TOPIC, 2)
        with Wire(cluster.broker(1).address) as wire:
            found = wire.ask(FindCoordinator(key="readers"), 3)
        partition = OffsetCommit.OffsetCommitRequestPartition(
            partition_index=1,
            committed_offset=7,
            committed_leader_epoch=3,
            committed_metadata="note",
        )
        absent = OffsetCommit.OffsetCommitRequestPartition(partition_index=9, committed_offset=7)
        topic = OffsetCommit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition, absent])
        commit = OffsetCommit(group_id="readers", topics=[topic])
        asked = OffsetFetch(group_id="readers", topics=None)
        for broker in cluster.brokers:
            with Wire(broker.address) as wire:
                codes = [p.error_code for p in wire.ask(commit, 8).topics[0].partitions]
                fetched = wire.ask(asked, 7)
            if broker.id != found.node_id:
                assert (codes, fetched.error_code) == ([16, 3], 16), (
                    "what does not exist is reported by any broker"
                )
            else:
                assert (codes, fetched.error_code) == ([0, 3], 0)
                kept = fetched.topics[0].partitions[0]
                assert (kept.committed_offset, kept.committed_leader_epoch, kept.metadata) == (
                    7,
                    3,
                    "note",
                )
        cluster.stop_broker(found.node_id)
        with Wire(cluster.bootstrap_servers.split(",")[0]) as wire:
            moved = wire.ask(FindCoordinator(key="readers"), 3)
        with Wire(cluster.broker(moved.node_id).address) as wire:
            assert wire.ask(asked, 7).topics[0].partitions[0].committed_offset == 7, (
                "they move with it"
            )


def test_producer_ids_are_unique_across_brokers() -> None:
    with LocalCluster() as cluster:
        given = []
        for broker in cluster.brokers * 2:
            with Wire(broker.address) as wire:
                given.append(
                    wire.ask(
                        InitProducerId(transactional_id=None, transaction_timeout_ms=1), 4
                    ).producer_id
                )
        assert len(set(given)) == 6
