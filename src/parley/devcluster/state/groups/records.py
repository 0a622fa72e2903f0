"""The records of `__consumer_offsets`: keys and values as every release writes and reads them.

A key begins with two bytes that say what it is the key of, a value with its version.

| key | of |
|---|---|
| 0, 1 | a committed offset |
| 2 | a group of the classic protocol |
| 3 to 8, 16 | a group of the consumer protocol (KIP-848): `modern.persistence` |
| 10 to 15 | a share group (KIP-932): `share.records` |

Rules of this file:
1. A record is typed (`parley.messages`); bytes come in and go out here alone.
2. A value without bytes is a tombstone: what its key names is gone.
3. Records of other kinds (streams groups) are left alone, as brokers leave those of newer ones.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from parley.errors import RemoteProtocolError
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
    GroupMetadataKey,
    GroupMetadataValue,
    Message,
    OffsetCommitKey,
    OffsetCommitValue,
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
    decode_body,
    encode_body,
)

VERSION_BYTES = 2
NO_ID = bytes(16)
FIRST_COMPACT_VERSION = 4
LONGEST_PLAIN = 126
"""The longest text of an offset whose length takes one byte."""
_OFFSET_HEAD, _INT64 = struct.Struct(">hqi"), struct.Struct(">q")
_INT32, _INT16 = struct.Struct(">i"), struct.Struct(">h")
EXPIRING_VERSION = 1
"""The version of an offset with a time of its own at which it expires, in every release."""

KINDS: Mapping[int, tuple[type[Message], type[Message]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""Key and value by the number that the key begins with."""


class GroupRecord(NamedTuple):
    """One record; without `value` a tombstone."""

    key: Message
    value: Message | None


class Written(NamedTuple):
    """One record as bytes."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRules:
    """What a release writes. The defaults are the newest one's."""

    magic: int = 2
    """The format of the batches."""
    offset_version: int = 4
    group_version: int = 3
    """The versions of the values of offsets, and of classic groups."""
    writes_topic_ids: bool = True
    """An offset names the topic's id (4.2)."""
    hashes_topics: bool = True
    """The topics of a group of the consumer protocol are written as a hash of them
    (4.1); before, each with its partitions.
    """
    writes_assignment_times: bool = True
    """Such a group says when its target was made, and since which epoch a member has each
    partition (4.3).
    """


NEWEST = RecordRules()


def encode(record: GroupRecord, rules: RecordRules = NEWEST) -> Written:
    """Return a record as a release writes it.

    >>> encode(GroupRecord(OffsetCommitKey(group="", topic="t1", partition=0), None)).key.hex()
    '000100000002743100000000'
    """
    key = _with_version(record.key, record.key.SCHEMA.valid_versions.max)
    value = record.value
    if value is None:
        return Written(key, None)
    version = 0
    if isinstance(value, OffsetCommitValue):
        version = rules.offset_version if value.expire_timestamp < 0 else EXPIRING_VERSION
    elif isinstance(value, GroupMetadataValue):
        version = rules.group_version
    return Written(key, _with_version(value, version))


def encode_offset(
    key: OffsetCommitKey, value: OffsetCommitValue, rules: RecordRules = NEWEST
) -> Written:
    """Do what `encode` does with an offset, in a third of the time: most records are offsets."""
    start = _offset_key_start(key.group, key.topic)
    metadata = value.metadata.encode()
    expires_ms, version = value.expire_timestamp, rules.offset_version
    if expires_ms >= 0 or version == EXPIRING_VERSION or len(metadata) > LONGEST_PLAIN:
        return encode(GroupRecord(key, value), rules)
    head = _OFFSET_HEAD.pack(version, value.offset, value.leader_epoch)
    time = _INT64.pack(value.commit_timestamp)
    if version < FIRST_COMPACT_VERSION:
        data = b"".join((head, _INT16.pack(len(metadata)), metadata, time))
    else:
        tags = b"\0" if value.topic_id == NO_ID else b"\1\0\x10" + value.topic_id
        data = b"".join((head, bytes((len(metadata) + 1,)), metadata, time, tags))
    return Written(start + _INT32.pack(key.partition), data)


@lru_cache(maxsize=4_096)
def _offset_key_start(group: str, topic: str) -> bytes:
    """Return the bytes of a key in front of the partition."""
    key = encode(GroupRecord(OffsetCommitKey(group=group, topic=topic), None)).key
    return key[: -_INT32.size]


def _with_version(message: Message, version: int) -> bytes:
    return b"".join((version.to_bytes(VERSION_BYTES, "big"), *encode_body(message, version)))


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Return the record that bytes say; None for one of a kind that is not read here.

    Raises RemoteProtocolError for bytes that are no such record.
    """
    number = _version_of(key, "key")
    kind = KINDS.get(number)
    if kind is None:
        return None
    read_key = decode_body(kind[0], number, key[VERSION_BYTES:])
    if value is None:
        return GroupRecord(read_key, None)
    version = _version_of(value, "value")
    if version not in kind[1].SCHEMA.valid_versions:
        raise RemoteProtocolError(
            f"a value of {kind[1].__name__} has version {version}; "
            f"known are {kind[1].SCHEMA.valid_versions}"
        )
    return GroupRecord(read_key, decode_body(kind[1], version, value[VERSION_BYTES:]))


def _version_of(data: bytes, what: str) -> int:
    if len(data) < VERSION_BYTES:
        raise RemoteProtocolError(f"{len(data)} bytes of a group record's {what} have no version")
    return int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
