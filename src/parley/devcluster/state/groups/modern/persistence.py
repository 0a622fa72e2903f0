"""How a group of the consumer protocol becomes records of `__consumer_offsets`, and comes back.

| key | says |
|---|---|
| 3 | the group's epoch; from 4.1 on a hash of the topics that it is made from |
| 4 | these topics, before 4.1 |
| 5 | what a member said of itself |
| 6 | the epoch of the target |
| 7 | the target of one member |
| 8 | what a member owns, and its epochs |
| 16 | the topics that a regular expression matched |

Rules of this file:
1. The order within one step is Kafka's: members, expressions, the group, targets, what members own.
   Of a member that left everything gets its tombstone first (H17).
2. The hash of the topics is the group's own knowledge, as in Kafka: after a restart it is what the
   log says, until a heartbeat holds it against the topics of now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import ConsumerGroup
from parley.devcluster.state.groups.modern.members import (
    Assignment,
    ClassicWords,
    Member,
    MemberState,
    Subscription,
)
from parley.devcluster.state.groups.record_parts import Topics, by_topic, parts_of, topics_hash
from parley.devcluster.state.groups.records import GroupRecord, RecordRules
from parley.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

STATES = frozenset(state.value for state in MemberState)


def group_records(
    group: ConsumerGroup, members: Collection[str], rules: RecordRules, now_ms: int
) -> list[GroupRecord]:
    """Return the records of a group and of these members, present and past (rule 1)."""
    gone = sorted(name for name in members if name not in group.members)
    present = sorted(name for name in members if name in group.members)
    found = [tombstone for name in gone for tombstone in _member_tombstones(group.name, name)]
    found += [_member_record(group.name, group.members[name]) for name in present]
    found += _expression_records(group, now_ms)
    found.append(_no_topics_record(group) if rules.hashes_topics else _topics_record(group))
    found.append(_epoch_record(group, rules))
    found += [_target_record(group, name) for name in present]
    found.append(_target_epoch_record(group, rules))
    found += [_assignment_record(group.name, group.members[name], rules) for name in present]
    return found


def no_group_records(group: ConsumerGroup) -> list[GroupRecord]:
    """Return the tombstones of a group that is none of this protocol any more; its offsets stay."""
    name = group.name
    found = [
        tombstone
        for member in sorted(group.members.keys() | group.changed)
        for tombstone in _member_tombstones(name, member)
    ]
    found += [_expression_tombstone(name, regex) for regex in sorted(group.kept_expressions)]
    found += [
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=name), None),
        _no_topics_record(group),
        GroupRecord(ConsumerGroupMetadataKey(group_id=name), None),
    ]
    return found


def _member_tombstones(group: str, member: str) -> Iterator[GroupRecord]:
    for kind in (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupMemberMetadataKey,
    ):
        yield GroupRecord(kind(group_id=group, member_id=member), None)


def _member_record(group: str, member: Member) -> GroupRecord:
    said, classic = member.subscription, member.classic
    kind = ConsumerGroupMemberMetadataValue
    value = kind(
        instance_id=said.instance_id,
        rack_id=said.rack,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=sorted(said.topics),
        subscribed_topic_regex=said.regex,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        server_assignor=said.assignor,
        classic_member_metadata=None
        if classic is None
        else kind.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                kind.ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in classic.protocols
            ],
        ),
    )
    return GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group, member_id=member.id), value)


def expressions_of(group: ConsumerGroup) -> dict[str, frozenset[str]]:
    """Return what each regular expression of a group's members matched."""
    return {
        member.subscription.regex: member.matched
        for member in group.members.values()
        if member.subscription.regex
    }


def _expression_records(group: ConsumerGroup, now_ms: int) -> Iterator[GroupRecord]:
    known = expressions_of(group)
    for regex in sorted(group.kept_expressions.keys() - known.keys()):
        yield _expression_tombstone(group.name, regex)
    for regex, matched in sorted(known.items()):
        if group.kept_expressions.get(regex) != matched:
            key = ConsumerGroupRegularExpressionKey(group_id=group.name, regular_expression=regex)
            value = ConsumerGroupRegularExpressionValue(topics=sorted(matched), timestamp=now_ms)
            yield GroupRecord(key, value)


def _expression_tombstone(group: str, regex: str) -> GroupRecord:
    key = ConsumerGroupRegularExpressionKey(group_id=group, regular_expression=regex)
    return GroupRecord(key, None)


def _topics_record(group: ConsumerGroup) -> GroupRecord:
    kind = ConsumerGroupPartitionMetadataValue
    topics = [
        kind.TopicMetadata(topic_id=topic_id, topic_name=name, num_partitions=count)
        for name, (topic_id, count) in sorted(group.metadata.items())
    ]
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group.name), kind(topics=topics))


