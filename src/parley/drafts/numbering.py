"""Option 3's one number for the whole protocol, and what a client deduces from it.

Each release page has a number, one higher than the page before. 0.10.0 is 4, as in the KIP's
example. The deduction is the option's weak spot: "a feature needs at least page N" cannot say that
a later release lost it again, and a backported version would need a page in between.
"""

from __future__ import annotations

from functools import cache

from parley.errors import RemoteProtocolError
from parley.schema import VersionRange
from parley.versions import BrokerVersions, Feature, releases

_FIRST = 3
"""The number of 0.9.0.1, so that 0.10.0 has 4."""


def protocol_version(release_name: str) -> int:
    """Return the number of a measured release's page.

    >>> protocol_version("0.10.0.1")
    4
    """
    return _FIRST + list(releases()).index(release_name)


def build_description(release_name: str) -> str:
    """Return the text for people that goes with the number."""
    return f"{release_name}-parley"


def documented_ranges(number: int) -> dict[int, VersionRange]:
    """Return what the page with that number lists. Raises RemoteProtocolError without it."""
    names = list(releases())
    if not _FIRST <= number < _FIRST + len(names):
        raise RemoteProtocolError(
            f"the broker speaks protocol version {number}, of which there is no page: "
            f"the newest known is {_FIRST + len(names) - 1}. Under option 3 a client "
            "older than the broker can deduce nothing."
        )
    return dict(releases()[names[number - _FIRST]].ranges)


@cache
def minimal_numbers() -> dict[Feature, int]:
    """Return the client's map of feature to minimal protocol version."""
    found: dict[Feature, int] = {}
    for name in releases():
        versions = BrokerVersions.from_release(name)
        for feature in Feature:
            if feature not in found and versions.supports(feature):
                found[feature] = protocol_version(name)
    return found


def wrongly_deduced(number: int) -> list[Feature]:
    """Return the features that the minimal numbers promise for a release without them."""
    names = list(releases())
    versions = BrokerVersions.from_release(names[number - _FIRST])
    return [
        feature
        for feature, least in minimal_numbers().items()
        if least <= number and not versions.supports(feature)
    ]
