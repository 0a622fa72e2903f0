"""What an operator does with groups, beside other clients' members in them:
A19 to A26, A37 to A42.
"""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

from parley.client import Client, GroupDescription, OffsetAndMetadata, PartitionLag, TopicPartition
from parley.devcluster import LocalCluster
from parley.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    KafkaError,
    NonEmptyGroupError,
    RequestTimedOut,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from parley.versions.releases import release_number

from ..support import eventually
from .test_classic_groups_foreign import (
    GROUP,
    PARTITIONS,
    TOPIC,
    Aiokafka,
    Confluent,
    KafkaPython,
    Member,
    members,
    produce,
    shared,
)
from .test_consumer_groups_foreign import SETTINGS, Member as ModernMember, poll_until

pytestmark = [
    pytest.mark.foreign,
    # The members' sockets and event loops are theirs to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PARTS = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
AT = {tp: OffsetAndMetadata(2, "set") for tp in PARTS}


def since(release: str, first: str) -> bool:
    return release_number(release) >= release_number(first)


def opened(cluster: LocalCluster) -> Client:
    return Client(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=20_000)


def described(client: Client, group_id: str = GROUP) -> GroupDescription:
    return client.describe_groups([group_id])[group_id]


def refused(call: str, client: Client, *arguments: object) -> UnsupportedVersionError:
    with pytest.raises(UnsupportedVersionError) as error:
        getattr(client, call)(*arguments)
    assert error.value.local  # before a byte was sent (A40)
    return error.value


# -- groups with members ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "release"),
    [
        pytest.param(KafkaPython, "0.9", id="0.9"),
        pytest.param(Aiokafka, "0.11", id="0.11"),
        pytest.param(Confluent, "2.1", id="2.1"),
        pytest.param(Aiokafka, "2.4", id="2.4"),
        pytest.param(KafkaPython, "3.9", id="3.9"),
        pytest.param(Confluent, "4.3", id="4.3"),
    ],
)
def test_a_classic_group_with_a_member(kind: type[Member], release: str) -> None:
    with LocalCluster(brokers=2, release=release) as cluster, opened(cluster) as client:
        cluster.create_topic(TOPIC, PARTITIONS)
        member = kind(cluster, release)
        with members(member):
            eventually(lambda: shared(member))
            eventually(lambda: described(client).state == "Stable")
            group = described(client)
            assert (group.type, group.protocol_type, group.protocol) == (
                "classic",
                "consumer",
                "range",
            )
            (one,) = group.members
            assert one.assignment == tuple(PARTS)
            assert one.client_id
            assert one.host in ("/127.0.0.1", "127.0.0.1")
            assert group.coordinator.address in [broker.address for broker in cluster.brokers]
            listed(client, release, group)
            behind(client, release, member, cluster)
            guarded(client, release)
            assert client.remove_members(GROUP, [one.member_id]) == (one,)
            eventually(lambda: joined_again(client, one.member_id))  # it still runs
        abandoned(client, release)


def joined_again(client: Client, before: str) -> bool:
    group = described(client)
    return group.state == "Stable" and [one.member_id != before for one in group.members] == [True]


def listed(client: Client, release: str, group: GroupDescription) -> None:
    (found,) = client.list_groups()
    state, kind = ("Stable", "classic")
    assert (found.group_id, found.protocol_type, found.coordinator) == (
        GROUP,
        "consumer",
        group.coordinator.id,
    )
    assert found.state == (state if since(release, "2.6") else None)
    assert found.type == (kind if since(release, "3.8") else None)
    if since(release, "2.6"):
        assert client.list_groups(states=["stable"]) == [found]
        assert client.list_groups(states=["Empty"]) == []
    else:
        assert (refused("list_groups", client, ["Stable"]).first_release or "").startswith("2.6")
    if since(release, "3.8"):
        assert client.list_groups(types=["Classic"]) == [found]
        assert client.list_groups(types=["consumer"]) == []
    else:
        assert (refused("list_groups", client, (), ["classic"]).first_release or "").startswith(
            "3.8"
        )


