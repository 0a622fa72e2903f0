"""How a classic group becomes a journal entry, and comes back: Stable or Empty, as
brokers write them (H17, H18).
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from parley.devcluster.state.groups.classic.group import ClassicGroup, GroupState
from parley.devcluster.state.groups.classic.members import Member
from parley.devcluster.state.journal import Entry

KIND, NO_KIND = "classic-group", "no-classic-group"
KINDS = frozenset({KIND, NO_KIND})


def no_group_entry(name: str) -> Entry:
    """Return the entry of a group that is none of this protocol any more; its offsets stay."""
    return {"kind": NO_KIND, "group": name}


def group_entry(group: ClassicGroup) -> Entry:
    """Return the entry that says everything about a group."""
    return {
        "kind": KIND,
        "group": group.name,
        "generation": group.generation,
        "type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "empty_since": group.empty_since_ms,
        "members": [_written(member) for member in group.members.values()],
    }


def _written(member: Member) -> Entry:
    return {
        "id": member.id,
        "instance": member.instance_id,
        "client": [member.client_id, member.client_host],
        "session": member.session_timeout_ms,
        "rebalance": member.rebalance_timeout_ms,
        "protocols": [[name, _text(metadata)] for name, metadata in member.protocols],
        "assignment": _text(member.assignment),
    }


def group_of(
    entry: Entry, keep: Callable[[ClassicGroup], None], new_id: Callable[[], str]
) -> ClassicGroup:
    """Return the group that an entry describes."""
    group = ClassicGroup(entry["group"], keep, new_id)
    group.generation, group.leader = entry["generation"], entry["leader"]
    group.protocol_type, group.protocol = entry["type"], entry["protocol"]
    group.empty_since_ms = entry.get("empty_since", -1)
    for written in entry["members"]:
        client_id, client_host = written["client"]
        member = Member(
            written["id"],
            written["instance"],
            client_id,
            client_host,
            written["session"],
            written["rebalance"],
            tuple((name, _bytes(metadata)) for name, metadata in written["protocols"]),
            _bytes(written["assignment"]),
            is_new=False,
        )
        group.members[member.id] = member
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    return group


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
