"""What makes a broker of the embedded cluster speak as one release: its ranges and its behaviours.

Ranges, record format and features are measured ones (`versions`, releases.json); the ranges are cut
down to the APIs that are served so far. The behaviours are the table below: each row begins at a
release and changes some of them. It says what was measured on real brokers, unless a row names its
source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parley.devcluster.state.codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from parley.frames import EmptyFrames
from parley.schema import ApiKey, VersionRange
from parley.versions.releases import Release, release, release_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How a release acts, as far as it is not a matter of API versions. The defaults are 0.9's."""

    silent_refusals: bool = True
    """Unknown keys and undecodable bodies get no answer and the socket stays open (0.9 only)."""
    answers_any_version: bool = True
    """A version above the range is read and answered as the highest one (0.9 only)."""
    empty_frames: EmptyFrames = EmptyFrames.IGNORE
    names_range_in_error_35: bool = False
    checks_client_name: bool = False
    names_controller: bool = True
    """Only the controller creates topics; others answer NOT_CONTROLLER (ZooKeeper; KRaft forwards)."""
    auto_create_code: int = LEADER_NOT_AVAILABLE
    invalid_record_code: int = CORRUPT_MESSAGE
    accepts_unknown_producers: bool = False
    closes: Mapping[int, VersionRange] = field(default_factory=dict)
    """Versions that are advertised and closed on all the same."""


BEHAVIOURS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0.10", {"silent_refusals": False, "answers_any_version": False}),
    ("1.0", {"empty_frames": EmptyFrames.REJECT}),
    (
        "2.4",  # KIP-511; INVALID_RECORD by KIP-467
        {"names_range_in_error_35": True, "checks_client_name": True, "invalid_record_code": INVALID_RECORD},
    ),
    ("2.5", {"accepts_unknown_producers": True}),  # KIP-360, by its own text
    ("3.3", {"names_controller": False, "auto_create_code": UNKNOWN_TOPIC_OR_PARTITION}),  # KRaft
    # The Produce range is a lie for old librdkafka's sake (KAFKA-18659).
    ("4.0", {"closes": {int(ApiKey.PRODUCE): VersionRange(0, 2)}}),
)
"""From which release on a behaviour holds; later rows override earlier ones."""


def behaviour_of(found: Release) -> Behaviour:
    """Return the behaviours of a release.

    >>> behaviour_of(release("0.10.2.2")).names_controller, behaviour_of(release("4.3")).names_controller
    (True, False)
    """
    behaviour = Behaviour()
    for since, changes in BEHAVIOURS:
        if found.number >= release_number(since):
            behaviour = replace(behaviour, **changes)
    return behaviour


@dataclass(frozen=True, slots=True)
class Profile:
    """A release as one broker of the cluster speaks it: `ranges` is what it advertises."""

    release: Release
    ranges: Mapping[int, VersionRange]
    behaviour: Behaviour

    @property
    def name(self) -> str:
        """The full number of the release."""
        return self.release.name

    def serves(self, api_key: int, version: int) -> bool:
        """Whether a request of that version is answered."""
        served = self.ranges.get(api_key)
        lie = self.behaviour.closes.get(api_key)
        return served is not None and version in served and (lie is None or version not in lie)


def make_profile(name: str, served: Mapping[int, VersionRange]) -> Profile:
    """Return the profile of a release, restricted to the APIs in `served`.

    Raises ConfigError for a release that is not known, naming the nearest one, and ValueError when a
    handler lacks a version that the release advertises (a bug: every advertised version is served).
    """
    found = release(name)
    ranges = {}
    for key, advertised in found.ranges.items():
        if key not in served:
            continue
        if advertised.min < served[key].min or advertised.max > served[key].max:
            raise ValueError(f"API {key}: {name} advertises {advertised}, only {served[key]} is served")
        ranges[key] = advertised
    return Profile(found, ranges, behaviour_of(found))
