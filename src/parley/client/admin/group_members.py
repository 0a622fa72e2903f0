"""Taking members out of a group, as an operator does: LeaveGroup in the name of each (KIP-345)."""

from __future__ import annotations

from collections.abc import Sequence

from parley.client.admin.calls import Begin
from parley.client.admin.described_groups import (
    CONSUMER,
    GroupDescription,
    MemberDescription,
    describe_group,
)
from parley.client.admin.outcomes import group_error
from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.core import Cluster
from parley.client.cluster.retry import Deadline, raise_first
from parley.client.cluster.routing import at_coordinator
from parley.client.options import arguments
from parley.errors import KafkaError, broker_error, nearest_hint
from parley.errors.codes import UNKNOWN_MEMBER_ID
from parley.messages import LeaveGroupRequest, LeaveGroupResponse
from parley.net import BrokerConnection, Reply
from parley.schema import ApiKey
from parley.types import Names, text, texts
from parley.versions import Feature, VersionRange

SEVERAL_VERSION = 3
"""First LeaveGroup version that takes several members, static ones too (KIP-345)."""
_OUT = (0, UNKNOWN_MEMBER_ID)
"""Answers for a member that is not in the group any more: it may have left by itself meanwhile."""
REASON = "removed by an operator"
"""What the group's log says, at brokers that keep reasons (KIP-800)."""


async def remove_members(
    begin: Begin, group_id: str, members: Names | None = None, *, timeout_ms: int | None = None
) -> tuple[MemberDescription, ...]:
    """Take members out of a group, or with None all of them; return them as they were.

    A member is named by its instance id or by its member id. The others take over its partitions. A
    member that still runs joins again: stop it first. Raises UnknownMemberIdError before anything
    is sent for a name that nobody in the group has, and UnsupportedVersionError for static members
    (KIP-345) before Kafka 2.4 and members of the consumer protocol (KIP-848) before 4.0; afterwards
    the first member's error, noting the others.
    """
    text("group_id", group_id)
    names = None if members is None else texts("members", members, "members")
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)
    group = await describe_group(cluster, group_id, deadline)
    wanted = (
        group.members if names is None else [_named(group, name) for name in dict.fromkeys(names)]
    )
    leaving = tuple(dict.fromkeys(wanted))
    if leaving:
        await _remove(cluster, group, leaving, deadline)
    return leaving


def _named(group: GroupDescription, name: str) -> MemberDescription:
    for member in group.members:
        if name in (member.instance_id, member.member_id):
            return member
    known = [
        one
        for member in group.members
        for one in (member.instance_id, member.member_id)
        if one is not None
    ]
    hint = nearest_hint(name, known) or f" It has {len(group.members)}; describe_groups names them."
    raise _unknown(f'group "{group.group_id}" has no member "{name}".{hint}')


def _unknown(said: str) -> KafkaError:
    return broker_error(UNKNOWN_MEMBER_ID, said)


async def _remove(
    cluster: Cluster,
    group: GroupDescription,
    members: Sequence[MemberDescription],
    deadline: Deadline,
) -> None:
    pending, group_id = list(members), group.group_id
    static = any(member.instance_id is not None for member in members)
    allowed = VersionRange(SEVERAL_VERSION if static else 0, 2**15 - 1)

    async def attempt(conn: BrokerConnection) -> None:
        if group.type == CONSUMER:
            conn.versions.require(Feature.CONSUMER_GROUPS)
        several = conn.versions.choose(ApiKey.LEAVE_GROUP, allowed) >= SEVERAL_VERSION
        while pending:
            now = pending[:] if several else pending[:1]
            message = _request(group_id, now, several=several)
            reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
            answers = [(reply.message.error_code, now[0])]  # below v3 that is the member's own
            answers += zip(
                [answer.error_code for answer in reply.message.members], now, strict=False
            )
            raise_first(
                [
                    _error(code, group_id, member, conn, reply)
                    for code, member in answers
                    if code not in _OUT
                ]
            )
            del pending[: len(now)]

    what = f"taking members out of group {group_id}"
    await at_coordinator(cluster, KeyType.GROUP, group_id, what, deadline, attempt)


def _error(
    code: int,
    group_id: str,
    member: MemberDescription,
    conn: BrokerConnection,
    reply: Reply[LeaveGroupResponse],
) -> KafkaError:
    said = f'group "{group_id}", member "{member.instance_id or member.member_id}"'
    return group_error(code, group_id, conn, reply, said)


def _request(
    group_id: str, members: Sequence[MemberDescription], *, several: bool
) -> LeaveGroupRequest:
    if not several:
        (member,) = members
        return LeaveGroupRequest(group_id=group_id, member_id=member.member_id)
    return LeaveGroupRequest(group_id=group_id, members=[_identity(member) for member in members])


def _identity(member: MemberDescription) -> LeaveGroupRequest.MemberIdentity:
    """A static member goes by its instance id alone: its member id changes when it comes back."""
    static = member.instance_id is not None
    return LeaveGroupRequest.MemberIdentity(
        member_id="" if static else member.member_id,
        group_instance_id=member.instance_id,
        reason=REASON,
    )
