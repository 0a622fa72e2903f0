"""TxnOffsetCommit (28), v0-5.

Behaviours:
- Answered by the group's coordinator (others NOT_COORDINATOR). The offsets are in
  `__consumer_offsets` before it is answered, and nobody reads them until the transaction is
  committed; OffsetFetch calls them unstable.
- Unknown partitions: UNKNOWN_TOPIC_OR_PARTITION each; the others are taken.
- Releases from 3.7 on ask whether the group's offsets are part of the transaction; before, nobody
  does.

Version notes:
- v2+ leader epoch, and COORDINATOR_LOAD_IN_PROGRESS, which releases from 2.6 on hide from older
  producers as COORDINATOR_NOT_AVAILABLE (KAFKA-7296). v3+ the group's generation and member
  (KIP-447), held to those of the group's members; in a group without members a generation is
  refused. v5+ makes the offsets part of the transaction by itself (KIP-890).

Not implemented: -
"""

from __future__ import annotations

from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.coordination import expiry_rules, require_coordinator, when_safe
from parley.devcluster.handlers.membership import live_group
from parley.devcluster.handlers.transacting import admit_offsets, code_for
from parley.devcluster.state.group_coordinator.topic import Place
from parley.devcluster.state.groups.modern.group import ConsumerGroup
from parley.devcluster.state.groups.offsets import CommittedOffset, Groups
from parley.devcluster.state.refused import Refused
from parley.devcluster.state.transactions.producer_ids import ProducerIdentity
from parley.errors.codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from parley.schema import ApiKey, VersionRange

FIRST_FENCED_VERSION = 99  # none returns PRODUCER_FENCED: a group knows epochs only from its log
FIRST_LOADING_VERSION = 2
NO_GENERATION = -1

Codes = dict[tuple[str, int], int]


def handle(call: Call, request: TxnOffsetCommitRequest) -> Answer:
    """Keep offsets until the transaction ends."""
    codes: Codes = {}
    accepted: dict[tuple[str, int], CommittedOffset] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            at = (topic.name, asked.partition_index)
            known = call.image.partition(*at) is not None
            if call.profile.behaviour.commits_unknown_partitions:
                known = topic.name in call.image.topics
            codes[at] = _metadata_code(asked) if known else UNKNOWN_TOPIC_OR_PARTITION
            if codes[at] == NONE:
                times = expiry_rules(call.cluster.settings, call.profile.behaviour).times_of(
                    call.now_ms
                )
                accepted[at] = CommittedOffset(
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    asked.committed_metadata or "",
                    *times,
                )
    known_partitions = [at for at, code in codes.items() if code != UNKNOWN_TOPIC_OR_PARTITION]
    place: Place | None = None
    if known_partitions:
        try:
            place = _keep(call, request, accepted)
        except (Refused, OSError) as error:
            code = code_for(error, call.version, FIRST_FENCED_VERSION)
            if (
                code == COORDINATOR_LOAD_IN_PROGRESS
                and call.version < FIRST_LOADING_VERSION
                and call.profile.behaviour.hides_loading
            ):
                code = COORDINATOR_NOT_AVAILABLE
            codes |= dict.fromkeys(known_partitions, code)
    answer = _response(request, codes)
    return when_safe(place, answer, lambda code: refuse(request, call.version, code))


def _metadata_code(asked: TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition) -> int:
    try:
        Groups.check_metadata(asked.committed_metadata)
    except Refused:
        return OFFSET_METADATA_TOO_LARGE
    return NONE


def _keep(
    call: Call, request: TxnOffsetCommitRequest, accepted: dict[tuple[str, int], CommittedOffset]
) -> Place | None:
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    behaviour = call.profile.behaviour
    if not request.group_id and not behaviour.commits_for_nobody:
        raise Refused(INVALID_GROUP_ID, "a group needs a name")
    require_coordinator(call, request.group_id)
    admit_offsets(call, request.transactional_id, producer, request.group_id)
    check_member(call, request)
    if not accepted:
        return None
    return call.cluster.group_coordinator.add_pending(
        producer,
        request.group_id,
        accepted,
        now_ms=call.now_ms,
        fences=behaviour.fences_offsets,
    )


def check_member(call: Call, request: TxnOffsetCommitRequest) -> None:
    """Raise Refused when the producer speaks for a member that may not commit (KIP-447)."""
    behaviour = call.profile.behaviour
    modern, classic = (
        live_group(call, request.group_id),
        call.cluster.classic_groups.live(request.group_id),
    )
    if modern is not None or classic is not None:
        # Who says nothing of itself passes, also into a group with members.
        named = (
            request.generation_id != NO_GENERATION
            or request.member_id
            or request.group_instance_id is not None
        )
        if named and modern is not None:
            _check_epoch(modern, request)
        elif named and classic is not None:
            classic.check(request.member_id, request.group_instance_id, request.generation_id)
        return
    if request.generation_id != NO_GENERATION or (
        behaviour.refuses_lone_members and request.member_id
    ):
        code = UNKNOWN_MEMBER_ID if request.member_id else behaviour.lone_generation_code
        raise Refused(code, f'group "{request.group_id}" has no members')


def _check_epoch(group: ConsumerGroup, request: TxnOffsetCommitRequest) -> None:
    try:
        group.check_commit(request.member_id, request.generation_id, None, per_partition=False)
    except Refused as error:
        if error.code == STALE_MEMBER_EPOCH:  # which this API does not have
            raise Refused(ILLEGAL_GENERATION, error.message) from None
        raise


def _response(request: TxnOffsetCommitRequest, codes: Codes) -> TxnOffsetCommitResponse:
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        partitions = [
            response.TxnOffsetCommitResponsePartition(
                partition_index=asked.partition_index,
                error_code=codes[topic.name, asked.partition_index],
            )
            for asked in topic.partitions
        ]
        response.topics.append(
            response.TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)
        )
    return response


def refuse(request: TxnOffsetCommitRequest, version: int, code: int) -> TxnOffsetCommitResponse:
    """Answer `code` for each partition."""
    codes = {
        (topic.name, one.partition_index): code
        for topic in request.topics
        for one in topic.partitions
    }
    return _response(request, codes)


API = Handler(ApiKey.TXN_OFFSET_COMMIT, VersionRange(0, 5), handle, refuse)
