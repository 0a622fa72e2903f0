"""How a group of the consumer protocol becomes journal entries, and comes back.

| kind | says |
|---|---|
| consumer-group | the epochs of a group, and the topics that the last target was made from |
| consumer-member | everything about one member, its target with it |
| no-consumer-member | the member left |
| no-consumer-group | the group is none of this protocol any more; its offsets stay |
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

from parley.devcluster.state.groups.modern.assignors import Part
from parley.devcluster.state.groups.modern.group import ConsumerGroup, Settings
from parley.devcluster.state.groups.modern.members import (
    Assignment,
    ClassicWords,
    Member,
    MemberState,
    Subscription,
)
from parley.devcluster.state.journal import Entry
from parley.types import format_uuid, parse_uuid

GROUP, NO_GROUP = "consumer-group", "no-consumer-group"
MEMBER, NO_MEMBER = "consumer-member", "no-consumer-member"
KINDS = frozenset({GROUP, NO_GROUP, MEMBER, NO_MEMBER})


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


def no_group_entry(name: str) -> Entry:
    """Return the entry of a group that is none of this protocol any more."""
    return {"kind": NO_GROUP, "group": name}


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
        "classic": _classic_entry(member.classic),
    }


def _classic_entry(words: ClassicWords | None) -> Entry | None:
    if words is None:
        return None
    protocols = [[name, base64.b64encode(metadata).decode()] for name, metadata in words.protocols]
    return {"session": words.session_timeout_ms, "protocols": protocols}


def _classic_of(entry: Entry | None) -> ClassicWords | None:
    if entry is None:
        return None
    protocols = tuple((name, base64.b64decode(metadata)) for name, metadata in entry["protocols"])
    return ClassicWords(entry["session"], protocols)


def apply(groups: dict[str, ConsumerGroup], entry: Entry) -> None:
    """Take over one entry of `KINDS`."""
    name = entry["group"]
    if entry["kind"] == NO_GROUP:
        groups.pop(name, None)
        return
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
    member = Member(entry["member"], said, now, since, frozenset(entry["matched"]))
    member.classic = _classic_of(entry.get("classic"))
    return member


def _written(parts: Iterable[Part]) -> list[list[object]]:
    return [[format_uuid(topic_id), index] for topic_id, index in sorted(parts)]


def _read(written: Iterable[tuple[str, int]]) -> frozenset[Part]:
    return frozenset((parse_uuid(topic_id), index) for topic_id, index in written)
