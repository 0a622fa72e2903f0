"""What is read: one of three options, against what a cluster has."""

from __future__ import annotations

import pytest

from parley.client import ClusterMetadata, PartitionMetadata, TopicMetadata
from parley.errors import BrokerError, ConfigError
from parley.spark.options.subscription import (
    Subscription,
    check_existence,
    read_subscription,
    select_partitions,
)
from parley.spark.options.texts import Use, read_options


def subscription(**options: str) -> Subscription:
    return read_subscription(read_options(options, Use.STREAM_READ))


def topic(name: str, partitions: int, *, internal: bool = False) -> TopicMetadata:
    return TopicMetadata(
        name, {n: PartitionMetadata(n, 1) for n in range(partitions)}, is_internal=internal
    )


CLUSTER = ClusterMetadata(
    topics={
        found.name: found
        for found in (
            topic("events.de", 2), topic("events.fr", 1), topic("my-events.de", 1),
            topic("__consumer_offsets", 2, internal=True)
        )
    }
)  # fmt: skip


def names(found: Subscription) -> list[str]:
    return [str(tp) for tp in select_partitions(found, CLUSTER)]


def test_named_topics_with_all_their_partitions() -> None:
    found = subscription(subscribe=" events.fr ,events.de,events.fr")
    assert found.topics == ("events.fr", "events.de")
    assert names(found) == ["events.de-0", "events.de-1", "events.fr-0"]
    assert str(found) == "subscribe=events.fr,events.de"


def test_a_pattern_must_match_the_whole_name() -> None:
    found = subscription(subscribePattern=r"events\..*")
    assert found.wanted_topics() is None
    assert names(found) == ["events.de-0", "events.de-1", "events.fr-0"]


def test_a_pattern_matches_no_internal_topic_but_a_name_may() -> None:
    assert names(subscription(subscribePattern=".*"))[0] == "events.de-0"
    assert names(subscription(subscribe="__consumer_offsets")) == [
        "__consumer_offsets-0",
        "__consumer_offsets-1",
    ]


def test_assigned_partitions_and_no_others() -> None:
    found = subscription(assign='{"events.de":[1]}')
    assert found.wanted_topics() == ("events.de",)
    assert names(found) == ["events.de-1"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "none is given"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe and assign are given"),
        ({"subscribe": "a", "subscribePattern": "a", "assign": "{}"},
          "subscribe and subscribePattern and assign"),
    ],
)  # fmt: skip
def test_exactly_one_says_what_is_read(options: dict[str, str], problem: str) -> None:
    with pytest.raises(
        ConfigError, match=f"exactly one of subscribe, subscribePattern, assign .*{problem}"
    ):
        subscription(**options)


@pytest.mark.parametrize("name", ["events.*", "a b", "ä", "..", "x" * 250])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a topic"):
        subscription(subscribe=name)


def test_a_pattern_given_as_a_name_is_recognised() -> None:
    with pytest.raises(ConfigError, match="use subscribePattern"):
        subscription(subscribe="events.*")


def test_commas_only_name_no_topic() -> None:
    with pytest.raises(ConfigError, match='subscribe=", ," names no topic'):
        subscription(subscribe=", ,")


def test_a_missing_topic_is_named() -> None:
    with pytest.raises(BrokerError, match='"nowhere" does not exist') as caught:
        check_existence(subscription(subscribe="events.de,nowhere"), CLUSTER)
    assert (caught.value.code, caught.value.topic) == (3, "nowhere")


def test_a_missing_partition_is_named_with_those_there_are() -> None:
    with pytest.raises(BrokerError, match="has 2 partitions, numbered from 0") as caught:
        check_existence(subscription(assign='{"events.de":[0,2]}'), CLUSTER)
    assert (caught.value.topic, caught.value.partition) == ("events.de", 2)


def test_a_pattern_may_match_nothing_yet() -> None:
    found = subscription(subscribePattern="nothing")
    check_existence(found, CLUSTER)
    assert names(found) == []
