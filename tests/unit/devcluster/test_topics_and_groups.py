"""Names, placing, settings, committed offsets, producer ids, faults: the small decisions."""

from __future__ import annotations

import random

import pytest

from parley.devcluster.faults.faults import (
    Fault,
    FaultQueue,
    Kind,
    Target,
    api_number,
    error_number,
)
from parley.devcluster.state.groups.offsets import (
    GROUP,
    TRANSACTION,
    CommittedOffset,
    Coordinators,
    Groups,
    java_hash,
)
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.topics import TopicSettings, check_topic_name, spread
from parley.devcluster.state.transactions.producer_ids import ProducerIds
from parley.errors import ConfigError
from parley.errors.codes import (
    ILLEGAL_GENERATION,
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC_EXCEPTION,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_MEMBER_ID,
)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_names_that_kafka_accepts(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "@ids", "a:b"]
)
def test_names_that_kafka_refuses(name: str) -> None:
    with pytest.raises(Refused) as caught:
        check_topic_name(name)
    assert caught.value.code == INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [(0, 1, INVALID_PARTITIONS), (-5, 1, INVALID_PARTITIONS), (1, 0, INVALID_REPLICATION_FACTOR),
     (1, 4, INVALID_REPLICATION_FACTOR)],
)  # fmt: skip
def test_placing_that_cannot_be(partitions: int, factor: int, code: int) -> None:
    with pytest.raises(Refused) as caught:
        spread([1, 2, 3], partitions, factor, 0)
    assert caught.value.code == code


def test_topic_settings() -> None:
    configs = {
        "min.insync.replicas": "2",
        "max.message.bytes": "100",
        "message.timestamp.type": "LogAppendTime",
    }
    assert TopicSettings.of(configs) == TopicSettings(2, 100, 1 << 30, True)
    assert TopicSettings.of({"cleanup.policy": "compact,delete"}) == TopicSettings(compacted=True)
    assert (
        TopicSettings.of({"cleanup.policy": "delete"}, TopicSettings(compacted=True))
        == TopicSettings()
    )
    assert TopicSettings.of({"compression.type": "gzip"}) == TopicSettings()


@pytest.mark.parametrize(
    "configs",
    [
        {"no.such": "1"},
        {"min.insync.replicas": "0"},
        {"max.message.bytes": "many"},
        {"message.timestamp.type": "x"},
    ],
)
def test_topic_settings_that_cannot_be(configs: dict[str, str]) -> None:
    with pytest.raises(Refused) as caught:
        TopicSettings.of(configs)
    assert caught.value.code == INVALID_CONFIG


