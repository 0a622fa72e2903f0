"""The share groups of a cluster and their partitions: found by name, kept in the journal, expired.

Rules of this file:
1. What a heartbeat or an acknowledgement changed is in the journal before it is answered. Where the
   disk refuses, what was in flight is as before, and the answer is the error.
2. Locks are not kept: after a restart, or with another leader, what was acquired is available
   again, and that delivery was none.
3. A group stays until it is deleted, also without members. A partition's state goes with its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.groups.share.group import ShareAnswer, ShareGroup, ShareHeartbeat
from parley.devcluster.state.groups.share.partition import (
    UNKNOWN_START,
    Acknowledgement,
    Saved,
    SharePartition,
)
from parley.devcluster.state.groups.share.persistence import (
    GROUP_KINDS,
    NO_PARTITION,
    apply,
    group_entries,
    no_partition_entry,
    part_of,
    partition_entry,
    saved_of,
)
from parley.devcluster.state.groups.share.sessions import ShareSession
from parley.devcluster.state.groups.share.settings import ShareSettings
from parley.devcluster.state.journal import Entry
from parley.devcluster.state.refused import Refused
from parley.errors.codes import GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION

Keep = Callable[..., None]
"""Puts entries into the journal. Raises OSError when the disk refuses."""
Key = tuple[str, Part]
NOTHING = Saved(UNKNOWN_START, UNKNOWN_START, [])


class ShareGroups:
    """All share groups."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._groups: dict[str, ShareGroup] = {}
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
        topics: Mapping[str, tuple[bytes, int]],
        settings: ShareSettings,
        now_ms: int,
    ) -> ShareAnswer:
        """Answer a heartbeat; a member that joins may make the group. Raises Refused or OSError."""
        group = self._groups.get(name)
        if group is None:
            group = ShareGroup(name, settings)
            if said.epoch != 0:
                kind = "Share group" if said.epoch > 0 else "Group"
                raise Refused(GROUP_ID_NOT_FOUND, f"{kind} {name} not found.")
        group.settings = settings
        answer = group.heartbeat(said, topics, now_ms)
        self._groups[name] = group
        self._write_group(group)
        return answer

    def delete(self, name: str) -> None:
        """Forget a group; whoever calls has it in the journal."""
        self._groups.pop(name, None)
        for key in [key for key in self._partitions if key[0] == name]:
            self._forget(key)

    # -- partitions ------------------------------------------------------------------------------

    def partition(self, name: str, part: Part) -> SharePartition | None:
        """Return what a group has of a partition; None where it never read from it."""
        return self._partitions.get((name, part))

    def opened(self, name: str, part: Part) -> SharePartition | None:
        """Return the same, made if the group knows the partition; else None."""
        group = self._groups.get(name)
        if group is None or not group.knows(part):
            return None
        return self._partitions.setdefault((name, part), SharePartition())

    def known(self, name: str) -> list[Part]:
        """Return every partition that a group knows, in order."""
        group = self._groups.get(name)
        known = {} if group is None else group.known
        return [(topic_id, at) for topic_id, count in sorted(known.items()) for at in range(count)]

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

    def begin_at(self, name: str, offsets: Mapping[Part, int], settings: ShareSettings) -> None:
        """Let an operator say where a group goes on; it is made if need be. Raises OSError."""
        group = self._groups.get(name) or ShareGroup(name, settings)
        with self._group_kept(group):
            for topic_id, index in offsets:
                group.known[topic_id] = max(group.known.get(topic_id, 0), index + 1)
        self._groups[name] = group
        for part, offset in offsets.items():
            partition = self._partitions.setdefault((name, part), SharePartition())
            partition.begin(max(offset, -1))
            self.keep(name, part)

    def forget_topics(self, name: str, topics: Sequence[bytes]) -> None:
        """Let a group know nothing of topics any more. Raises OSError; nothing is changed then."""
        group = self._groups[name]
        with self._group_kept(group):
            for topic_id in topics:
                group.known.pop(topic_id, None)
        for key in [key for key in self._partitions if key[0] == name and key[1][0] in topics]:
            self._keep(no_partition_entry(*key))
            self._forget(key)

    @contextmanager
    def _group_kept(self, group: ShareGroup) -> Iterator[None]:
        before = dict(group.known)
        yield
        try:
            self._keep(*group_entries(group, ()))
        except OSError:
            group.known = before
            raise

    def forget_topic(self, topic_id: bytes) -> None:
        """Drop what is known of a topic that was deleted."""
        for group in self._groups.values():
            group.known.pop(topic_id, None)
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
                    self._write_group(group)
        for (name, part), partition in list(self._partitions.items()):
            if partition.expire(now_ms):
                with suppress(OSError):
                    self.keep(name, part)

    # -- persistence -------------------------------------------------------------------------------

    def _write_group(self, group: ShareGroup) -> None:
        if group.changed:
            self._keep(*group_entries(group, group.changed))
            group.changed.clear()

    def snapshot(self) -> Iterator[Entry]:
        """Yield the entries that say everything."""
        for group in self._groups.values():
            yield from group_entries(group, group.members)
        for (name, part), saved in self._written.items():
            yield partition_entry(name, part, saved)

    def restore(self, entry: Entry) -> None:
        """Take over an entry of the journal."""
        if entry["kind"] in GROUP_KINDS:
            apply(self._groups, entry)
            return
        key = (entry["group"], part_of(entry))
        if entry["kind"] == NO_PARTITION:
            self._forget(key)
        else:
            saved = saved_of(entry)
            self._partitions[key], self._written[key] = SharePartition(saved), saved

    def resume(self, now_ms: int) -> None:
        """Give every member a full session timeout, after the journal was read."""
        for group in self._groups.values():
            group.resume(now_ms)
