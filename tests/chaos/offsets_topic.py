"""What `__consumer_offsets` of real brokers says of one group, in the order of its log: who owned
which partition, and who committed what.

Decoded here by hand, from Kafka's own descriptions of these records, and with nothing of parley's
own coordinator: keys 0 and 1 are commits, 2 a classic group with the assignments of its members, 8
what one member of the consumer protocol has (KIP-848).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from parley.client import EARLIEST, LATEST, Client, FetchOptions, TopicPartition

OFFSETS_TOPIC = "__consumer_offsets"
COMMITS, CLASSIC_GROUP, MEMBER_NOW = (0, 1), 2, 8


class Commit(NamedTuple):
    """One committed offset, and how the group stood when it was written."""

    partition: int
    offset: int
    tag: str
    members: frozenset[str]
    owners: frozenset[str]
    """Those of the members that have the partition: one, or none between two owners."""

    @property
    def allowed(self) -> bool:
        """Whether who committed was a member, and the partition nobody else's.

        A cooperative member gives up in a generation what it has not been given in it any more: it
        commits while the partition is nobody's.
        """
        who = self.tag.split("/", 2)[2]
        return who in self.members and self.owners <= {who}


class History(NamedTuple):
    """What a group did."""

    commits: list[Commit]
    generations: int
    """How often a classic group was written with another generation, or a member of the consumer
    protocol with another epoch.
    """


class _Bytes:
    """A reader of Kafka's primitive types."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        assert len(found) == count, "the record ends too early"
        self._at += count
        return found

    def int16(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def int64(self) -> int:
        return int(struct.unpack(">q", self.take(8))[0])

    def text(self) -> str:
        return self.take(max(0, self.int16())).decode()

    def data(self) -> bytes:
        return self.take(max(0, self.int32()))

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def history(client: Client, group: str, isolation_level: str) -> History:
    """Return what the log says of a group; all its records lie in one partition."""
    owners: dict[str, frozenset[int]] = {}
    epochs: set[tuple[str, int]] = set()
    commits = []
    for key, value in _records(client, isolation_level):
        kind, named = key.int16(), key.text()
        if named != group:
            continue
        if kind in COMMITS:
            key.text()  # the topic: the group reads only one
            partition = key.int32()
            if value is not None:
                offset, tag = _committed(_Bytes(value))
                whose = frozenset(who for who, held in owners.items() if partition in held)
                commits.append(Commit(partition, offset, tag, frozenset(owners), whose))
        elif kind == CLASSIC_GROUP:
            owners = {}
            if value is not None:
                generation, owners = _classic_group(_Bytes(value))
                epochs.add(("", generation))
        elif kind == MEMBER_NOW:
            member = key.text()
            owners.pop(member, None)
            if value is not None:
                epoch, owners[member] = _member_now(_Bytes(value))
                epochs.add((member, epoch))
    return History(commits, len(epochs))


def _records(client: Client, isolation_level: str) -> Iterator[tuple[_Bytes, bytes | None]]:
    options = FetchOptions(isolation_level=isolation_level)
    for index in sorted(client.metadata([OFFSETS_TOPIC]).topics[OFFSETS_TOPIC].partitions):
        for batch in client.fetch(TopicPartition(OFFSETS_TOPIC, index), EARLIEST, LATEST, options):
            keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
            for key, value in zip(keys, values, strict=True):
                if key is not None:
                    yield _Bytes(key), value


def _committed(value: _Bytes) -> tuple[int, str]:
    version = value.int16()
    assert version <= 4, f"offsets of version {version} are not known here"
    offset = value.int64()
    if version >= 3:
        value.int32()  # the leader epoch
    return offset, value.text() if version < 4 else value.take(value.varint() - 1).decode()


def _classic_group(value: _Bytes) -> tuple[int, dict[str, frozenset[int]]]:
    version = value.int16()
    assert version <= 3, f"groups of version {version} are not known here"
    value.text()  # the protocol's type
    generation = value.int32()
    value.text()  # the assignor
    value.text()  # the leader
    if version >= 2:
        value.int64()  # since when it is in this state
    owners = {}
    for _ in range(value.int32()):
        member = value.text()
        if version >= 3:
            value.text()  # the instance id
        value.text()  # the client's id
        value.text()  # and its host
        value.take(8 if version >= 1 else 4)  # rebalance and session time-outs
        value.data()  # the subscription
        owners[member] = _assigned(_Bytes(value.data()))
    return generation, owners


def _assigned(assignment: _Bytes) -> frozenset[int]:
    assignment.int16()
    found: list[int] = []
    for _ in range(assignment.int32()):
        assignment.text()
        found += [assignment.int32() for _ in range(assignment.int32())]
    return frozenset(found)


def _member_now(value: _Bytes) -> tuple[int, frozenset[int]]:
    version = value.int16()
    assert version == 0, f"members of version {version} are not known here"
    epoch = value.int32()
    value.take(5)  # the epoch before, and the state
    found: list[int] = []
    for _ in range(2):  # what it has, and what it is still to give up
        for _ in range(value.varint() - 1):
            value.take(16)  # the topic's id
            found += [value.int32() for _ in range(value.varint() - 1)]
            value.skip_tags()
    return epoch, frozenset(found)
