"""What a probe is, and the table that the modules beside this one fill: one row per feature."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from parley.versions import Feature

from .scene import Scene

Action = Callable[[Scene], Awaitable[object]]
OFF = "off"
"""What a probe returns where the broker has the APIs and answers that the
feature is switched off.
"""


@dataclass(frozen=True)
class Probe:
    """How a feature is tried out.

    `works` uses it and checks what comes of it. Where the broker lacks it, `older` does without,
    for releases from `older_since` on; with no `older` (or before it) `works` must be refused.
    """

    works: Action
    older: Action | None = None
    older_since: str = "0.9"


PROBES: dict[Feature, Probe] = {}


def probe(
    feature: Feature, *, older: Action | None = None, older_since: str = "0.9"
) -> Callable[[Action], Action]:
    """Register a function as the probe of a feature."""

    def register(works: Action) -> Action:
        assert feature not in PROBES, feature
        PROBES[feature] = Probe(works, older, older_since)
        return works

    return register
