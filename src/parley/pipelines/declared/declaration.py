"""What a file declares, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parley.client import ClientOptions
from parley.pipelines.declared.trials import Trial
from parley.pipelines.queries import QueryOptions
from parley.pipelines.replay import ReplayOptions
from parley.pipelines.replication import ReplicationOptions
from parley.pipelines.verify import VerifyOptions


@dataclass(frozen=True, slots=True)
class Compared:
    """What a flow compares: topics with the other side's names, or what another flow copied."""

    topics: Mapping[str, str]
    options: VerifyOptions
    flow: str | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """A job: from one cluster to another, which may be the same."""

    name: str
    kind: str
    auto: bool
    """Whether it runs when no flow is named."""
    source: str
    """Empty where a table is read."""
    target: str
    options: ReplicationOptions | ReplayOptions | Compared | QueryOptions
    trial: Trial | None = None
    """What it is tested with."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A pipeline as its file has it."""

    path: Path
    name: str
    state: Path
    clusters: Mapping[str, ClientOptions]
    flows: Mapping[str, Flow]
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of Spark's session."""
