"""Requests of groups and of transactional ids, and what a coordinator that loads says to each, by
release.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from parley.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeShareGroupOffsetsRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    Message,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from parley.schema import VersionRange
from parley.versions.releases import release_number

from .lone_member import GROUP, TOPIC

NAME = "copier"
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16


class Asked(NamedTuple):
    """A request, the first release that has it, and the answer's code by release."""

    since: str
    request: Message
    codes: Mapping[str, int] = MappingProxyType({"0": NOT_COORDINATOR, "2.0": LOADING})
    allowed: VersionRange | None = None

    def expected(self, release: str) -> int:
        return [code for since, code in self.codes.items() if not newer(since, release)][-1]


def newer(since: str, release: str) -> bool:
    return since != "0" and release_number(since) > release_number(release)


def fetch_of_several() -> OffsetFetchRequest:
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    return OffsetFetchRequest(groups=[group], require_stable=True)


def finding(release: str, name: str, kind: int = 0) -> FindCoordinatorRequest:
    if newer("3.0", release):
        return FindCoordinatorRequest(key=name, key_type=kind)
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])


def transactional(kind: type[TxnOffsetCommitRequest]) -> TxnOffsetCommitRequest:
    part = kind.TxnOffsetCommitRequestPartition(committed_offset=1)
    topic = kind.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[part])
    return kind(transactional_id=NAME, group_id=GROUP, topics=[topic])


def adding() -> AddPartitionsToTxnRequest:
    kind = AddPartitionsToTxnRequest
    topics = [kind.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
    return kind(v3_and_below_transactional_id=NAME, v3_and_below_topics=topics)


COMMITTED = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=5)
COMMIT = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[COMMITTED])
OF_GROUPS = [
    Asked("0.9", JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")],
    )),
    Asked("0.9", SyncGroupRequest(
        group_id=GROUP, member_id="m", generation_id=1, protocol_type="consumer",
        protocol_name="range",
    ), {"0": NOT_COORDINATOR, "2.0": 27, "4.0": LOADING}),
    Asked("0.9", HeartbeatRequest(group_id=GROUP, member_id="m", generation_id=1),
          {"0": NOT_COORDINATOR, "2.0": 0}),
    Asked("0.9", LeaveGroupRequest(group_id=GROUP, member_id="m"), allowed=VersionRange(0, 2)),
    Asked("2.4", LeaveGroupRequest(
        group_id=GROUP, members=[LeaveGroupRequest.MemberIdentity(member_id="m")]
    ), allowed=VersionRange(3, 5)),
    Asked("0.9", OffsetCommitRequest(group_id=GROUP, topics=[COMMIT]), allowed=VersionRange(1, 9)),
    Asked("0.10.2", OffsetFetchRequest(group_id=GROUP, topics=None), allowed=VersionRange(2, 7)),
    Asked("3.0", fetch_of_several(), allowed=VersionRange(8, 9)),
    Asked("0.9", DescribeGroupsRequest(groups=[GROUP])),
    Asked("0.9", ListGroupsRequest(), {"0": LOADING}),
    Asked("1.1", DeleteGroupsRequest(groups_names=[GROUP])),
    Asked("2.4", OffsetDeleteRequest(group_id=GROUP)),
    Asked("0.11", transactional(TxnOffsetCommitRequest),
          {"0": NOT_COORDINATOR, "2.0": LOADING, "2.6": NOT_AVAILABLE}, VersionRange(0, 1)),
    Asked("2.5", transactional(TxnOffsetCommitRequest), allowed=VersionRange(2, 4)),
    Asked("4.0", ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m")),
    Asked("4.0", ConsumerGroupDescribeRequest(group_ids=[GROUP])),
    Asked("4.2", ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", subscribed_topic_names=[TOPIC])),
    Asked("4.2", ShareGroupDescribeRequest(group_ids=[GROUP])),
    Asked("4.2", DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
            group_id=GROUP, topics=None)])),
]  # fmt: skip
OF_TRANSACTIONS = [
    Asked(
        "0.11",
        InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000),
        {"0": LOADING},
    ),
    Asked("0.11", adding(), {"0": LOADING}, allowed=VersionRange(0, 3)),
    Asked("0.11", AddOffsetsToTxnRequest(transactional_id=NAME, group_id=GROUP), {"0": LOADING}),
    Asked("0.11", EndTxnRequest(transactional_id=NAME), {"0": LOADING}),
    Asked("3.0", DescribeTransactionsRequest(transactional_ids=[NAME]), {"0": LOADING}),
    Asked("3.0", ListTransactionsRequest(), {"0": LOADING}),
]
