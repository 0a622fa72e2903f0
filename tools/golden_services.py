"""The requests of golden exchanges beside the eleven
of golden_requests: groups, transactions, the rest.

Most are asked so that the answer has something in it. What is left is asked for things that do not
exist, in every version, so that no API is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import golden_administration
import golden_new_groups
from golden_exchanges import ANY
from golden_fields import fitting
from parley.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from parley.schema import ApiKey
from parley_laboratory.minimal import minimal_request

if TYPE_CHECKING:
    from golden_exchanges import Recorder

NODE = 1
TOPIC = "golden-services"
MEMBER_ID_REQUIRED, UNKNOWN_MEMBER, ILLEGAL_GENERATION, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = (
    79,
    25,
    22,
    68,
    69,
)
INTER_BROKER = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}
"""Orders of a controller: a broker obeys them whoever sends them, and would lose what it leads."""
UNADVERTISED = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""Answered since 3.7, although advertised only where a metrics plug-in is set up (KIP-714)."""


def play(recorder: Recorder) -> None:
    """Record every API that golden_requests leaves out; a broker of its
    own, and everything on it.
    """
    # Version 0 of Metadata makes the topic, in every release
    # but those of which it is gone: there, none is needed.
    topic = MetadataRequest.MetadataRequestTopic(name=TOPIC)
    version = min(4, recorder.newest(ApiKey.METADATA))
    recorder.ask(
        MetadataRequest(topics=[topic], allow_auto_topic_creation=True), version, node=NODE
    )
    groups(recorder)
    offsets_of_groups(recorder)
    transactions(recorder)
    golden_administration.play(recorder, TOPIC)
    golden_new_groups.play(recorder, TOPIC)
    everything_else(recorder)


# -- classic groups --------------------------------------------------------------------------------


def coordinator(recorder: Recorder, key: str, kind: int = 0) -> None:
    """Ask for a coordinator until there is one: the topics for it are made
    at the first question.
    """
    version = min(1, recorder.newest(ApiKey.FIND_COORDINATOR))
    recorder.settle(fitting(FindCoordinatorRequest, version, key=key, key_type=kind), version)


def join_request(group: str, version: int, member_id: str = "") -> Any:
    protocols = [
        JoinGroupRequest.JoinGroupRequestProtocol(
            name="range", metadata=b"\0\1\0\0\0\1\0\1t\0\0\0\0"
        )
    ]
    return fitting(
        JoinGroupRequest, version, group_id=group, session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id, protocol_type="consumer", protocols=protocols, reason="golden",
    )  # fmt: skip


def member_of(recorder: Recorder, group: str) -> Any:
    """Join a group as its only member, synchronised; nothing is recorded.
    Returns JoinGroup's answer.
    """
    coordinator(recorder, group)
    version = recorder.newest(ApiKey.JOIN_GROUP)
    answer = recorder.settle(join_request(group, version), version)
    if answer.error_code == MEMBER_ID_REQUIRED:
        answer = recorder.settle(join_request(group, version, answer.member_id), version)
    recorder.settle(
        sync_request(group, answer, recorder.newest(ApiKey.SYNC_GROUP)),
        recorder.newest(ApiKey.SYNC_GROUP),
    )
    return answer


def sync_request(group: str, joined: Any, version: int) -> Any:
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(
        member_id=joined.member_id, assignment=b"\0\1golden"
    )
    return fitting(
        SyncGroupRequest, version, group_id=group, generation_id=joined.generation_id,
        member_id=joined.member_id, protocol_type="consumer", protocol_name="range",
        assignments=[assignment],
    )  # fmt: skip


