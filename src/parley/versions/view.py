"""One view of a cluster: what every broker of interest can do (KIP-35's scenario, KIP-97).

The scenario of the KIP-35 page, with its numbers. Two brokers answer, a client builds the
intersection, and looks up which of its features the cluster has:

>>> view = ClusterView({"B1": {0: (0, 3), 1: (2, 3)}, "B2": {0: (1, 2), 1: (0, 3), 2: (0, 0)}})
>>> view.ranges
{0: VersionRange(min=1, max=2), 1: VersionRange(min=2, max=3)}
>>> feature_1, feature_2 = {0: (3, 3), 1: (2, 3)}, {0: (0, 1), 1: (2, 3)}
>>> view.lacking(feature_1)  # version 3 of API 0 is not supported by all interested brokers
('B2', 0)
>>> view.lacking(feature_2) is None
True
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from parley.schema import VersionRange
from parley.versions.features import Feature
from parley.versions.negotiate import BrokerVersions

Broker = TypeVar("Broker", bound=Hashable)
Ranges = Mapping[int, tuple[int, int]]

_RECENT = 8
"""As many tables are compared with each new one: comparing all would cost more than it saves."""


class ClusterView(Generic[Broker]):
    """The versions that all brokers of interest have in common.

    An API that one of them lacks, or of which they share no version, is not in `ranges`.
    """

    def __init__(self, brokers: Mapping[Broker, Ranges]) -> None:
        self._brokers = dict(brokers)
        self.ranges: dict[int, VersionRange] = intersection(self._brokers)

    def lacking(self, feature: Ranges) -> tuple[Broker | None, int] | None:
        """Return why a feature cannot be used, None when it can.

        A feature is a map of API key to the range of versions it works with. The answer names a
        broker that has none of these versions and the API; no broker where each has some, but they
        share none.
        """
        for key, (low, high) in feature.items():
            shared = self.ranges.get(key)
            if shared is not None and shared.intersect((low, high)) is not None:
                continue
            for broker, ranges in self._brokers.items():
                if key not in ranges or VersionRange(*ranges[key]).intersect((low, high)) is None:
                    return broker, key
            return None, key
        return None


def intersection(brokers: Mapping[Broker, Ranges]) -> dict[int, VersionRange]:
    """Return, per API key, the versions that every broker has; keys that one lacks are left out."""
    tables = _distinct(brokers.values())
    if not tables:
        return {}
    shared = {key: (low, high) for key, (low, high) in tables[0].items()}
    for table in tables[1:]:
        shared = {
            key: (max(low, table[key][0]), min(high, table[key][1]))
            for key, (low, high) in shared.items()
            if key in table
        }
    return {
        key: VersionRange(low, high) for key, (low, high) in sorted(shared.items()) if low <= high
    }


def _distinct(tables: Iterable[Ranges]) -> list[Ranges]:
    """Return the tables without recent repetitions: 1,000 brokers have few releases."""
    found: list[Ranges] = []
    for table in tables:
        if not any(table == recent for recent in found[-_RECENT:]):
            found.append(table)
    return found


def finalized(brokers: Iterable[BrokerVersions]) -> Mapping[str, int]:
    """Return the cluster's finalized features' levels, of the answer of the newest epoch.

    Brokers learn of a change one after the other; an answer without an epoch (-1) says nothing.
    """
    newest = max(brokers, key=lambda versions: versions.finalized_features_epoch, default=None)
    return (
        newest.finalized_features
        if newest is not None and newest.finalized_features_epoch >= 0
        else {}
    )


def require(brokers: Mapping[Broker, BrokerVersions], features: tuple[Feature, ...]) -> None:
    """Raise UnsupportedVersionError for the first broker that lacks one of the features."""
    for feature in features:
        for versions in brokers.values():
            versions.require(feature)
