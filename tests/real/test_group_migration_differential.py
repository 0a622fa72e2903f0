"""Live groups change their protocol on a real broker and on the embedded one of its
release: the same answers (H24).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from parley.client import Client, NewTopic
from parley.devcluster import LocalCluster
from parley.devcluster.state.groups.offsets import java_hash
from parley.errors import codes
from parley.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
    decode_body,
    encode_body,
)
from parley.schema import VersionRange
from parley.testing.realbroker import RealCluster

from ..support import eventually

pytestmark = pytest.mark.matrix
PARTITIONS = 3
OFFSETS_PARTITIONS = 100
"""What both sides' numbers of partitions of `__consumer_offsets`, 4 and 50, divide."""

Beat = ConsumerGroupHeartbeatRequest
RELEASES = ["4.0.0", "4.3.0"]
NOT_YET = {
    codes.COORDINATOR_LOAD_IN_PROGRESS,
    codes.COORDINATOR_NOT_AVAILABLE,
    codes.NOT_COORDINATOR,
}


def subscription(topic: str, owned: list[int]) -> bytes:
    kind = ConsumerProtocolSubscription
    parts = [kind.TopicPartition(topic=topic, partitions=owned)] if owned else []
    body = encode_body(
        kind(topics=[topic], user_data=None, owned_partitions=parts, generation_id=-1), 3
    )
    return b"\0\3" + b"".join(body)


def assignment(topic: str, partitions: list[int], user_data: bytes | None = None) -> bytes:
    kind = ConsumerProtocolAssignment
    parts = [kind.TopicPartition(topic=topic, partitions=partitions)]
    return b"\0\3" + b"".join(encode_body(kind(assigned_partitions=parts, user_data=user_data), 3))


