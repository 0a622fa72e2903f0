"""Topics copied from a cluster to another: each record once where the target can, with a map of
offsets that is exact for every record.

What a replication knows stands in the target alone, in the compacted topic `<name>-offsets`: the
runs of offsets that were copied, written in the transaction that has the records. Where it goes on
after a crash is the end of the newest run, so that killing it anywhere loses and doubles nothing.

Map: `replication` is what users see, with `options` and `status`, and `blocking` its other form.
`clusters` is what has to be known of both sides; `plan` what is to be created, which `topics` asks
for and does; `groups` translates offsets; `watching` does both again while records are copied;
`proof` compares both sides by the map; `cutover` leads through the move.
`engine` copies in transactions: `readers` fetch, a `lane` writes the records of one partition with
`writers`, `rows` makes of fetched columns what is produced. `store` is the topic of offsets;
`chunks` its format and `runs` the map itself, without IO.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOME = {
    "AsyncReplication": "replication",
    "CutoverStep": "cutover",
    "Finding": "plan",
    "GroupOffset": "groups",
    "Plan": "plan",
    "Replication": "blocking",
    "ReplicationOptions": "options",
    "PartitionStatus": "status",
}

__all__ = [
    "AsyncReplication",
    "CutoverStep",
    "Finding",
    "GroupOffset",
    "PartitionStatus",
    "Plan",
    "Replication",
    "ReplicationOptions",
]

if TYPE_CHECKING:
    from parley.pipelines.replication.blocking import Replication as Replication
    from parley.pipelines.replication.cutover import CutoverStep as CutoverStep
    from parley.pipelines.replication.groups import GroupOffset as GroupOffset
    from parley.pipelines.replication.options import ReplicationOptions as ReplicationOptions
    from parley.pipelines.replication.plan import Finding as Finding, Plan as Plan
    from parley.pipelines.replication.replication import AsyncReplication as AsyncReplication
    from parley.pipelines.replication.status import PartitionStatus as PartitionStatus


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
