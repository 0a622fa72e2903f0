"""Which versions to speak: ranges, negotiation, features, releases. Knowledge is data here.

Map: `ranges` and `negotiate` choose, `features` and `view` answer by name, `releases` is what was
measured. `java_client` and `documentation` are for people.
"""

from parley.schema import VersionRange
from parley.versions.features import FEATURES, Feature, Requirement
from parley.versions.negotiate import BrokerVersions, api_name
from parley.versions.ranges import (
    CLIENT_RANGES,
    FIELDS_NOT_TRUSTED,
    MUST_NOT_USE,
    MustNotUse,
    NotTrusted,
    is_trusted,
    parse_must_not_use,
    usable_range,
)
from parley.versions.releases import Release, first_release, release, releases
from parley.versions.view import ClusterView

__all__ = [
    "CLIENT_RANGES",
    "FEATURES",
    "FIELDS_NOT_TRUSTED",
    "MUST_NOT_USE",
    "BrokerVersions",
    "ClusterView",
    "Feature",
    "MustNotUse",
    "NotTrusted",
    "Release",
    "Requirement",
    "VersionRange",
    "api_name",
    "first_release",
    "is_trusted",
    "parse_must_not_use",
    "release",
    "releases",
    "usable_range",
]