class Side:
    """One broker and one group; what it answered is kept, without ids."""

    def __init__(self, client: Client, topic: str) -> None:
        self.client, self.topic, self.group = client, topic, f"{topic}-group"
        self.node = next(iter(client.metadata().brokers))
        self.topic_id = client.metadata([topic]).topics[topic].topic_id
        self.facts: list[object] = []

    def join(
        self,
        member: str,
        owned: list[int] | None = None,
        *,
        protocol: str = "range",
        kind: str = "consumer",
    ) -> JoinGroupResponse:
        protocols = [
            JoinGroupRequest.JoinGroupRequestProtocol(
                name=protocol, metadata=subscription(self.topic, owned or [])
            )
        ]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member,
            protocol_type=kind,
            protocols=protocols,
        )
        return self.client.request(self.node, request)

    def joined(self, *, protocol: str = "range", kind: str = "consumer") -> JoinGroupResponse:
        """Join as a newcomer: first an id, then a generation."""
        self.client.request(self.node, FindCoordinatorRequest(coordinator_keys=[self.group]))
        answers: list[JoinGroupResponse] = []

        def asked() -> bool:
            answers.append(self.join("", protocol=protocol, kind=kind))
            return answers[-1].error_code not in NOT_YET

        eventually(asked, "the coordinator is there")
        if answers[-1].error_code != codes.MEMBER_ID_REQUIRED:
            return answers[-1]
        return self.join(answers[-1].member_id, protocol=protocol, kind=kind)

    def sync(
        self, member: str, generation: int, given: bytes | None = None, protocol: str = "range"
    ) -> SyncGroupResponse:
        listed = (
            []
            if given is None
            else [SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=given)]
        )
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member,
            protocol_type="consumer",
            protocol_name=protocol,
            assignments=listed,
        )
        return self.client.request(self.node, request)

    def owned(self, synced: SyncGroupResponse) -> list[int]:
        found = decode_body(ConsumerProtocolAssignment, 3, synced.assignment[2:])
        return [index for topic in found.assigned_partitions for index in topic.partitions]

    def heartbeat(self, member: str, generation: int) -> int:
        request = HeartbeatRequest(group_id=self.group, generation_id=generation, member_id=member)
        return self.client.request(self.node, request).error_code

    def commit(self, member: str, generation: int, version: int) -> int:
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=self.topic, partitions=[part])
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[topic],
        )
        answer = self.client.request(self.node, request, allowed=VersionRange(version, version))
        return answer.topics[0].partitions[0].error_code

    def beat(
        self, member: str, epoch: int, owned: list[int] | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        request = Beat(group_id=self.group, member_id=member, member_epoch=epoch)
        if epoch == 0:
            request.subscribed_topic_names, request.rebalance_timeout_ms, owned = (
                [self.topic],
                30_000,
                [],
            )
        if owned is not None:
            parts = (
                [Beat.TopicPartitions(topic_id=self.topic_id, partitions=owned)] if owned else []
            )
            request.topic_partitions = parts
        return self.client.request(self.node, request)

    def until_topic_is_known(self) -> None:
        """Wait until the group's coordinator knows the topic: metadata may have it earlier.

        A member of another group of the same partition of `__consumer_offsets` finds out.
        """

        def place(name: str) -> int:
            return (java_hash(name) & 0x7FFFFFFF) % OFFSETS_PARTITIONS

        group = self.group
        others = (f"{group}-probe-{number}" for number in count())
        self.group = next(name for name in others if place(name) == place(group))
        self.client.request(self.node, FindCoordinatorRequest(coordinator_keys=[self.group]))
        epoch = 0

        def has_everything() -> bool:
            nonlocal epoch
            answer = self.beat("P", epoch)
            if answer.error_code:
                return False
            epoch = answer.member_epoch
            found = [] if answer.assignment is None else answer.assignment.topic_partitions
            return sum(len(topic.partitions) for topic in found) == PARTITIONS

        eventually(has_everything, "the coordinator knows the topic")
        self.beat("P", -1)
        self.group = group

    def leave(self, member: str) -> int:
        one = LeaveGroupRequest.MemberIdentity(member_id=member)
        return (
            self.client.request(self.node, LeaveGroupRequest(group_id=self.group, members=[one]))
            .members[0]
            .error_code
        )

    def described(self, base: int = 0) -> tuple[object, ...]:
        """What both descriptions and the list say of the group, its epochs counted from `base`."""
        classic = self.client.request(self.node, DescribeGroupsRequest(groups=[self.group])).groups[
            0
        ]
        modern = self.client.request(
            self.node, ConsumerGroupDescribeRequest(group_ids=[self.group])
        ).groups[0]
        listed = [
            (one.protocol_type, one.group_state, one.group_type)
            for one in self.client.request(self.node, ListGroupsRequest()).groups
            if one.group_id == self.group
        ]
        kinds = sorted((one.member_type, one.member_epoch - base) for one in modern.members)
        said = (
            modern.error_code,
            modern.group_state,
            modern.group_epoch - base,
            modern.assignment_epoch - base,
            kinds,
        )
        return (
            classic.error_code,
            classic.group_state,
            classic.protocol_type,
            len(classic.members),
            said,
            listed,
        )


def play_there_and_back(side: Side) -> None:
    """A classic member, one of the consumer protocol, both, and the classic one alone again."""
    side.until_topic_is_known()
    fact = side.facts.append
    first = side.joined()
    name, generation = first.member_id, first.generation_id
    fact((first.error_code, generation, first.leader == name))
    fact(side.owned(side.sync(name, generation, assignment(side.topic, [0, 1, 2]))))
    came = side.beat("M", 0)
    assigned = came.assignment is None or came.assignment.topic_partitions
    fact((came.error_code, came.member_epoch - generation, assigned))
    fact(side.described())
    fact([side.heartbeat(name, generation), side.heartbeat(name, generation + 1)])
    fact(side.heartbeat("other", 1))
    fact((side.sync(name, generation).error_code, side.sync(name, generation + 1).error_code))
    fact([side.commit(name, generation, version) for version in (8, 9)])
    fact([side.commit("M", came.member_epoch, version) for version in (8, 9)])
    fact(side.join(name, protocol="range", kind="connect").error_code)
    fact(side.join("", protocol="mine").error_code)
    generation, kept = play_giving_up(side, name)
    fact((side.heartbeat(name, generation), side.commit(name, generation, 8)))
    back = side.join(name, kept)
    fact((back.error_code, back.generation_id - generation, back.leader == name))
    fact(len(back.members))
    fact(side.sync(name, back.generation_id, assignment(side.topic, [0, 1, 2])).error_code)
    fact(side.leave(name))
    fact(side.described())


def play_giving_up(side: Side, name: str) -> tuple[int, list[int]]:
    """The classic member gives up what the other one then has, until that one leaves.

    Return the classic member's generation, and the partitions that it kept.
    """
    fact = side.facts.append
    # It gives nothing up by itself, then what it was not given any more.
    again = side.join(name, [0, 1, 2])
    fact((again.error_code, again.generation_id, again.protocol_name, again.leader))
    fact(len(again.members))
    kept = side.owned(side.sync(name, again.generation_id))
    fact(len(kept) in (1, 2))
    fact(side.heartbeat(name, again.generation_id))
    last = side.join(name, kept)
    generation = last.generation_id
    fact((last.error_code, generation))
    fact((side.heartbeat(name, generation), side.owned(side.sync(name, generation)) == kept))
    fact((side.sync(name, generation, protocol="roundrobin").error_code, side.leave("nobody")))
    rest: list[int] = []

    def has_the_rest() -> bool:
        beat = side.beat("M", generation)
        found = [] if beat.assignment is None else beat.assignment.topic_partitions
        rest.extend(index for topic in found for index in topic.partitions)
        return bool(rest)

    eventually(has_the_rest, "the partitions that the classic member gave up")
    fact(sorted(rest + kept))
    side.beat("M", generation, rest)
    fact(side.described())
    fact(side.beat("M", -1).member_epoch)
    fact(side.described())
    return generation, kept


def play_into_consumers(side: Side) -> None:
    """A classic member joins a group of the consumer protocol, and leaves it again."""
    fact = side.facts.append
    side.client.request(side.node, FindCoordinatorRequest(coordinator_keys=[side.group]))

    def has_everything() -> bool:
        beat = side.beat("M", 0)
        found = [] if beat.assignment is None else beat.assignment.topic_partitions
        return sum(len(topic.partitions) for topic in found) == PARTITIONS

    eventually(has_everything, "the coordinator is there, and knows the topic")
    # A real coordinator may learn of the topic after the member, which costs an epoch.
    epoch = side.beat("M", 0).member_epoch
    side.beat("M", epoch, [0, 1, 2])
    fact(side.join("", kind="connect").error_code)
    came = side.joined(protocol="mine")
    fact((came.error_code, came.protocol_type, came.protocol_name, came.leader, len(came.members)))

    def raised() -> bool:
        nonlocal came
        came = side.join(came.member_id, protocol="mine")
        return came.generation_id > epoch

    # 4.3 waits for the assignment interval
    eventually(raised, "the epoch that counts the classic member")
    fact(
        (
            came.generation_id - epoch,
            side.owned(side.sync(came.member_id, came.generation_id, protocol="mine")),
        )
    )
    fact(side.heartbeat(came.member_id, came.generation_id))
    fact(side.described(epoch))
    fact(side.leave(came.member_id))
    fact(side.described(epoch))


def play_what_cannot_be(side: Side) -> None:
    """Groups that are not upgraded: another type, data of the members' own assignor."""
    fact = side.facts.append
    first = side.joined(kind="connect")
    fact(first.error_code)
    refused = side.beat("M", 0)
    fact((refused.error_code, refused.member_epoch, refused.assignment))
    side.leave(first.member_id)
    side.group += "-2"
    first = side.joined()
    side.sync(first.member_id, first.generation_id, assignment(side.topic, [0], b"mine"))
    fact(side.beat("M", 0).error_code)
    fact(side.beat("M", 1).error_code)
    fact(side.described())


@pytest.fixture(params=RELEASES)
def sides(
    request: pytest.FixtureRequest, real_cluster: Callable[[str], RealCluster], topic_name: str
) -> Iterator[tuple[Side, Side]]:
    real = real_cluster(request.param)
    with (
        LocalCluster(brokers=1, release=request.param) as embedded,
        Client(bootstrap_servers=real.bootstrap_servers) as there,
        Client(bootstrap_servers=embedded.bootstrap_servers) as here,
    ):
        for client in (there, here):
            client.create_topics([NewTopic(topic_name, num_partitions=PARTITIONS)])
        yield Side(there, topic_name), Side(here, topic_name)


@pytest.mark.parametrize("play", [play_there_and_back, play_into_consumers, play_what_cannot_be])
def test_groups_change_their_protocol_alike(
    sides: tuple[Side, Side], play: Callable[[Side], None]
) -> None:
    real, embedded = sides
    play(real)
    play(embedded)
    assert embedded.facts == real.facts
