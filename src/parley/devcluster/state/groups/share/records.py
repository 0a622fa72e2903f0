"""How a share group becomes records of `__consumer_offsets`, and comes back (KIP-932).

| key | says |
|---|---|
| 10 | what a member said of itself |
| 11 | the group's epoch, and a hash of the topics that it is made from |
| 12 | the epoch of the target |
| 13 | the target of one member |
| 14 | what a member has, and its epochs |
| 15 | the partitions that the group has begun to read |

Rules of this file:
1. The order within one step is Kafka's: members, the group, targets, what members have, partitions.
   Of a member that left everything gets its tombstone first.
2. The hash of the topics is one of our own, as for groups of the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from parley.devcluster.state.groups.record_parts import Topics, by_topic, parts_of
from parley.devcluster.state.groups.records import GroupRecord, RecordRules
from parley.devcluster.state.groups.share.group import ShareGroup, ShareMember
from parley.messages import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

VALUES = (
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupStatePartitionMetadataValue,
)
"""The values of a share group's records."""


def share_records(
    group: ShareGroup, members: Collection[str], names: Mapping[bytes, str], rules: RecordRules
) -> list[GroupRecord]:
    """Return the records of a group and of these members, present and past (rule 1).

    `names` are those of the topics that exist, by id.
    """
    gone = sorted(name for name in members if name not in group.members)
    present = [group.members[name] for name in sorted(members) if name in group.members]
    found = [tombstone for name in gone for tombstone in _member_tombstones(group.name, name)]
    found += [_member_record(group.name, member) for member in present]
    found.append(_epoch_record(group))
    found += [_target_record(group, member.id) for member in present]
    found.append(_target_epoch_record(group, rules))
    found += [_assignment_record(group.name, member) for member in present]
    if group.known:
        found.append(_partitions_record(group, names))
    return found


def _member_tombstones(group: str, member: str) -> Iterator[GroupRecord]:
    for kind in (
        ShareGroupCurrentMemberAssignmentKey,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupMemberMetadataKey,
    ):
        yield GroupRecord(kind(group_id=group, member_id=member), None)


def _member_record(group: str, member: ShareMember) -> GroupRecord:
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return GroupRecord(ShareGroupMemberMetadataKey(group_id=group, member_id=member.id), value)


def _epoch_record(group: ShareGroup) -> GroupRecord:
    value = ShareGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return GroupRecord(ShareGroupMetadataKey(group_id=group.name), value)


def _target_record(group: ShareGroup, member: str) -> GroupRecord:
    kind = ShareGroupTargetAssignmentMemberValue
    parts = [
        kind.TopicPartition(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic(group.target.get(member, frozenset())).items()
    ]
    key = ShareGroupTargetAssignmentMemberKey(group_id=group.name, member_id=member)
    return GroupRecord(key, kind(topic_partitions=parts))


def _target_epoch_record(group: ShareGroup, rules: RecordRules) -> GroupRecord:
    at_ms = group.targeted_at_ms if rules.writes_assignment_times else None
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=group.target_epoch, assignment_timestamp=at_ms or 0
    )
    return GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group.name), value)


def _assignment_record(group: str, member: ShareMember) -> GroupRecord:
    kind = ShareGroupCurrentMemberAssignmentValue
    value = kind(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        assigned_partitions=[
            kind.TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(member.assigned).items()
        ],
    )
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group, member_id=member.id)
    return GroupRecord(key, value)


def _partitions_record(group: ShareGroup, names: Mapping[bytes, str]) -> GroupRecord:
    kind = ShareGroupStatePartitionMetadataValue
    topics = [
        kind.TopicPartitionsInfo(
            topic_id=topic_id, topic_name=names.get(topic_id, ""), partitions=list(range(count))
        )
        for topic_id, count in sorted(group.known.items())
    ]
    key = ShareGroupStatePartitionMetadataKey(group_id=group.name)
    return GroupRecord(key, kind(initialized_topics=topics))


# -- back ------------------------------------------------------------------------------------------


def load(group: ShareGroup, records: Iterable[GroupRecord], topics: Topics) -> None:
    """Fill a new group with its records, in any order; `topics` are those that exist."""
    counts = dict(topics.values())
    currents: dict[str, ShareGroupCurrentMemberAssignmentValue] = {}
    for key, value in records:
        if isinstance(value, ShareGroupMetadataValue):
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif isinstance(value, ShareGroupTargetAssignmentMetadataValue):
            group.target_epoch = value.assignment_epoch
            group.targeted_at_ms = value.assignment_timestamp or None
        elif isinstance(value, ShareGroupStatePartitionMetadataValue):
            group.known = {
                one.topic_id: min(max(one.partitions) + 1, counts[one.topic_id])
                for one in (*value.initializing_topics, *value.initialized_topics)
                if one.partitions and one.topic_id in counts
            }
        elif isinstance(key, ShareGroupMemberMetadataKey):
            assert isinstance(value, ShareGroupMemberMetadataValue)
            group.members[key.member_id] = _member_of(key.member_id, value)
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            assert isinstance(value, ShareGroupTargetAssignmentMemberValue)
            group.target[key.member_id] = parts_of(value.topic_partitions)
        elif isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            assert isinstance(value, ShareGroupCurrentMemberAssignmentValue)
            currents[key.member_id] = value
    for name, now in currents.items():
        member = group.members.get(name)
        if member is not None:
            member.epoch, member.previous_epoch = now.member_epoch, now.previous_member_epoch
            member.assigned = parts_of(now.assigned_partitions)
    wanted = sorted(group.subscribed_topics & topics.keys())
    group.metadata = {name: topics[name] for name in wanted}


def _member_of(name: str, value: ShareGroupMemberMetadataValue) -> ShareMember:
    topics = frozenset(value.subscribed_topic_names)
    return ShareMember(name, value.rack_id, topics, value.client_id, value.client_host)
