"""How the records in flight of share groups become journal entries, and come back.

Real brokers have them in the topic `__share_group_state`; the groups are records (`records`).

| kind | says |
|---|---|
| share-partition | the records in flight of one partition, without the locks |
| no-share-partition | what a group knew of a partition was deleted |
"""

from __future__ import annotations

from parley.devcluster.state.groups.share.assignor import Part
from parley.devcluster.state.groups.share.partition import Saved
from parley.devcluster.state.groups.share.runs import RecordState, Run
from parley.devcluster.state.journal import Entry
from parley.types import format_uuid, parse_uuid

PARTITION, NO_PARTITION = "share-partition", "no-share-partition"
KINDS = frozenset({PARTITION, NO_PARTITION})


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