@pytest.mark.parametrize(
    ("text", "value"),
    # java.lang.String.hashCode: "hello" and "polygenelubricants"
    # are well-known values; the last is a surrogate pair.
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
    ],
)
def test_java_hash(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_coordinators_follow_the_brokers_alive() -> None:
    groups = [f"group-{n}" for n in range(100)]
    found = Coordinators()
    assert {found.of(GROUP, group, [3, 1, 2]) for group in groups} == {1, 2, 3}
    assert all(
        found.of(GROUP, group, [1, 2, 3]) == found.of(GROUP, group, [3, 2, 1]) for group in groups
    )
    assert found.of(GROUP, "g", []) == -1
    assert found.of(GROUP, "polygenelubricants", [1, 2, 3]) in (1, 2, 3), "the most negative hash"


def test_a_coordinator_that_was_moved_stays_while_it_is_alive() -> None:
    found = Coordinators()
    by_hash = found.of(TRANSACTION, "tx", [1, 2, 3])
    other = by_hash % 3 + 1
    found.move(TRANSACTION, "tx", other)
    assert found.of(TRANSACTION, "tx", [1, 2, 3]) == other
    assert found.of(GROUP, "tx", [1, 2, 3]) == by_hash, "groups of the same name are something else"
    assert found.of(TRANSACTION, "tx", [by_hash]) == by_hash


def test_groups_keep_offsets_by_partition() -> None:
    groups = Groups()
    groups.commit("g", "t", 1, CommittedOffset(5), 0)
    groups.commit("g", "t", 0, CommittedOffset(7, 2, "x", 9), 1)
    groups.commit("g", "u", 0, CommittedOffset(1), 2)
    assert groups.committed("g", "t", 0) == CommittedOffset(7, 2, "x", 9)
    assert groups.committed("g", "t", 2) is None
    assert list(groups.all_of("g")) == [("t", 0), ("t", 1), ("u", 0)]
    groups.forget_topic("t")
    assert list(groups.all_of("g")) == [("u", 0)]
    groups.forget_topic("u")
    assert groups.names() == []


@pytest.mark.parametrize(("generation", "member"), [(0, ""), (5, "m"), (-1, "m")])
def test_commits_with_membership_are_refused(generation: int, member: str) -> None:
    with pytest.raises(Refused) as caught:
        Groups().check_commit("g", generation, member)
    assert caught.value.code == ILLEGAL_GENERATION
    known = Groups()
    known.check_commit("g", -1, "")
    known.commit("g", "t", 0, CommittedOffset(1), 0)
    with pytest.raises(Refused) as caught:
        known.check_commit("g", generation, member)
    assert caught.value.code == UNKNOWN_MEMBER_ID


def test_too_much_metadata_is_refused() -> None:
    Groups.check_metadata("x" * 4096)
    with pytest.raises(Refused) as caught:
        Groups.check_metadata("x" * 4097)
    assert caught.value.code == OFFSET_METADATA_TOO_LARGE


def test_producer_ids_are_never_given_twice() -> None:
    ids = ProducerIds()
    assert [ids.new() for _ in range(3)] == [0, 1, 2]
    later = ProducerIds()
    later.restore(ids.next_id)
    assert later.new() == 3


def test_faults_act_as_often_as_they_were_asked_to() -> None:
    faults = FaultQueue()
    faults.add(Fault(Kind.ERROR, Target(api=0), times=2, error=6))
    faults.add(Fault(Kind.CUT, Target(broker=3), times=1))
    faults.add(Fault(Kind.DELAY, Target(api=0, broker=1), times=-1, delay_ms=5))

    def take(api: int, broker: int) -> set[Kind]:
        return set(faults.take(api, broker, "me", dict))

    assert take(1, 1) == set()
    assert take(0, 2) == {Kind.ERROR}
    assert take(0, 1) == {Kind.ERROR, Kind.DELAY}, "one of each kind"
    assert take(0, 1) == {Kind.DELAY}, "the error has acted twice"
    assert take(7, 3) == {Kind.CUT}
    assert take(7, 3) == set()
    faults.clear()
    assert take(0, 1) == set()


def test_faults_pick_clients_topics_and_partitions() -> None:
    faults = FaultQueue()
    faults.add(Fault(Kind.ERROR, Target(client_id="other"), times=-1))
    assert not faults.take(0, 1, "me", dict)
    assert faults.take(0, 1, "other", dict)
    faults.clear()
    faults.add(Fault(Kind.ERROR, Target(topic="t", partition=1), times=-1))
    assert not faults.take(0, 1, None, lambda: {"t": (0, 2), "u": (1,)})
    assert faults.take(0, 1, None, lambda: {"t": (0, 1)})
    assert faults.take(3, 1, None, lambda: {"t": ()}), (
        "a topic asked about as a whole is each of its partitions"
    )


def test_chance_hits_the_same_requests_with_the_same_seed() -> None:
    def hits(seed: int) -> list[bool]:
        faults = FaultQueue(random.Random(seed))
        faults.add(Fault(Kind.DROP, Target(probability=0.3), times=-1))
        return [bool(faults.take(0, 1, None, dict)) for _ in range(200)]

    assert hits(1) == hits(1) != hits(2)
    assert 30 < sum(hits(1)) < 90
    with pytest.raises(ConfigError, match="from 0 to 1"):
        Target(probability=1.5)
    with pytest.raises(ConfigError, match="of which topic"):
        Target(partition=1)


def test_names_of_apis_and_errors_are_forgiven_their_case_only() -> None:
    assert api_number("offset_for_leader_epoch") == api_number("OffsetForLeaderEpoch") == 23
    with pytest.raises(ConfigError, match='Did you mean "produce"'):
        api_number("Prodce")
    with pytest.raises(ConfigError, match='Did you mean "FENCED_LEADER_EPOCH"'):
        error_number("FENCED_LEADER_EPOC")