def behind(client: Client, release: str, member: Member, cluster: LocalCluster) -> None:
    """The lag falls to nothing as the member commits, and names it as the owner."""
    if release == "0.9":  # librdkafka, which produces here, needs ApiVersions
        assert (refused("group_lag", client, GROUP).first_release or "").startswith("0.10.2")
        found = client.group_lag(GROUP, PARTS)
        assert {one.lag for one in found.values()} == {None}
    else:
        produce(cluster, 3)
        eventually(lambda: len(member.read) == 3 * PARTITIONS)
        eventually(
            lambda: [one.lag for one in client.group_lag(GROUP).values()] == [0] * PARTITIONS
        )
        found = client.group_lag(GROUP)
        assert {one.committed.offset for one in found.values() if one.committed} == {3}
    assert list(found) == PARTS
    (owner,) = {one.owner for one in found.values()}
    assert owner == described(client).members[0]


def guarded(client: Client, release: str) -> None:
    """Nothing of a group with members is taken away or changed by others."""
    before = client.list_group_offsets(GROUP, PARTS)
    with pytest.raises(UnknownMemberIdError, match="only they may commit") as error:
        client.alter_group_offsets(GROUP, AT)
    assert len(error.value.__notes__) == PARTITIONS - 1  # each partition's failure is said
    if since(release, "1.1"):
        with pytest.raises(NonEmptyGroupError, match="has members"):
            client.delete_groups([GROUP])
    else:
        assert (refused("delete_groups", client, [GROUP]).first_release or "").startswith("1.1")
    if since(release, "2.4"):
        with pytest.raises(GroupSubscribedToTopicError, match="subscribe"):
            client.delete_group_offsets(GROUP, PARTS[:1])
    else:
        assert refused("delete_group_offsets", client, GROUP, PARTS[:1]).first_release == "2.4"
    with pytest.raises(UnknownMemberIdError, match='no member "nobody"'):
        client.remove_members(GROUP, ["nobody"])
    assert client.list_group_offsets(GROUP, PARTS) == before


def abandoned(client: Client, release: str) -> None:
    """Without members its offsets can be set and deleted, and then the group itself."""
    assert client.remove_members(GROUP) == ()
    client.alter_group_offsets(GROUP, AT)
    assert described(client).members == ()
    found = client.list_group_offsets(GROUP, PARTS)
    assert [(one.offset, one.metadata) for one in found.values() if one] == [
        (2, "set")
    ] * PARTITIONS
    if since(release, "0.10.2"):
        assert client.list_group_offsets(GROUP) == found
    else:
        error = refused("list_group_offsets", client, GROUP)
        assert any("name the partitions" in note for note in error.__notes__)
    if since(release, "2.4"):
        client.delete_group_offsets(GROUP, PARTS[:2])
        assert sorted(client.list_group_offsets(GROUP)) == PARTS[2:]
    if since(release, "1.1"):
        client.delete_groups([GROUP])
        assert client.list_groups() == []


