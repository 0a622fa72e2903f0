"""Pipelines that are declared in one file: clusters, and what flows from one to another.

The file is TOML, and data only. Each table `[flow.NAME]` is a job of its kind: `copy` replicates
topics, `ingest` and `sql` are Spark's streaming queries, `replay` writes a topic's records, or a
table's, once more, `verify` compares. What a flow is to do is checked when the file is read, with
the line of what is wrong; what a flow has done stands in its target, or in a query's checkpoint, so
that a pipeline goes on where it was.

Map: `pipeline` is what users call, `blocking` its other form. `reading` makes `declaration` of a
file: `lines` knows where a key stands, `keys` which there are, `secrets` resolves references,
`streams` makes a query of them, `replays` a replay, both with what `surroundings` has of the file.
`flows` are the kinds at work, `state` the folder in which runs of a pipeline know of each other.
`trials` are the tests in a file, `testing` runs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOME = {
    "AsyncPipeline": "pipeline",
    "FlowStatus": "flows",
    "Pipeline": "blocking",
    "PlannedChange": "flows",
    "TrialResult": "trials",
}

__all__ = ["AsyncPipeline", "FlowStatus", "Pipeline", "PlannedChange", "TrialResult"]

if TYPE_CHECKING:
    from parley.pipelines.declared.blocking import Pipeline as Pipeline
    from parley.pipelines.declared.flows import (
        FlowStatus as FlowStatus,
        PlannedChange as PlannedChange,
    )
    from parley.pipelines.declared.pipeline import AsyncPipeline as AsyncPipeline
    from parley.pipelines.declared.trials import TrialResult as TrialResult


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
