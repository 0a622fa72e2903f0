"""One broker's versions, and the choice among them (KIP-35, KIP-97).

A `BrokerVersions` is good for the connection on which it was learned, and forgotten with it: after
a reconnect the broker may be another release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from parley.errors import RemoteProtocolError, UnsupportedVersionError
from parley.schema import ApiKey, VersionRange
from parley.versions.features import FEATURES, Feature
from parley.versions.ranges import CLIENT_RANGES, MUST_NOT_USE, MustNotUse, usable_range
from parley.versions.releases import first_release, release, release_line

if TYPE_CHECKING:
    from parley.messages import ApiVersionsResponse

MAX_APIS = 4096
"""More entries than this in one answer are hostile: Kafka 4.3 has 93 keys."""


class BrokerVersions:
    """What one broker speaks, as it said itself, and what parley uses of it.

    `ranges` keeps unknown API keys too. `broker` is for error texts only (`"1 (host:9092)"`).
    """

    def __init__(
        self,
        ranges: Mapping[int, tuple[int, int]],
        *,
        supported_features: Mapping[str, tuple[int, int]] | None = None,
        finalized_features: Mapping[str, int] | None = None,
        finalized_features_epoch: int = -1,
        broker: str = "",
        client_ranges: Mapping[int, VersionRange] = CLIENT_RANGES,
        must_not_use: Iterable[MustNotUse] = MUST_NOT_USE,
    ) -> None:
        self.ranges: Mapping[int, VersionRange] = MappingProxyType(
            {
                key: span if isinstance(span, VersionRange) else VersionRange(*span)
                for key, span in ranges.items()
            }
        )
        self.supported_features = MappingProxyType(
            {
                name: VersionRange(low, high)
                for name, (low, high) in (supported_features or {}).items()
            }
        )
        self.finalized_features = MappingProxyType(dict(finalized_features or {}))
        self.finalized_features_epoch = finalized_features_epoch
        self.broker = broker
        self._client_ranges = client_ranges
        self._must_not_use = tuple(must_not_use)
        self._usable: dict[int, VersionRange | None] = {}

    def __repr__(self) -> str:
        return (
            f"BrokerVersions({len(self.ranges)} "
            f"APIs{f' of broker {self.broker}' if self.broker else ''})"
        )

    @classmethod
    def from_response(cls, response: ApiVersionsResponse, *, broker: str = "") -> BrokerVersions:
        """Return the versions that an ApiVersionsResponse without error names.

        Raises RemoteProtocolError when a key stands twice, a range is upside down or negative, or
        the answer names absurdly many.
        """
        if len(response.api_keys) > MAX_APIS:
            raise RemoteProtocolError(
                f"an ApiVersions answer names {len(response.api_keys)} APIs; {MAX_APIS} is "
                "the limit"
            )
        ranges: dict[int, VersionRange] = {}
        for entry in response.api_keys:
            if entry.api_key in ranges:
                raise RemoteProtocolError(
                    f"an ApiVersions answer names API key {entry.api_key} twice"
                )
            if not 0 <= entry.min_version <= entry.max_version:
                raise RemoteProtocolError(
                    f"an ApiVersions answer gives API key {entry.api_key} the versions "
                    f"{entry.min_version} to {entry.max_version}, which is no range"
                )
            ranges[entry.api_key] = VersionRange(entry.min_version, entry.max_version)
        return cls(
            ranges,
            supported_features={
                f.name: (f.min_version, f.max_version) for f in response.supported_features
            },
            finalized_features={f.name: f.max_version_level for f in response.finalized_features},
            finalized_features_epoch=response.finalized_features_epoch,
            broker=broker,
        )

    @classmethod
    def from_release(cls, name: str, *, broker: str = "") -> BrokerVersions:
        """Return what a release was measured to speak, for an unasked (pinned) broker."""
        found = release(name)
        epoch = found.finalized_features_epoch
        return cls(
            found.ranges,
            supported_features=found.supported_features,
            finalized_features=found.finalized_features,
            finalized_features_epoch=-1 if epoch is None else epoch,
            broker=broker,
        )

    @classmethod
    def fixed_pre_0_10(cls, *, broker: str = "") -> BrokerVersions:
        """Return what a broker without ApiVersions can do: Kafka 0.9's versions, no more.

        0.9 does not check the versions of its APIs and answers newer ones in an old shape, so
        nothing above this table may be sent to it.
        """
        return cls.from_release("0.9.0.1", broker=broker)

    def without(self, rules: Iterable[MustNotUse]) -> BrokerVersions:
        """Return the same broker's versions with more rules about what must not be used."""
        return BrokerVersions(
            self.ranges,
            supported_features=self.supported_features,
            finalized_features=self.finalized_features,
            finalized_features_epoch=self.finalized_features_epoch,
            broker=self.broker,
            client_ranges=self._client_ranges,
            must_not_use=(*self._must_not_use, *rules),
        )

    def usable(self, api_key: int) -> VersionRange | None:
        """Return an API's versions that both sides speak and no rule forbids, or None."""
        if api_key not in self._usable:
            own, theirs = self._client_ranges.get(api_key), self.ranges.get(api_key)
            if own is None or theirs is None:
                self._usable[api_key] = None
            else:
                self._usable[api_key] = usable_range(api_key, own, theirs, self._must_not_use)
        return self._usable[api_key]

    def choose(
        self, api_key: int, allowed: VersionRange | None = None, *, feature: Feature | None = None
    ) -> int:
        """Return an API's newest version that both sides speak, within `allowed` if given.

        Raises UnsupportedVersionError (with `local=True`; nothing was sent) when there is none.
        """
        usable = self.usable(api_key)
        if usable is not None and allowed is not None:
            wanted = usable.intersect(allowed)  # whose end may be a version that must not be used
            usable = wanted and usable_range(
                api_key, wanted, self.ranges[api_key], self._must_not_use
            )
        if usable is None:
            raise self.unsupported(api_key, allowed, feature=feature)
        return usable.max

    def supports(self, feature: Feature) -> bool:
        """Return whether this broker can do what a feature needs."""
        return self.missing(feature) is None

    def missing(
        self, feature: Feature, finalized: Mapping[str, int] | None = None
    ) -> ApiKey | str | None:
        """Return the first API or finalized feature a broker lacks for a feature, or None.

        `finalized` are the cluster's levels where they are known better than by this broker's own
        answer.
        """
        levels = self.finalized_features if finalized is None else finalized
        need = FEATURES[feature]
        for api, version in need.apis:
            usable = self.usable(api)
            if usable is None or usable.max < version:
                return api
        for name, level in need.finalized:
            if levels.get(name, 0) < level:
                return name
        return None

    def require(self, feature: Feature) -> None:
        """Raise UnsupportedVersionError, before sending, unless the broker has a feature."""
        lacking = self.missing(feature)
        if lacking is None:
            return
        need = FEATURES[feature]
        if isinstance(lacking, ApiKey):
            wanted = dict(need.apis)[lacking]
            own = self._client_ranges[lacking]
            raise self.unsupported(
                lacking, VersionRange(wanted, max(wanted, own.max)), feature=feature
            )
        raise UnsupportedVersionError(
            f"broker {self.broker or '?'} cannot do {feature.value}: its finalized feature "
            f"{lacking} is at level {self.finalized_features.get(lacking, 0)}, "
            f"{dict(need.finalized)[lacking]} is needed (Kafka {need.first_release}). Raise "
            "it with kafka-features.sh, or do without.",
            broker=self.broker or None,
            feature=feature.value,
            first_release=need.first_release,
        )

    def unsupported(
        self, api_key: int, allowed: VersionRange | None, *, feature: Feature | None = None
    ) -> UnsupportedVersionError:
        """Return the error for an API of which no version can be used; it says who lacks what."""
        own = self._client_ranges.get(api_key)
        asked = own.intersect(allowed) if own is not None and allowed is not None else own
        asked = asked or allowed
        theirs = self.ranges.get(api_key)
        name = api_name(api_key)
        measured = None if feature else first_release(api_key, asked.min if asked else 0)
        since = FEATURES[feature].first_release if feature else measured and release_line(measured)
        can = f"has versions {theirs}" if theirs is not None else "does not have it"
        use = f" for {feature.value}" if feature is not None else ""
        remedy = f" Kafka {since} is the first release that can." if since else ""
        return UnsupportedVersionError(
            f"{name}{use} needs version {asked}, but broker {self.broker or '?'} {can}; "
            f"nothing was sent.{remedy}",
            api=name,
            client_range=(asked.min, asked.max) if asked is not None else None,
            broker_range=(theirs.min, theirs.max) if theirs is not None else None,
            broker=self.broker or None,
            feature=feature.value if feature is not None else None,
            first_release=since,
        )


def api_name(api_key: int) -> str:
    """Return an API's name as Kafka writes it.

    >>> api_name(23), api_name(337)
    ('OffsetForLeaderEpoch', 'UNKNOWN(337)')
    """
    try:
        key = ApiKey(api_key)
    except ValueError:
        return f"UNKNOWN({api_key})"
    return "".join(word.capitalize() for word in key.name.split("_"))