def groups(recorder: Recorder) -> None:
    for version in recorder.versions(ApiKey.JOIN_GROUP):
        group = f"golden-join-{version}"
        coordinator(recorder, group)
        first = {MEMBER_ID_REQUIRED} if version >= 4 else frozenset[int]()
        answer = recorder.record("first", join_request(group, version), version, errors=first)
        if first:
            recorder.record("with its id", join_request(group, version, answer.member_id), version)
        recorder.record(
            "unknown member", join_request(group, version, "gone"), version, errors={UNKNOWN_MEMBER}
        )
    for version in recorder.versions(ApiKey.SYNC_GROUP):
        group = f"golden-sync-{version}"
        joined = member_of(recorder, group)
        recorder.record("alone", sync_request(group, joined, version), version)
        joined.generation_id += 5
        recorder.record(
            "other generation",
            sync_request(group, joined, version),
            version,
            errors={ILLEGAL_GENERATION},
        )
    for version in recorder.versions(ApiKey.HEARTBEAT):
        joined = member_of(recorder, f"golden-beat-{version}")
        for title, generation, errors in (
            ("alive", 0, set()),
            ("other generation", 5, {ILLEGAL_GENERATION}),
        ):
            beat = HeartbeatRequest(
                group_id=f"golden-beat-{version}", member_id=joined.member_id,
                generation_id=joined.generation_id + generation,
            )  # fmt: skip
            recorder.record(title, beat, version, errors=errors)
    everyone = [f"golden-beat-{version}" for version in recorder.versions(ApiKey.HEARTBEAT)]
    for version in recorder.versions(ApiKey.DESCRIBE_GROUPS):
        asked = [*everyone[-1:], "never-made"]
        missing = {GROUP_ID_NOT_FOUND} if version >= 6 else frozenset[int]()
        request = fitting(
            DescribeGroupsRequest, version, groups=asked, include_authorized_operations=True
        )
        recorder.record("one with a member and an unknown one", request, version, errors=missing)
    for version in recorder.versions(ApiKey.LIST_GROUPS):
        recorder.record("all", ListGroupsRequest(), version)
        if version >= 4:
            stable = fitting(
                ListGroupsRequest, version, states_filter=["Stable"], types_filter=["classic"]
            )
            recorder.record("by state", stable, version)
    for version in recorder.versions(ApiKey.LEAVE_GROUP):
        group = f"golden-leave-{version}"
        joined = member_of(recorder, group)
        recorder.record("alone", leave_request(group, version, joined.member_id), version)
        # From v3 on an unknown member is an error of its own, beside the group's.
        recorder.record(
            "unknown member",
            leave_request(group, version, "gone"),
            version,
            errors={UNKNOWN_MEMBER},
        )


def leave_request(group: str, version: int, member_id: str) -> Any:
    member = fitting(
        LeaveGroupRequest.MemberIdentity, version, member_id=member_id, reason="golden"
    )
    return fitting(
        LeaveGroupRequest, version, group_id=group, member_id=member_id, members=[member]
    )


def commit(recorder: Recorder, group: str) -> None:
    coordinator(recorder, group)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata=""
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    recorder.settle(
        OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=[topic]), 2
    )


def offsets_of_groups(recorder: Recorder) -> None:
    for version in recorder.versions(ApiKey.OFFSET_DELETE):
        commit(recorder, "golden-offsets")
        partition = OffsetDeleteRequest.OffsetDeleteRequestPartition
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
            name=TOPIC, partitions=[partition(partition_index=0)]
        )
        recorder.record(
            "one", OffsetDeleteRequest(group_id="golden-offsets", topics=[topic]), version
        )
        absent = OffsetDeleteRequest(group_id="never-made", topics=[topic])
        recorder.record("unknown group", absent, version, errors={GROUP_ID_NOT_FOUND})
    for version in recorder.versions(ApiKey.DELETE_GROUPS):
        commit(recorder, "golden-empty")
        member_of(recorder, "golden-full")
        names = ["golden-empty", "golden-full", "never-made"]
        errors = {NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND}
        recorder.record("three", DeleteGroupsRequest(groups_names=names), version, errors=errors)


# -- transactions ----------------------------------------------------------------------------------


def identity(recorder: Recorder, name: str) -> dict[str, Any]:
    """Begin as a new producer of a transaction of this name; nothing is recorded."""
    coordinator(recorder, name, kind=1)
    version = min(2, recorder.newest(ApiKey.INIT_PRODUCER_ID))
    answer = recorder.settle(
        InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), version
    )
    return {
        "transactional_id": name,
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }


