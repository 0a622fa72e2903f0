"""What an operator does with groups, on real brokers, as
tests/cluster/test_group_admin.py has it on embedded ones.
"""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest

from parley.client import Client, NewTopic, OffsetAndMetadata, PartitionLag, TopicPartition
from parley.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from parley.testing.realbroker import RealCluster
from parley.versions.releases import release_number

from ..support import GENEROUS_S

pytestmark = pytest.mark.foreign


def joined(real: RealCluster, group: str, topic: str, **options: str) -> confluent_kafka.Consumer:
    """Return a member that has both partitions of the topic."""
    servers = {
        "bootstrap.servers": real.bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": "false",
    }
    consumer = confluent_kafka.Consumer({**servers, **options})
    consumer.subscribe([topic])
    for _ in range(int(GENEROUS_S / 0.05)):
        consumer.poll(0.05)
        if len(consumer.assignment()) == 2:
            return consumer
    raise AssertionError("the member was given nothing")


@pytest.mark.parametrize("release", ["0.11.0.3", "2.4.1", "3.9.1", "4.3.0"])
def test_a_classic_group(
    real_cluster: Callable[[str], RealCluster], release: str, topic_name: str
) -> None:
    real, number = real_cluster(release), release_number(release)
    parts = [TopicPartition(topic_name, index) for index in (0, 1)]
    with Client(bootstrap_servers=real.bootstrap_servers) as client:
        client.create_topics([NewTopic(topic_name, 2)])
        consumer = joined(real, topic_name, topic_name)
        group = client.describe_groups([topic_name])[topic_name]
        (member,) = group.members
        assert (group.state, group.type, group.protocol) == ("Stable", "classic", "range")
        assert (member.client_id, member.assignment) == ("rdkafka", tuple(parts))
        listed = {one.group_id: one for one in client.list_groups()}[topic_name]
        assert listed.state == ("Stable" if number >= (2, 6) else None)
        assert listed.type == ("classic" if number >= (3, 8) else None)
        assert client.group_lag(topic_name) == dict.fromkeys(parts, PartitionLag(None, 0, member))
        with pytest.raises(UnknownMemberIdError, match="only they may commit"):
            client.alter_group_offsets(topic_name, dict.fromkeys(parts, 0))
        with pytest.raises(NonEmptyGroupError if number >= (1, 1) else UnsupportedVersionError):
            client.delete_groups([topic_name])
        with pytest.raises(
            GroupSubscribedToTopicError if number >= (2, 4) else UnsupportedVersionError
        ):
            client.delete_group_offsets(topic_name, parts)
        assert client.remove_members(topic_name) == (member,)
        consumer.close()
        client.alter_group_offsets(topic_name, dict.fromkeys(parts, (0, "set")))
        at = OffsetAndMetadata(0, "set")
        assert client.group_lag(topic_name) == dict.fromkeys(parts, PartitionLag(at, 0))
        if number >= (2, 4):
            client.delete_group_offsets(topic_name, parts[:1])
            assert client.list_group_offsets(topic_name) == {parts[1]: at}
            with pytest.raises(GroupIdNotFoundError, match="absent"):
                client.delete_groups([topic_name, "absent"])
            assert topic_name not in {one.group_id for one in client.list_groups()}
        with pytest.raises(GroupIdNotFoundError, match="absent"):
            client.group_lag("absent")


@pytest.mark.parametrize("release", ["4.0.0", "4.3.0"])
@pytest.mark.parametrize("instance", [None, "rack-7"])
def test_members_of_the_consumer_protocol_are_described_and_taken_out(
    real_cluster: Callable[[str], RealCluster], release: str, instance: str | None, topic_name: str
) -> None:
    real = real_cluster(release)
    with Client(bootstrap_servers=real.bootstrap_servers) as client:
        client.create_topics([NewTopic(topic_name, 2)])
        options = {} if instance is None else {"group.instance.id": instance}
        consumer = joined(real, topic_name, topic_name, **options, **{"group.protocol": "consumer"})
        group = client.describe_groups([topic_name])[topic_name]
        (member,) = group.members
        assert (group.type, group.protocol, member.instance_id) == ("consumer", "uniform", instance)
        assert (
            member.assignment
            == member.target
            == tuple(TopicPartition(topic_name, index) for index in (0, 1))
        )
        with pytest.raises(UnknownMemberIdError, match="only they may commit"):
            client.alter_group_offsets(topic_name, {TopicPartition(topic_name, 0): 0})
        assert client.remove_members(topic_name, [instance or member.member_id]) == (member,)
        after = client.describe_groups([topic_name])[topic_name]
        assert (after.members, after.state, after.epoch) == ((), "Empty", group.epoch + 1)
        consumer.close()