@pytest.mark.parametrize("release", ["4.0", "4.3"])
def test_a_group_of_the_consumer_protocol(release: str) -> None:
    with (
        LocalCluster(brokers=2, release=release, settings=SETTINGS) as cluster,
        opened(cluster) as client,
    ):
        cluster.create_topic(TOPIC, 4)
        parts = PARTS[:4]
        first, second = ModernMember(cluster), ModernMember(cluster)
        both = [first, second]
        poll_until(
            both,
            lambda: (
                len(first.owned) == len(second.owned) == 2 and described(client).state == "Stable"
            ),
        )
        group = described(client)
        assert (group.state, group.type, group.protocol, group.protocol_type) == (
            "Stable",
            "consumer",
            "uniform",
            "consumer",
        )
        assert group.epoch > 0
        assert all(
            member.assignment == member.target and member.epoch == group.epoch
            for member in group.members
        )
        assert sorted(group.owners()) == parts
        assert client.list_groups(types=["consumer"], states=["Stable"])[0].group_id == GROUP
        found = client.group_lag(GROUP)
        assert {(one.committed, one.end_offset, one.lag) for one in found.values()} == {
            (None, 0, None)
        }
        assert {one.owner for one in found.values()} == set(group.members)
        with pytest.raises(UnknownMemberIdError, match="only they may commit"):
            client.alter_group_offsets(GROUP, dict.fromkeys(parts, 0))
        gone = group.members[0]
        assert client.remove_members(GROUP, [gone.member_id]) == (gone,)
        assert [member.member_id for member in described(client).members] == [
            group.members[1].member_id
        ]
        assert described(client).epoch == group.epoch + 1
        first.consumer.close()
        second.consumer.close()
        client.alter_group_offsets(GROUP, {parts[0]: 0})
        client.delete_groups([GROUP])
        with pytest.raises(GroupIdNotFoundError):
            client.describe_groups([GROUP])


@pytest.mark.parametrize(
    ("release", "protocol"), [("2.3", "classic"), ("2.4", "classic"), ("4.3", "consumer")]
)
def test_a_static_member_that_does_not_come_back_is_taken_out(release: str, protocol: str) -> None:
    with (
        LocalCluster(brokers=1, release=release, settings=SETTINGS) as cluster,
        opened(cluster) as client,
    ):
        cluster.create_topic(TOPIC, PARTITIONS)
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": GROUP,
                "group.instance.id": "rack-7",
                "group.protocol": protocol,
            }
        )
        consumer.subscribe([TOPIC])
        eventually(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == PARTITIONS)
        consumer.close()  # a static member does not leave
        assert [member.instance_id for member in described(client).members] == [
            "rack-7" if release != "2.3" else None
        ]
        if release == "2.3":  # DescribeGroups v4 and LeaveGroup v3 came with 2.4
            return
        with pytest.raises(UnknownMemberIdError, match='Did you mean "rack-7"'):
            client.remove_members(GROUP, ["rack7"])
        (removed,) = client.remove_members(GROUP, ["rack-7"])
        assert removed.assignment == tuple(PARTS)
        assert described(client).state == "Empty"


# -- groups without members ------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["2.4", "4.3"])
def simple(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, release=request.param) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster


@pytest.fixture
def client(simple: LocalCluster) -> Iterator[Client]:
    with opened(simple) as client:
        yield client
        simple.faults.clear()


def test_every_broker_is_asked_for_its_groups(client: Client) -> None:
    names = [f"spread-{number:02}" for number in range(20)]
    for name in names:
        client.alter_group_offsets(name, {PARTS[0]: 0})
    found = [one for one in client.list_groups() if one.group_id in names]
    assert [one.group_id for one in found] == names
    assert {one.coordinator for one in found} == {1, 2, 3}
    assert {
        name: group.coordinator.id for name, group in client.describe_groups(names).items()
    } == {one.group_id: one.coordinator for one in found}


def test_a_failure_of_one_group_leaves_none_undone_and_each_is_said(client: Client) -> None:
    for name in ("old-1", "old-2"):
        client.alter_group_offsets(name, {PARTS[0]: 0})
    with pytest.raises(GroupIdNotFoundError, match='no group "absent-1"') as error:
        client.delete_groups(["absent-1", "old-1", "absent-2", "old-2"])
    other, done = error.value.__notes__
    assert 'no group "absent-2"' in other
    assert done == "deleted all the same: old-1, old-2"
    assert not {"old-1", "old-2"} & {one.group_id for one in client.list_groups()}


