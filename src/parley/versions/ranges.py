"""Ranges of API versions: what a side speaks, and what parley uses of what it could speak."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from parley.errors import ConfigError, nearest_hint
from parley.schema import ApiKey, VersionRange, load


@dataclass(frozen=True, slots=True)
class MustNotUse:
    """Versions of an API that are never chosen although a broker advertises them (KIP-35, point 6).

    The rule holds for brokers whose highest version of the API is at least `if_broker_max`.
    """

    api: ApiKey
    versions: VersionRange
    reason: str
    if_broker_max: int = 0


MUST_NOT_USE: tuple[MustNotUse, ...] = (
    MustNotUse(
        ApiKey.PRODUCE,
        VersionRange(0, 2),
        "4.x brokers advertise Produce 0-2 for the sake of old clients and close the "
        "connection on them (KAFKA-18659)",
        if_broker_max=12,
    ),
    MustNotUse(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        VersionRange(0, 2),
        "below version 3 it needs the CLUSTER permission, which clients do not have (KAFKA-8422)",
    ),
)
"""The versions that parley itself never uses; callers may add their own to a `BrokerVersions`."""


def parse_must_not_use(text: str) -> tuple[MustNotUse, ...]:
    """Return the rules that a person wrote: `"Produce:12-13, Fetch:17"`, APIs by name or number.

    Raises ConfigError that says what was not understood.

    >>> [(int(rule.api), str(rule.versions)) for rule in parse_must_not_use("Produce:12-13, 1:17")]
    [(0, '12-13'), (1, '17')]
    """
    rules = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, versions = entry.partition(":")
        try:
            span = VersionRange.parse(versions.strip())
        except ValueError:
            span = None
        if not colon or span is None:
            raise ConfigError(
                f'"{entry}" is no rule about versions: API:VERSIONS is expected, as in '
                '"Produce:12-13"'
            )
        rules.append(MustNotUse(_api_named(name.strip()), span, "excluded by the client's options"))
    return tuple(rules)


def _api_named(name: str) -> ApiKey:
    keys = {key.api_name.lower(): key for key in ApiKey} | {str(int(key)): key for key in ApiKey}
    if name.lower() not in keys:
        hint = nearest_hint(name, [key.api_name for key in ApiKey])
        raise ConfigError(f'there is no API "{name}".{hint} `parley protocol 4.3` lists them.')
    return keys[name.lower()]


@dataclass(frozen=True, slots=True)
class NotTrusted:
    """A response field not believed below a version, while the version stays usable."""

    api: ApiKey
    field: str
    below_version: int
    reason: str


FIELDS_NOT_TRUSTED: tuple[NotTrusted, ...] = (
    NotTrusted(
        ApiKey.METADATA,
        "leader_epoch",
        9,
        "brokers before 2.4 spread stale epochs during reassignments, "
        "and a client that believes them is fenced forever (KAFKA-9212)",
    ),
)
"""Fields that older releases fill unreliably."""


def is_trusted(api: ApiKey, field: str, version: int) -> bool:
    """Return whether a field of an API's response may be believed in a version.

    >>> [is_trusted(ApiKey.METADATA, "leader_epoch", version) for version in (8, 9)]
    [False, True]
    """
    return not any(
        rule.api == api and rule.field == field and version < rule.below_version
        for rule in FIELDS_NOT_TRUSTED
    )


class _ClientRanges(Mapping[int, VersionRange]):
    """The versions of every API that parley speaks, read from the notation at first use."""

    def __init__(self) -> None:
        self._known: dict[int, VersionRange] = {}

    def __getitem__(self, api_key: int) -> VersionRange:
        if api_key not in self._known:
            try:
                schema = load(ApiKey(api_key)).request
            except ValueError:
                raise KeyError(api_key) from None
            low, high = schema.valid_versions
            unstable = schema.unstable_versions
            # a draft that came before the first stable version
            if unstable is not None and unstable.min <= low:
                low = unstable.max + 1
            elif unstable is not None:
                high = unstable.min - 1
            self._known[api_key] = VersionRange(low, high)
        return self._known[api_key]

    def __iter__(self) -> Iterator[int]:
        return (key.value for key in ApiKey)

    def __len__(self) -> int:
        return len(ApiKey)


CLIENT_RANGES: Mapping[int, VersionRange] = _ClientRanges()
"""What parley can speak: versions from 0 to the newest stable one of the newest release."""


def usable_range(
    api_key: int,
    client: VersionRange,
    broker: VersionRange,
    rules: Iterable[MustNotUse] = MUST_NOT_USE,
) -> VersionRange | None:
    """Return the versions that both sides have and no rule forbids, None when there are none.

    >>> usable_range(ApiKey.PRODUCE, VersionRange(0, 13), VersionRange(0, 12))
    VersionRange(min=3, max=12)
    """
    common = client.intersect(broker)
    for rule in rules:
        if common is not None and rule.api == api_key and broker.max >= rule.if_broker_max:
            low, high = common
            if rule.versions.min <= low <= rule.versions.max:
                low = rule.versions.max + 1
            if rule.versions.min <= high <= rule.versions.max:
                high = rule.versions.min - 1
            common = VersionRange(low, high) if low <= high else None
    return common
