"""The messages of a classic member: JoinGroup, SyncGroup, Heartbeat and
LeaveGroup, in every version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from parley.client.group.assignors.base import Assignor, Member
from parley.client.group.classic.membership import Share
from parley.client.group.formats import (
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from parley.client.group.member import Identity
from parley.errors import KafkaError, RemoteProtocolError, broker_error, printable
from parley.errors.codes import INVALID_SESSION_TIMEOUT
from parley.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from parley.schema import ApiKey
from parley.types import TopicPartition

PROTOCOL_TYPE = "consumer"
"""What JoinGroup calls a group of consumers; Connect's workers, for one, have another."""
REASON_LENGTH = 255
"""What a broker keeps of a reason to join or to leave (KIP-800)."""
REBALANCE_TIMEOUT_VERSION = 1
"""First JoinGroup version with a rebalance timeout; before it the session timeout is both."""
NULL_USER_DATA_VERSION = 1
"""First JoinGroup version at which user data may be null: a leader of Kafka
0.9.0 cannot read that (G22).
"""
MOST_SESSION_V0_MS = 30_000
"""The longest session that 0.9 takes (G9); a member cannot know 0.9 from 0.10.0."""
SEVERAL_MEMBERS_VERSION = 3
"""First LeaveGroup version that names members in a list."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a member says of itself in every request."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    rack: str = ""


def join_request(
    who: Standing,
    identity: Identity,
    protocols: Iterable[tuple[str, Subscription]],
    reason: str,
    version: int,
) -> JoinGroupRequest:
    """Return the request to join as `identity`, with a subscription for each
    assignor that the member has.
    """
    session_ms = who.session_timeout_ms
    if version < REBALANCE_TIMEOUT_VERSION:
        session_ms = min(session_ms, MOST_SESSION_V0_MS)
    if version < NULL_USER_DATA_VERSION:
        protocols = [
            (name, replace(one, user_data=one.user_data or b"")) for name, one in protocols
        ]
    offered = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id=who.group_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=who.rebalance_timeout_ms,
        member_id=identity.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            offered(name=name, metadata=encode_subscription(one)) for name, one in protocols
        ],
        reason=reason[:REASON_LENGTH],
    )


def subscription_of(
    assignor: Assignor, topics: Iterable[str], kept: Share, last: Share, rack: str
) -> Subscription:
    """Return what a member writes for one assignor.

    A cooperative one learns what the member keeps; an eager one, for which it gave everything up,
    what it had last.
    """
    share = kept if assignor.cooperative else last
    claimed = share.partitions if assignor.cooperative else ()
    return Subscription(
        topics=tuple(sorted(topics)),
        user_data=assignor.user_data(share.partitions, share.generation),
        owned=claimed,
        generation=share.generation if claimed else -1,
        rack=rack or None,
    )


def members_of(response: JoinGroupResponse) -> list[Member]:
    """Return the members that a leader shares the partitions out to.

    Raises RemoteProtocolError, naming the member, for what is no subscription.
    """
    members = []
    for found in response.members:
        try:
            subscription = decode_subscription(bytes(found.metadata))
        except RemoteProtocolError as error:
            text = f"member {printable(found.member_id)} joined with bytes that are no subscription"
            raise RemoteProtocolError(f"{text}; this member leads the group: {error}") from error
        members.append(Member(found.member_id, subscription, found.group_instance_id))
    return members


def sync_request(
    who: Standing,
    identity: Identity,
    protocol: str | None,
    shares: Mapping[str, Sequence[TopicPartition]],
) -> SyncGroupRequest:
    """Return the request for this member's share; a leader sends everybody's along."""
    share = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id=who.group_id,
        generation_id=identity.generation,
        member_id=identity.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=[
            share(member_id=member, assignment=encode_assignment(found))
            for member, found in shares.items()
        ],
    )


def heartbeat_request(who: Standing, identity: Identity) -> HeartbeatRequest:
    """Return the request that keeps a member in its group."""
    return HeartbeatRequest(
        group_id=who.group_id,
        generation_id=identity.generation,
        member_id=identity.member_id,
        group_instance_id=who.group_instance_id,
    )


def leave_request(
    who: Standing, identity: Identity, reason: str, version: int
) -> LeaveGroupRequest:
    """Return the request to leave a group."""
    if version < SEVERAL_MEMBERS_VERSION:
        return LeaveGroupRequest(group_id=who.group_id, member_id=identity.member_id)
    member = LeaveGroupRequest.MemberIdentity(
        member_id=identity.member_id,
        group_instance_id=who.group_instance_id,
        reason=reason[:REASON_LENGTH],
    )
    return LeaveGroupRequest(group_id=who.group_id, members=[member])


def group_error(code: int, who: Standing, api: ApiKey, version: int | None = None) -> KafkaError:
    """Return what a coordinator has against a member."""
    text = None
    if code == INVALID_SESSION_TIMEOUT:
        text = (
            f"group {who.group_id}: the coordinator does not take "
            f"session_timeout_ms={who.session_timeout_ms}. Choose one from its "
            "group.min.session.timeout.ms (6000 where nobody has set it) to its "
            "group.max.session.timeout.ms"
        )
    resource = f"group {who.group_id}"
    return broker_error(code, text, api=api.name, version=version, resource=resource)


def leave_error(response: LeaveGroupResponse, version: int) -> KafkaError | None:
    """Return what a coordinator has against a member's leaving: v3 and later
    say it per member (G14).
    """
    codes = [response.error_code, *(found.error_code for found in response.members)]
    code = next((code for code in codes if code), 0)
    return broker_error(code, api="LEAVE_GROUP", version=version) if code else None
