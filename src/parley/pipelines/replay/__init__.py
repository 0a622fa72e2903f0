"""A topic, or a table of a lake, replayed into another topic: its records once more, in the order
of their times, all at once or paced.

The records keep key, value, headers and timestamp; a header says where each was. Where a replay
goes on after a crash stands in the target alone, in the compacted topic `<name>-offsets`, written
in the transactions that have the records.

Map: `replay` is what users see, with `options`, `table_options` and `status`, and `blocking` its
other form. `sources` is what is read behind one face. Of a topic `bounds` finds which offsets,
`merging` reads the partitions and puts them in the order of their times, `rows` makes of fetched
columns what is produced, `letters` says which dead letters go back, and where to. Of a table
(`table_source`) `table_rows` makes records of its rows, with keys and values of `table_parts`;
`sorting` sorts them, `table_reading` hands them out. `news` lets both be waited for. `planning`
finds what is to be created, and what cannot be; `pace` (pure) says what is due, `writing` writes
it. `marks` is the format of what a replay knows.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOME = {
    "AsyncReplay": "replay",
    "Replay": "blocking",
    "ReplayOptions": "options",
    "ReplayPlan": "planning",
    "ReplayStatus": "status",
    "ReplayedTable": "table_options",
}

__all__ = ["AsyncReplay", "Replay", "ReplayOptions", "ReplayPlan", "ReplayStatus", "ReplayedTable"]

if TYPE_CHECKING:
    from parley.pipelines.replay.blocking import Replay as Replay
    from parley.pipelines.replay.options import ReplayOptions as ReplayOptions
    from parley.pipelines.replay.planning import ReplayPlan as ReplayPlan
    from parley.pipelines.replay.replay import AsyncReplay as AsyncReplay
    from parley.pipelines.replay.status import ReplayStatus as ReplayStatus
    from parley.pipelines.replay.table_options import ReplayedTable as ReplayedTable


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