def partitions_request(who: dict[str, Any], version: int) -> Any:
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
    if version >= 4:
        made = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
        return AddPartitionsToTxnRequest(
            transactions=[made(**who, verify_only=False, topics=topics)]
        )
    old = {f"v3_and_below_{name}": value for name, value in who.items()}
    return AddPartitionsToTxnRequest(**old, v3_and_below_topics=topics)


def transactions(recorder: Recorder) -> None:
    if not recorder.versions(ApiKey.INIT_PRODUCER_ID):
        return
    mapping, epoch_fenced = 49, 90 if recorder.version >= (2, 7) else 47
    for version in recorder.versions(ApiKey.ADD_PARTITIONS_TO_TXN):
        who = identity(recorder, f"golden-parts-{version}")
        recorder.record("one partition", partitions_request(who, version), version)
        stranger = partitions_request({**who, "producer_id": 987_654}, version)
        recorder.record("another's id", stranger, version, errors={mapping})
        if version >= 4:  # only brokers ask for several at once, and may verify
            verify = partitions_request(who, version)
            verify.transactions[0].verify_only = True
            recorder.record("verify", verify, version)
    for version in recorder.versions(ApiKey.ADD_OFFSETS_TO_TXN):
        who = identity(recorder, f"golden-offsets-{version}")
        coordinator(recorder, "golden-txn-group")
        recorder.record(
            "group", AddOffsetsToTxnRequest(**who, group_id="golden-txn-group"), version
        )
        stale = AddOffsetsToTxnRequest(**{**who, "producer_epoch": 99}, group_id="golden-txn-group")
        recorder.record(
            "wrong epoch", stale, version, errors={epoch_fenced if version >= 2 else 47}
        )
    for version in recorder.versions(ApiKey.TXN_OFFSET_COMMIT):
        who = identity(recorder, f"golden-commit-{version}")
        recorder.settle(AddOffsetsToTxnRequest(**who, group_id="golden-txn-group"), 0)
        made = TxnOffsetCommitRequest
        part = made.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata="m"
        )
        topics = [made.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
        recorder.record(
            "one partition", made(**who, group_id="golden-txn-group", topics=topics), version
        )
    for version in recorder.versions(ApiKey.END_TXN):
        for title, committed in (("commit", True), ("abort", False)):
            who = identity(recorder, f"golden-{title}-{version}")
            recorder.settle(partitions_request(who, 0), 0)
            recorder.record(title, EndTxnRequest(**who, committed=committed), version)
        stranger = EndTxnRequest(**{**who, "producer_id": 987_654}, committed=True)
        recorder.record("another's id", stranger, version, errors={mapping})
    for version in recorder.versions(ApiKey.DESCRIBE_TRANSACTIONS):
        names = ["golden-parts-3", "never-made"]
        request = DescribeTransactionsRequest(transactional_ids=names)
        recorder.record("open and unknown", request, version, errors={105})
    for version in recorder.versions(ApiKey.LIST_TRANSACTIONS):
        recorder.record("all", ListTransactionsRequest(), version)
        filtered = fitting(
            ListTransactionsRequest, version, state_filters=["Ongoing", "NoSuchState"],
            duration_filter=1, transactional_id_pattern="golden-.*",
        )  # fmt: skip
        recorder.record("filtered", filtered, version)


# -- the rest --------------------------------------------------------------------------------------


def missing(recorder: Recorder) -> Iterator[tuple[ApiKey, int]]:
    """Yield the APIs and versions of which no exchange was recorded, here or by golden_requests."""
    from golden_requests import RECORDED

    there = {(exchange.api_key, exchange.version) for exchange in recorder.exchanges}
    for key in ApiKey:
        if key in RECORDED or key in INTER_BROKER:
            continue
        versions = recorder.versions(key)
        if key in UNADVERTISED and recorder.version >= (3, 7):
            versions = range(1)
        yield from ((key, version) for version in versions if (key, version) not in there)


def everything_else(recorder: Recorder) -> None:
    for key, version in list(missing(recorder)):
        recorder.record(
            "of what does not exist", minimal_request(key, version), version, errors=ANY
        )
