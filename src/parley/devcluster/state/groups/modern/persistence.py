"""How a group of the consumer protocol becomes journal entries, and comes back.

| kind | says |
|---|---|
| consumer-group | the epochs of a group, and the topics that the last target was made from |
| consumer-member | everything about one member, its target with it |
| no-consumer-member | the member left |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Settings
from parley.devcluster.state.groups.modern.members import (
    Assignment,
    Member,
    MemberState,
    Subscription,
)
from parley.devcluster.state.journal import Entry
from parley.types import format_uuid, parse_uuid

GROUP, MEMBER, NO_MEMBER = "consumer-group", "consumer-member", "no-consumer-member"
KINDS = frozenset({GROUP, MEMBER, NO_MEMBER})


def group_entries(group: ConsumerGroup, members: Iterable[str]) -> Iterator[Entry]:
    """Yield the entries of a group and of these members; one that is no member any
    more gets its tombstone.
    """
    yield {
        "kind": GROUP,
        "group": group.name,
        "epoch": group.epoch,
        "target": group.target_epoch,
        "topics": {
            name: [format_uuid(topic_id), count]
            for name, (topic_id, count) in group.metadata.items()
        },
    }
    for name in sorted(members):
        member = group.members.get(name)
        if member is None:
            yield {"kind": NO_MEMBER, "group": group.name, "member": name}
        else:
            yield _member_entry(group, member)


def _member_entry(group: ConsumerGroup, member: Member) -> Entry:
    said, now = member.subscription, member.assignment
    return {
        "kind": MEMBER,
        "group": group.name,
        "member": member.id,
        "instance": said.instance_id,
        "rack": said.rack,
        "topics": sorted(said.topics),
        "regex": said.regex,
        "matched": sorted(member.matched),
        "timeout": said.rebalance_timeout_ms,
        "assignor": said.assignor,
        "client": [said.client_id, said.client_host],
        "epochs": [now.epoch, now.previous_epoch],
        "state": now.state.value,
        "owned": _written(now.owned),
        "revoking": _written(now.revoking),
        "since": [
            [format_uuid(topic_id), index, epoch]
            for (topic_id, index), epoch in sorted(member.since.items())
        ],
        "target": _written(group.target.get(member.id, frozenset())),
    }


def apply(groups: dict[str, ConsumerGroup], entry: Entry) -> None:
    """Take over one entry of `KINDS`."""
    name = entry["group"]
    group = groups.setdefault(name, ConsumerGroup(name, Settings()))
    if entry["kind"] == GROUP:
        group.epoch, group.target_epoch = entry["epoch"], entry["target"]
        group.metadata = {
            topic: (parse_uuid(found), count) for topic, (found, count) in entry["topics"].items()
        }
        return
    group.members.pop(entry["member"], None)
    group.target.pop(entry["member"], None)
    if entry["kind"] == MEMBER:
        group.members[entry["member"]] = _member_of(entry)
        group.target[entry["member"]] = _read(entry["target"])


def _member_of(entry: Entry) -> Member:
    client_id, client_host = entry["client"]
    said = Subscription(
        entry["instance"],
        entry["rack"],
        frozenset(entry["topics"]),
        entry["regex"],
        entry["timeout"],
        entry["assignor"],
        client_id,
        client_host,
    )
    epoch, previous_epoch = entry["epochs"]
    state, owned, revoking = (
        MemberState(entry["state"]),
        _read(entry["owned"]),
        _read(entry["revoking"]),
    )
    now = Assignment(epoch, previous_epoch, state, owned, revoking)
    since = {(parse_uuid(topic_id), index): epoch for topic_id, index, epoch in entry["since"]}
    return Member(entry["member"], said, now, since, frozenset(entry["matched"]))


def _written(parts: Iterable[Part]) -> list[list[object]]:
    return [[format_uuid(topic_id), index] for topic_id, index in sorted(parts)]


def _read(written: Iterable[tuple[str, int]]) -> frozenset[Part]:
    return frozenset((parse_uuid(topic_id), index) for topic_id, index in written)
