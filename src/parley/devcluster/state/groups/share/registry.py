"""The share groups of a cluster and their partitions: found by name, written, expired.

Rules of this file:
1. What a heartbeat changed is in the log of its coordinator before it is answered, what an
   acknowledgement changed in the journal. Where the disk refuses, what was in flight is as before,
   and the answer is the error.
2. Locks are not kept: after a restart, or with another leader, what was acquired is available
   again, and that delivery was none.
3. A group stays until it is deleted, also without members. A partition's state goes with its topic.
4. Leaders give records to members also while nobody knows their group: a coordinator that loads
   holds up heartbeats alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from parley.devcluster.state.groups.record_parts import RacksOf, Topics, no_racks
from parley.devcluster.state.groups.records import GroupRecord, RecordRules
from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.groups.share.group import ShareAnswer, ShareGroup, ShareHeartbeat
from parley.devcluster.state.groups.share.partition import (
    UNKNOWN_START,
    Acknowledgement,
    Saved,
    SharePartition,
)
from parley.devcluster.state.groups.share.persistence import (
    NO_PARTITION,
    no_partition_entry,
    part_of,
    partition_entry,
    saved_of,
)
from parley.devcluster.state.groups.share.records import load, share_records
from parley.devcluster.state.groups.share.sessions import ShareSession
from parley.devcluster.state.groups.share.settings import ShareSettings
from parley.devcluster.state.journal import Entry
from parley.devcluster.state.refused import Refused
from parley.errors.codes import GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION

Keep = Callable[..., None]
"""Puts entries into the journal. Raises OSError when the disk refuses."""
Write = Callable[[str, Sequence[GroupRecord], int], None]
"""Writes records of a group, all or none: its name, the records, the time. Raises OSError where
its log takes none.
"""
Key = tuple[str, Part]
NOTHING = Saved(UNKNOWN_START, UNKNOWN_START, [])


class ShareGroups:
    """All share groups. `rules_of` says what a group's coordinator writes, `names_of` how topics
    are called.
    """

    def __init__(
        self,
        keep: Keep,
        write: Write,
        rules_of: Callable[[str], RecordRules],
        names_of: Callable[[], Mapping[bytes, str]],
    ) -> None:
        self._keep, self._write = keep, write
        self._rules_of, self._names_of = rules_of, names_of
        self._groups: dict[str, ShareGroup] = {}
        self._begun: dict[str, dict[bytes, int]] = {}
        """What groups that no coordinator has loaded have begun to read (rule 4)."""
        self._partitions: dict[Key, SharePartition] = {}
        self._written: dict[Key, Saved] = {}

    def __iter__(self) -> Iterator[ShareGroup]:
        return iter([self._groups[name] for name in sorted(self._groups)])

    def get(self, name: str) -> ShareGroup | None:
        """Return a group, None if there is none of this protocol."""
        return self._groups.get(name)

    def heartbeat(
        self,
        name: str,
        said: ShareHeartbeat,
        topics: Topics,
        settings: ShareSettings,
        now_ms: int,
        racks: RacksOf = no_racks,
    ) -> ShareAnswer:
        """Answer a heartbeat; a member that joins may make the group. Raises Refused or OSError."""
        group = self._groups.get(name)
        if group is None:
            group = ShareGroup(name, settings)
            if said.epoch != 0:
                kind = "Share group" if said.epoch > 0 else "Group"
                raise Refused(GROUP_ID_NOT_FOUND, f"{kind} {name} not found.")
        group.settings = settings
        answer = group.heartbeat(said, topics, now_ms, racks)
        self._groups[name] = group
        if group.changed or group.rose:
            self._write_group(group, group.changed, now_ms)
            group.changed.clear()
            group.rose = False
        return answer

    def delete(self, name: str) -> None:
        """Forget a group with its partitions; whoever calls has it in the journal."""
        self._groups.pop(name, None)
        self._begun.pop(name, None)
        for key in [key for key in self._partitions if key[0] == name]:
            self._forget(key)

    # -- partitions ------------------------------------------------------------------------------

    def partition(self, name: str, part: Part) -> SharePartition | None:
        """Return what a group has of a partition; None where it never read from it."""
        return self._partitions.get((name, part))

    def opened(self, name: str, part: Part) -> SharePartition | None:
        """Return the same, made if the group knows the partition; else None."""
        topic_id, index = part
        if not 0 <= index < self._known_of(name).get(topic_id, 0):
            return None
        return self._partitions.setdefault((name, part), SharePartition())

    def _known_of(self, name: str) -> Mapping[bytes, int]:
        group = self._groups.get(name)
        return self._begun.get(name, {}) if group is None else group.known

    def known(self, name: str) -> list[Part]:
        """Return every partition that a group knows, in order."""
        known = sorted(self._known_of(name).items())
        return [(topic_id, at) for topic_id, count in known for at in range(count)]

    def keep(self, name: str, part: Part) -> None:
        """Put what has changed into the journal. Raises OSError; the
        partition is as it was then.
        """
        key = (name, part)
        partition = self._partitions[key]
        saved, before = partition.saved, self._written.get(key, NOTHING)
        if saved == before:
            return
        try:
            self._keep(partition_entry(name, part, saved))
        except OSError:
            partition.go_back_to(before)
            raise
        self._written[key] = saved

    def acknowledge(
        self,
        name: str,
        part: Part,
        member: str,
        said: Sequence[Acknowledgement],
        *,
        renews: bool,
        now_ms: int,
    ) -> None:
        """Take a member's word on records. Raises Refused or OSError; then nothing has changed."""
        partition = self._partitions.get((name, part))
        if partition is None:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, None)
        partition.acknowledge(member, said, renews=renews, now_ms=now_ms)
        self.keep(name, part)

    def release(self, session: ShareSession) -> None:
        """Take from a member what it acquired in a session that ends."""
        for part in session.parts:
            partition = self._partitions.get((session.group, part))
            if partition is not None and partition.release(session.member):
                with suppress(OSError):  # written with the next change
                    self.keep(session.group, part)

    def begin_at(
        self, name: str, offsets: Mapping[Part, int], settings: ShareSettings, now_ms: int
    ) -> None:
        """Let an operator say where a group goes on; it is made if need be. Raises OSError."""
        group = self._groups.get(name) or ShareGroup(name, settings)
        with self._group_written(group, now_ms):
            for topic_id, index in offsets:
                group.known[topic_id] = max(group.known.get(topic_id, 0), index + 1)
        self._groups[name] = group
        for part, offset in offsets.items():
            partition = self._partitions.setdefault((name, part), SharePartition())
            partition.begin(max(offset, -1))
            self.keep(name, part)

    def forget_topics(self, name: str, topics: Sequence[bytes], now_ms: int) -> None:
        """Let a group know nothing of topics any more. Raises OSError; nothing is changed then."""
        group = self._groups[name]
        with self._group_written(group, now_ms):
            for topic_id in topics:
                group.known.pop(topic_id, None)
        for key in [key for key in self._partitions if key[0] == name and key[1][0] in topics]:
            self._keep(no_partition_entry(*key))
            self._forget(key)

    @contextmanager
    def _group_written(self, group: ShareGroup, now_ms: int) -> Iterator[None]:
        before = dict(group.known)
        yield
        try:
            self._write_group(group, (), now_ms)
        except OSError:
            group.known = before
            raise

    def forget_topic(self, topic_id: bytes, *, now_ms: int = 0) -> None:
        """Drop what is known of a topic that was deleted."""
        for begun in self._begun.values():
            begun.pop(topic_id, None)
        for group in self._groups.values():
            if group.known.pop(topic_id, None) is not None:
                with suppress(OSError):  # whoever reads it later finds that the topic is gone
                    self._write_group(group, (), now_ms)
        for key in [key for key in self._partitions if key[1][0] == topic_id]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self._partitions.pop(key, None)
        self._written.pop(key, None)

    # -- time --------------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When a member will have been silent for too long, or a lock is over."""
        parts: list[ShareGroup | SharePartition] = [
            *self._groups.values(), *self._partitions.values(),
        ]  # fmt: skip
        return min((due for one in parts if (due := one.next_due_ms) is not None), default=None)

    def expire(self, *, now_ms: int) -> None:
        """Remove the members whose time is over, and end the locks whose time is."""
        for group in self._groups.values():
            if group.expire(now_ms):
                with suppress(OSError):  # the next change that the disk takes has this one with it
                    self._write_group(group, group.changed, now_ms)
                    group.changed.clear()
        for (name, part), partition in list(self._partitions.items()):
            if partition.expire(now_ms):
                with suppress(OSError):
                    self.keep(name, part)

    # -- coordinators ------------------------------------------------------------------------------

    def _write_group(self, group: ShareGroup, members: Collection[str], now_ms: int) -> None:
        records = share_records(group, members, self._names_of(), self._rules_of(group.name))
        self._write(group.name, records, now_ms)

    def load(self, name: str, records: Iterable[GroupRecord], topics: Topics, now_ms: int) -> None:
        """Take a group over as it was last written, every member with a full session."""
        group = self._groups[name] = ShareGroup(name, ShareSettings())
        self._begun.pop(name, None)
        load(group, records, topics)
        group.resume(now_ms)

    def unload(self, name: str) -> None:
        """Forget a group until another coordinator loads it; leaders go on (rule 4)."""
        group = self._groups.pop(name, None)
        if group is not None:
            self._begun[name] = group.known

    # -- the journal -------------------------------------------------------------------------------

    def snapshot(self) -> Iterator[Entry]:
        """Yield the entries that say everything of the partitions."""
        for (name, part), saved in self._written.items():
            yield partition_entry(name, part, saved)

    def restore(self, entry: Entry) -> None:
        """Take over an entry of the journal."""
        key = (entry["group"], part_of(entry))
        if entry["kind"] == NO_PARTITION:
            self._forget(key)
        else:
            saved = saved_of(entry)
            self._partitions[key], self._written[key] = SharePartition(saved), saved
