"""How groups stand, and who is in them: ConsumerGroupDescribe (KIP-848) and DescribeGroups."""

from __future__ import annotations

from dataclasses import dataclass

from parley.client.admin.calls import Begin
from parley.client.admin.outcomes import for_each, group_error
from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline
from parley.client.cluster.routing import at_coordinator, find_coordinators
from parley.client.options import arguments
from parley.errors import RemoteProtocolError
from parley.errors.codes import GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION
from parley.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    decode_body,
)
from parley.net import BrokerConnection
from parley.schema import ApiKey
from parley.types import Names, Node, TopicPartition, texts

CLASSIC, CONSUMER = "classic", "consumer"
CONSUMER_PROTOCOL = "consumer"
"""The protocol type of groups whose assignments are partitions."""
DEAD = "Dead"
_LAST_ASSIGNMENT_VERSION = 3

Partitions = tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group, as its coordinator knows it.

    `assignment` is None where the bytes are not those of a consumer, in a group of another protocol
    type, and empty while a classic group rebalances. `target` (KIP-848) is what the member is to
    have when it has given up and taken what it must, None in a classic group.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    """The name of a static member (KIP-345)."""
    assignment: Partitions | None = ()
    target: Partitions | None = None
    epoch: int = -1
    """The member's epoch (KIP-848), -1 in a classic group."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """How a group stands.

    `type` is "classic" or "consumer" (KIP-848), `state` Kafka's word: Stable, Empty,
    PreparingRebalance, ... and Dead for what is no group, in brokers before 4.0. `protocol` names
    the assignor; in a classic group, which chooses one in each rebalance, it is empty until then.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: Node
    members: tuple[MemberDescription, ...] = ()
    epoch: int = -1
    """The group's epoch (KIP-848), -1 in a classic group."""

    def owners(self) -> dict[TopicPartition, MemberDescription]:
        """Return which member has each partition that is assigned."""
        return {tp: member for member in self.members for tp in member.assignment or ()}


async def describe_groups(
    begin: Begin, group_ids: Names, *, timeout_ms: int | None = None
) -> dict[str, GroupDescription]:
    """Return state, assignor and members of each group, from its coordinator.

    Raises the first group's error, noting the others: GroupIdNotFoundError where there is none, at
    brokers from 4.0 on; older ones call such a group Dead.
    """
    wanted = texts("group_ids", group_ids, "groups")
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)
    await find_coordinators(cluster, KeyType.GROUP, wanted, deadline)
    return await for_each(wanted, lambda group_id: describe_group(cluster, group_id, deadline))


async def describe_group(cluster: Cluster, group_id: str, deadline: Deadline) -> GroupDescription:
    """Return how one group stands; see `describe_groups`."""

    async def attempt(conn: BrokerConnection) -> GroupDescription:
        modern = conn.versions.usable(ApiKey.CONSUMER_GROUP_DESCRIBE) is not None
        found = await _modern(cluster, conn, group_id, deadline) if modern else None
        return found or await _classic(cluster, conn, group_id, deadline)

    return await at_coordinator(
        cluster, KeyType.GROUP, group_id, f"describing group {group_id}", deadline, attempt
    )


async def _modern(
    cluster: Cluster, conn: BrokerConnection, group_id: str, deadline: Deadline
) -> GroupDescription | None:
    """Return a group of the consumer protocol; None for another type, or a broker without it."""
    message = ConsumerGroupDescribeRequest(group_ids=[group_id])
    reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline))
    (group,) = reply.message.groups
    if group.error_code in (GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION):
        return None
    if group.error_code:
        raise group_error(group.error_code, group_id, conn, reply, group.error_message)
    return GroupDescription(
        group_id,
        CONSUMER,
        group.group_state,
        CONSUMER_PROTOCOL,
        group.assignor_name,
        _coordinator(cluster, conn, group_id),
        tuple(_modern_member(member) for member in group.members),
        group.group_epoch,
    )


async def _classic(
    cluster: Cluster, conn: BrokerConnection, group_id: str, deadline: Deadline
) -> GroupDescription:
    reply = await cluster.ask(
        conn, DescribeGroupsRequest(groups=[group_id]), cluster.request_timeout_ms(deadline)
    )
    (group,) = reply.message.groups
    if group.error_code:
        raise group_error(group.error_code, group_id, conn, reply, group.error_message)
    return GroupDescription(
        group_id,
        CLASSIC,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        _coordinator(cluster, conn, group_id),
        tuple(_classic_member(member, group.protocol_type) for member in group.members),
    )


def _coordinator(cluster: Cluster, conn: BrokerConnection, group_id: str) -> Node:
    node_id = cluster.coordinators[KeyType.GROUP, group_id]
    return cluster.view.brokers.get(node_id) or Node(node_id, *conn.address)


def _modern_member(member: ConsumerGroupDescribeResponse.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.member_epoch,
    )


def _partitions(assignment: ConsumerGroupDescribeResponse.Assignment) -> Partitions:
    parts = assignment.topic_partitions
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index) for topic in parts for index in topic.partitions
        )
    )


def _classic_member(
    member: DescribeGroupsResponse.DescribedGroupMember, protocol_type: str
) -> MemberDescription:
    raw = bytes(member.member_assignment)
    assignment = read_assignment(raw) if protocol_type == CONSUMER_PROTOCOL else None
    return MemberDescription(
        member.member_id, member.client_id, member.client_host, member.group_instance_id, assignment
    )


def read_assignment(raw: bytes) -> Partitions | None:
    """Return the partitions in the bytes that a classic group's leader made for a member, None
    where they are no such.

    A later version than is known begins with the fields that are known (ConsumerProtocol).

    >>> read_assignment(bytes.fromhex("0000 00000001 0001 74 00000002 00000000 00000003 ffffffff"))
    (TopicPartition(topic='t', partition=0), TopicPartition(topic='t', partition=3))
    """
    if not raw:
        return ()
    version = min(int.from_bytes(raw[:2], "big", signed=True), _LAST_ASSIGNMENT_VERSION)
    if version < 0:
        return None
    try:
        found = decode_body(ConsumerProtocolAssignment, version, raw[2:], trailing=True)
    except RemoteProtocolError:
        return None
    parts = found.assigned_partitions
    return tuple(
        sorted(TopicPartition(topic.topic, index) for topic in parts for index in topic.partitions)
    )
