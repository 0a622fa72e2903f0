"""Requests that foreign clients send and parley's own does not: what real
brokers were seen to answer.
"""

from __future__ import annotations

from typing import Any

import pytest

from parley.devcluster import LocalCluster
from parley.messages import request_class
from parley.schema import ApiKey
from parley.versions import release
from parley_laboratory.wire import Wire

from ..real import message_sets

AlterCredentials: Any = request_class(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
CreateTopics: Any = request_class(ApiKey.CREATE_TOPICS)
DescribeCredentials: Any = request_class(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
DescribeProducers: Any = request_class(ApiKey.DESCRIBE_PRODUCERS)
Produce: Any = request_class(ApiKey.PRODUCE)

COMPACTED = {"cleanup.policy": "compact,delete"}


# -- topics made with the broker's defaults (KIP-464) ----------------------------------------------


def create(wire: Wire, version: int, name: str, partitions: int, factor: int) -> Any:
    topic = CreateTopics.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=factor
    )
    return wire.ask(CreateTopics(topics=[topic], timeout_ms=1_000), version).topics[0]


@pytest.mark.parametrize(
    "name", ["0.10.1.1", "0.11.0.3", "2.3.1", "2.4.1", "2.8.2", "3.9.1", "4.3.0"]
)
def test_the_brokers_default_counts_are_taken_since_2_4_in_every_version(name: str) -> None:
    """kafkajs sends -1 in version 3."""
    takes = release(name).number >= (2, 4)
    with LocalCluster(brokers=1, release=name) as cluster, Wire(cluster.bootstrap_servers) as wire:
        for version in release(name).ranges[ApiKey.CREATE_TOPICS].versions():
            outcomes = [
                create(wire, version, f"t{version}.{number}", *counts).error_code
                for number, counts in enumerate(
                    [(-1, -1), (-1, 1), (1, -1), (-2, 1), (1, -2), (0, 1)]
                )
            ]
            assert outcomes == [*([0, 0, 0] if takes else [37, 37, 38]), 37, 38, 37], (
                f"version {version}"
            )
            made = create(wire, version, f"plain{version}", 1, 1)
            assert (made.error_code, made.error_message) == (0, "" if version == 0 else None)


# -- compacted topics ------------------------------------------------------------------------------


def produce(wire: Wire, data: bytes, version: int, topic: str = "kept") -> Any:
    partition = Produce.PartitionProduceData(index=0, records=data)
    named = Produce.TopicProduceData(name=topic, partition_data=[partition])
    return (
        wire.ask(Produce(acks=-1, timeout_ms=1_000, topic_data=[named]), version)
        .responses[0]
        .partition_responses[0]
    )


def keyed(*keys: bytes | None, codec: int = 0) -> bytes:
    records = b"".join(message_sets.record(b"v", at, key) for at, key in enumerate(keys))
    data = message_sets.compress(records, codec, 2) if codec else records
    return message_sets.headed(data, count=len(keys), last_delta=len(keys) - 1, codec=codec)


@pytest.mark.parametrize(
    ("name", "code"), [("0.11.0.3", 2), ("2.3.1", 2), ("2.4.1", 87), ("2.8.2", 87), ("4.3.0", 87)]
)
def test_a_compacted_topic_takes_no_record_without_a_key(name: str, code: int) -> None:
    with LocalCluster(brokers=1, release=name) as cluster, Wire(cluster.bootstrap_servers) as wire:
        cluster.create_topic("kept", configs=COMPACTED)
        cluster.create_topic("free")
        for version in (3, min(release(name).ranges[ApiKey.PRODUCE].max, 9)):
            for codec in (0, message_sets.GZIP):
                refused = produce(wire, keyed(b"k", None, b"", None, codec=codec), version)
                assert (refused.error_code, refused.base_offset) == (code, -1)
                assert refused.log_start_offset == (0 if code == 87 and version >= 5 else -1)
                named = [
                    (one.batch_index, bool(one.batch_index_error_message))
                    for one in refused.record_errors
                ]
                if version >= 8:
                    assert named == ([(1, False)] if name == "2.4.1" else [(1, True), (3, True)])
                    assert refused.error_message
        assert produce(wire, keyed(b"k", b""), 3).base_offset == 0, (
            "nothing of what was refused was kept"
        )
        assert produce(wire, keyed(None), 3, "free").error_code == 0


@pytest.mark.parametrize("name", ["0.9.0.1", "0.10.2.2", "2.3.1", "3.9.1"])
@pytest.mark.parametrize("magic", [0, 1])
def test_nor_does_it_from_old_producers(name: str, magic: int) -> None:
    version = (0, 2)[magic]
    if version not in release(name).ranges[ApiKey.PRODUCE]:
        return
    bare = message_sets.message(b"v", magic=magic, offset=0, key=None)
    key = message_sets.message(b"v", magic=magic, offset=0)
    wrapped = message_sets.compress(key + bare, message_sets.GZIP, magic)
    code = 87 if name == "3.9.1" else 2
    with LocalCluster(brokers=1, release=name) as cluster, Wire(cluster.bootstrap_servers) as wire:
        cluster.create_topic("kept", configs=COMPACTED)
        for data in (
            bare,
            key + bare,
            message_sets.message(wrapped, magic=magic, offset=1, codec=1, key=None),
        ):
            assert produce(wire, data, version).error_code == code
        assert (
            produce(wire, message_sets.wrapped_set(magic, 1, 2, (0, 1, 2)), version).base_offset
            == 0
        )
        assert produce(wire, key, version).base_offset == 3


# -- administration --------------------------------------------------------------------------------


def test_producers_are_described_by_followers_too() -> None:
    """`kafka-transactions find-hanging --broker-id` asks any broker."""
    with LocalCluster(brokers=3, release="3.9") as cluster:
        cluster.create_topic("t", replication_factor=2)
        leader = cluster.leaders("t")[0][0]
        named = DescribeProducers(
            topics=[DescribeProducers.TopicRequest(name="t", partition_indexes=[0, 9])]
        )
        codes = {}
        for broker in cluster.brokers:
            with Wire(broker.address) as wire:
                (topic,) = wire.ask(named, 0).topics
                codes[broker.id] = [partition.error_code for partition in topic.partitions]
        assert codes.pop(leader) == [0, 3]
        assert sorted(codes.values()) == [[0, 3], [6, 3]], (
            "a follower, and a broker without a replica"
        )


def upserted(name: str, mechanism: int = 1, iterations: int = 4096) -> Any:
    return AlterCredentials.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"p"
    )


