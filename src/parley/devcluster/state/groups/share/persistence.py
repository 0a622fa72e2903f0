"""How share groups and their partitions become journal entries, and come back.

| kind | says |
|---|---|
| share-group | the epochs of a group, its topics, and the partitions that it knows |
| share-member | everything about one member, its target with it |
| no-share-member | the member left |
| share-partition | the records in flight of one partition, without the locks |
| no-share-partition | what a group knew of a partition was deleted |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.groups.share.group import ShareGroup, ShareMember
from parley.devcluster.state.groups.share.partition import Saved
from parley.devcluster.state.groups.share.runs import RecordState, Run
from parley.devcluster.state.groups.share.settings import ShareSettings
from parley.devcluster.state.journal import Entry
from parley.types import format_uuid, parse_uuid

GROUP, MEMBER, NO_MEMBER = "share-group", "share-member", "no-share-member"
PARTITION, NO_PARTITION = "share-partition", "no-share-partition"
GROUP_KINDS = frozenset({GROUP, MEMBER, NO_MEMBER})
KINDS = GROUP_KINDS | {PARTITION, NO_PARTITION}


def group_entries(group: ShareGroup, members: Iterable[str]) -> Iterator[Entry]:
    """Yield the entries of a group and of these members; one that left gets its tombstone."""
    yield {
        "kind": GROUP,
        "group": group.name,
        "epoch": group.epoch,
        "target": group.target_epoch,
        "topics": {name: [format_uuid(at), count] for name, (at, count) in group.metadata.items()},
        "known": {format_uuid(topic_id): count for topic_id, count in group.known.items()},
    }
    for name in sorted(members):
        member = group.members.get(name)
        if member is None:
            yield {"kind": NO_MEMBER, "group": group.name, "member": name}
        else:
            yield {
                "kind": MEMBER,
                "group": group.name,
                "member": member.id,
                "rack": member.rack,
                "topics": sorted(member.topics),
                "client": [member.client_id, member.client_host],
                "epochs": [member.epoch, member.previous_epoch],
                "assigned": _written(member.assigned),
                "target": _written(group.target.get(name, frozenset())),
            }


def apply(groups: dict[str, ShareGroup], entry: Entry) -> None:
    """Take over one entry of `GROUP_KINDS`."""
    name = entry["group"]
    group = groups.setdefault(name, ShareGroup(name, ShareSettings()))
    if entry["kind"] == GROUP:
        group.epoch, group.target_epoch = entry["epoch"], entry["target"]
        group.metadata = {
            topic: (parse_uuid(found), count) for topic, (found, count) in entry["topics"].items()
        }
        group.known = {parse_uuid(found): count for found, count in entry["known"].items()}
        return
    group.members.pop(entry["member"], None)
    group.target.pop(entry["member"], None)
    if entry["kind"] == MEMBER:
        epoch, previous_epoch = entry["epochs"]
        client_id, client_host = entry["client"]
        group.members[entry["member"]] = ShareMember(
            entry["member"],
            entry["rack"],
            frozenset(entry["topics"]),
            client_id,
            client_host,
            epoch,
            previous_epoch,
            _read(entry["assigned"]),
        )
        group.target[entry["member"]] = _read(entry["target"])


def partition_entry(group: str, part: Part, saved: Saved) -> Entry:
    """Return the entry of what a group has in flight of a partition."""
    topic_id, index = part
    return {
        "kind": PARTITION,
        "group": group,
        "id": format_uuid(topic_id),
        "partition": index,
        "offsets": [saved.start_offset, saved.next_offset],
        "runs": [
            [run.first, run.last, run.state.value, run.deliveries, *run.batch] for run in saved.runs
        ],
    }


def no_partition_entry(group: str, part: Part) -> Entry:
    """Return the entry that says that nothing is known of a partition any more."""
    topic_id, index = part
    return {
        "kind": NO_PARTITION, "group": group, "id": format_uuid(topic_id), "partition": index,
    }  # fmt: skip


def part_of(entry: Entry) -> Part:
    """Return the partition that an entry is about."""
    return parse_uuid(entry["id"]), entry["partition"]


def saved_of(entry: Entry) -> Saved:
    """Return what an entry of a partition says."""
    start_offset, next_offset = entry["offsets"]
    runs = [
        Run(first, last, RecordState(state), count, (begin, end))
        for first, last, state, count, begin, end in entry["runs"]
    ]
    return Saved(start_offset, next_offset, runs)


def _written(parts: Iterable[Part]) -> list[list[object]]:
    return [[format_uuid(topic_id), index] for topic_id, index in sorted(parts)]


def _read(written: Iterable[tuple[str, int]]) -> frozenset[Part]:
    return frozenset((parse_uuid(topic_id), index) for topic_id, index in written)