def test_an_absent_group(client: Client, simple: LocalCluster) -> None:
    assert client.list_group_offsets("absent") == {}
    with pytest.raises(GroupIdNotFoundError, match="absent"):
        client.group_lag("absent")
    with pytest.raises(GroupIdNotFoundError, match="absent"):
        client.delete_group_offsets("absent", PARTS[:1])
    if simple.broker(1).release.startswith("4"):
        with pytest.raises(GroupIdNotFoundError, match="absent"):
            client.describe_groups(["absent"])
    else:
        assert described(client, "absent").state == "Dead"


@pytest.mark.parametrize(
    "error", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"]
)
def test_a_coordinator_that_moves_or_loads_is_asked_again(
    client: Client, simple: LocalCluster, error: str
) -> None:
    client.alter_group_offsets("moving", {PARTS[0]: 7, PARTS[1]: 7})
    for api in ("ListGroups", "DescribeGroups", "OffsetFetch", "OffsetDelete", "DeleteGroups"):
        simple.faults.fail(api, error)
    assert "moving" in {one.group_id for one in client.list_groups()}
    assert described(client, "moving").state == "Empty"
    assert client.group_lag("moving")[PARTS[0]].lag == -7
    client.delete_group_offsets("moving", PARTS[:1])
    client.delete_groups(["moving"])
    assert client.list_group_offsets("moving") == {}


def test_a_deletion_without_an_answer_is_not_reported_as_failed(
    client: Client, simple: LocalCluster
) -> None:
    client.alter_group_offsets("lost", {PARTS[0]: 0})
    simple.faults.cut("DeleteGroups", executed=True)
    client.delete_groups(["lost"])  # the second attempt finds no group
    assert client.list_group_offsets("lost") == {}


def test_a_call_ends_at_its_deadline_and_says_which_group(
    client: Client, simple: LocalCluster
) -> None:
    simple.faults.fail("DescribeGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=-1)
    with pytest.raises(KafkaError) as error:
        client.describe_groups(["slow"], timeout_ms=300)
    assert "describing group slow" in error.value.__notes__[0]
    simple.faults.clear()
    simple.faults.drop("DeleteGroups")
    with pytest.raises(RequestTimedOut, match="unknown"):  # A39: whether it was done
        client.delete_groups(["slow"], timeout_ms=300)


def test_lag_of_what_has_no_leader_is_unknown_and_the_rest_is_said() -> None:
    with LocalCluster(brokers=2, release="4.3") as cluster, opened(cluster) as client:
        cluster.create_topic(TOPIC, 2, 1)
        client.alter_group_offsets(GROUP, {PARTS[0]: 0, PARTS[1]: 0})
        coordinator = described(client).coordinator.id
        leaders = {
            index: found.leader
            for index, found in client.metadata([TOPIC]).topics[TOPIC].partitions.items()
        }
        lost = next(index for index, leader in leaders.items() if leader != coordinator)
        cluster.broker(leaders[lost]).kill()
        eventually(lambda: client.group_lag(GROUP)[PARTS[lost]].end_offset is None)
        at = OffsetAndMetadata(0)
        assert client.group_lag(GROUP) == {
            tp: PartitionLag(at, None if tp.partition == lost else 0) for tp in PARTS[:2]
        }


def test_a_partition_that_does_not_exist_is_named_before_anything_is_written() -> None:
    with LocalCluster(brokers=1, release="4.3") as cluster, opened(cluster) as client:
        cluster.create_topic(TOPIC, PARTITIONS)
        absent = TopicPartition(TOPIC, 99)
        with pytest.raises(UnknownTopicOrPartitionError, match=str(absent)):
            client.alter_group_offsets("mistaken", {PARTS[0]: 0, absent: 0})
        assert client.list_group_offsets("mistaken") == {}
        client.alter_group_offsets("mistaken", {PARTS[0]: 0, PARTS[1]: 0})
        with pytest.raises(UnknownTopicOrPartitionError, match=str(absent)):
            client.delete_group_offsets("mistaken", [PARTS[0], absent])
        assert list(client.list_group_offsets("mistaken")) == PARTS[1:2]