def test_credentials_are_refused_for_what_is_wrong_with_them() -> None:
    with LocalCluster(brokers=1, release="3.9") as cluster, Wire(cluster.bootstrap_servers) as wire:

        def alter(
            *upsertions: Any, gone: tuple[tuple[str, int], ...] = ()
        ) -> dict[str, tuple[int, str]]:
            deletions = [
                AlterCredentials.ScramCredentialDeletion(name=name, mechanism=kind)
                for name, kind in gone
            ]
            answer = wire.ask(AlterCredentials(deletions=deletions, upsertions=list(upsertions)), 0)
            return {one.user: (one.error_code, one.error_message) for one in answer.results}

        assert alter() == {}
        assert alter(gone=(("nobody", 1), ("u", 9))) == {
            "nobody": (91, "Attempt to delete a user credential that does not exist"),
            "u": (33, "Unknown SCRAM mechanism"),
        }
        assert alter(upserted("u", 9)) == {"u": (33, "Unknown SCRAM mechanism")}
        assert alter(upserted("u", iterations=5)) == {"u": (93, "Too few iterations")}
        assert alter(upserted("u", iterations=50_000)) == {"u": (93, "Too many iterations")}
        assert alter(upserted("")) == {"": (93, "Username must not be empty")}
        assert alter(upserted("u"), upserted("u"))["u"][0] == 92
        assert alter(upserted("u", 9), upserted("u", 9)) == {"u": (33, "Unknown SCRAM mechanism")}
        both = alter(upserted("u"), upserted("u", 2))
        assert both == {"u": (42, "users are given to the cluster at its start, not by clients")}

        asked = [DescribeCredentials.UserName(name=name) for name in ("nobody", "u", "u")]
        answer = wire.ask(DescribeCredentials(users=asked), 0)
        assert answer.error_code == 0
        assert [(one.user, one.error_code, bool(one.error_message)) for one in answer.results] == [
            ("nobody", 91, True),
            ("u", 92, True),
        ]