def _no_topics_record(group: ConsumerGroup) -> GroupRecord:
    """Return the tombstone of the topics: from 4.1 on they are a hash in the group's record."""
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group.name), None)


def _epoch_record(group: ConsumerGroup, rules: RecordRules) -> GroupRecord:
    value = ConsumerGroupMetadataValue(
        epoch=group.epoch,
        metadata_hash=group.metadata_hash if rules.hashes_topics else 0,
    )
    return GroupRecord(ConsumerGroupMetadataKey(group_id=group.name), value)


def _target_record(group: ConsumerGroup, member: str) -> GroupRecord:
    kind = ConsumerGroupTargetAssignmentMemberValue
    parts = [
        kind.TopicPartition(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic(group.target.get(member, frozenset())).items()
    ]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group.name, member_id=member)
    return GroupRecord(key, kind(topic_partitions=parts))


def _target_epoch_record(group: ConsumerGroup, rules: RecordRules) -> GroupRecord:
    at_ms = group.targeted_at_ms if rules.writes_assignment_times else None
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=group.target_epoch, assignment_timestamp=at_ms or 0
    )
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.name), value)


def _assignment_record(group: str, member: Member, rules: RecordRules) -> GroupRecord:
    now, since = member.assignment, member.since if rules.writes_assignment_times else {}
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=now.epoch,
        previous_member_epoch=now.previous_epoch,
        state=now.state.value,
        assigned_partitions=_with_epochs(now.owned, since, now.epoch),
        partitions_pending_revocation=_with_epochs(now.revoking, since, now.epoch),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=member.id)
    return GroupRecord(key, value)


def _with_epochs(
    parts: Iterable[Part], since: Mapping[Part, int], epoch: int
) -> list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    return [
        ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
            topic_id=topic_id,
            partitions=indexes,
            assignment_epochs=[since.get((topic_id, index), epoch) for index in indexes]
            if since
            else [],
        )
        for topic_id, indexes in by_topic(parts).items()
    ]


# -- back ------------------------------------------------------------------------------------------


def load(group: ConsumerGroup, records: Iterable[GroupRecord], known: Topics) -> None:
    """Fill a new group with its records, in any order; `known` are the topics that exist."""
    topics: Topics | None = None
    hashed = 0
    currents: dict[str, ConsumerGroupCurrentMemberAssignmentValue] = {}
    for key, value in records:
        if isinstance(value, ConsumerGroupMetadataValue):
            group.epoch, hashed = value.epoch, value.metadata_hash
        elif isinstance(value, ConsumerGroupPartitionMetadataValue):
            topics = {one.topic_name: (one.topic_id, one.num_partitions) for one in value.topics}
        elif isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
            group.target_epoch = value.assignment_epoch
            group.targeted_at_ms = value.assignment_timestamp or None
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            assert isinstance(value, ConsumerGroupRegularExpressionValue)
            group.kept_expressions[key.regular_expression] = frozenset(value.topics)
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            assert isinstance(value, ConsumerGroupMemberMetadataValue)
            group.members[key.member_id] = _member_of(key.member_id, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
            group.target[key.member_id] = parts_of(value.topic_partitions)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
            currents[key.member_id] = value
    for member in group.members.values():
        member.matched = group.kept_expressions.get(member.subscription.regex, frozenset())
        if member.id in currents:
            _give(member, currents[member.id])
    if topics is not None and not hashed:
        group.loaded(topics, topics_hash(topics))
    else:  # a hash is of a later leader than topics, which have none
        found = {name: known[name] for name in group.subscribed_topics & known.keys()}
        group.loaded(found, hashed)


def _member_of(name: str, value: ConsumerGroupMemberMetadataValue) -> Member:
    said = Subscription(
        value.instance_id,
        value.rack_id,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        value.client_id,
        value.client_host,
    )
    classic = value.classic_member_metadata
    words = None
    if classic is not None:
        protocols = tuple((one.name, one.metadata) for one in classic.supported_protocols)
        words = ClassicWords(classic.session_timeout_ms, protocols)
    return Member(name, said, classic=words)


def _give(member: Member, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
    member.assignment = Assignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if value.state in STATES else MemberState.STABLE,
        parts_of(value.assigned_partitions),
        parts_of(value.partitions_pending_revocation),
    )
    member.since = {
        (one.topic_id, index): epoch
        for one in value.assigned_partitions
        for index, epoch in zip(
            one.partitions,
            one.assignment_epochs or [value.member_epoch] * len(one.partitions),
            strict=False,
        )
    }
