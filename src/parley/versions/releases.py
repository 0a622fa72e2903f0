"""What each release of Kafka speaks, as measured on real brokers: `releases.json` as values.

The table serves display, the embedded cluster and pinned releases. Versions are never *chosen* by
it for a broker that can be asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from parley.errors import ConfigError
from parley.schema import VersionRange


@dataclass(frozen=True, slots=True)
class Release:
    """One measured release.

    `ranges` is what its ApiVersions answers (for 0.9.0.1, which has none: what it can do), per API
    key. `record_magic` is the newest record format it stores. The features are those of a fresh
    single broker; `finalized_features_epoch` is None where the answer has no such field.
    """

    name: str
    ranges: Mapping[int, VersionRange]
    record_magic: int
    supported_features: Mapping[str, VersionRange]
    finalized_features: Mapping[str, int]
    finalized_features_epoch: int | None

    @property
    def number(self) -> tuple[int, ...]:
        """The release as numbers, to be compared."""
        return release_number(self.name)

    @property
    def answers_api_versions(self) -> bool:
        """Whether a client can ask it what it speaks (KIP-35, since 0.10.0)."""
        return 18 in self.ranges


def release_number(name: str) -> tuple[int, ...]:
    """Return a release's name as numbers. Raises ConfigError when it is none.

    >>> release_number("0.10.2.2") < release_number("2.4")
    True
    """
    parts = name.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError(
            f'"{name}" is not a release of Kafka: numbers and dots are expected, as in "3.9" '
            'or "0.10.2.2"'
        )
    return tuple(int(part) for part in parts)


@cache
def releases() -> Mapping[str, Release]:
    """Return every measured release, oldest first, by name."""
    table = json.loads(
        resources.files("parley.versions").joinpath("releases.json").read_text(encoding="ascii")
    )
    return MappingProxyType({name: _release(name, entry) for name, entry in table.items()})


def release(name: str) -> Release:
    """Return the measured release that a name means: "3.9.1", or "3.9" for the newest 3.9.x known.

    Raises ConfigError for a name without one; the text names the nearest.

    >>> release("2.4").name, release("0.9").name
    ('2.4.1', '0.9.0.1')
    """
    known = releases()
    if name in known:
        return known[name]
    wanted = release_number(name)
    matching = [found for found in known.values() if found.number[: len(wanted)] == wanted]
    if matching:
        return matching[-1]
    same_line = [found for found in known.values() if found.number[:2] == wanted[:2]]
    # what a release speaks, the next one keeps
    older = [found for found in known.values() if found.number <= wanted]
    nearest = (same_line or older or list(known.values())[:1])[-1].name
    raise ConfigError(
        f'release "{name}" was not measured; known are {", ".join(known)}. Did you mean '
        f'"{nearest}"?'
    )


def first_release(api_key: int, version: int = 0) -> str | None:
    """Return the oldest measured release that advertises an API's version, or None."""
    for name, entry in releases().items():
        if version in entry.ranges.get(api_key, ()):
            return name
    return None


def release_line(name: str) -> str:
    """Return the line that a release belongs to: what people name, whose patches speak the same.

    >>> release_line("0.10.2.2"), release_line("1.1.1"), release_line("2.4")
    ('0.10.2', '1.1', '2.4')
    """
    parts = name.split(".")
    return ".".join(parts[: 3 if parts[0] == "0" else 2])


def _release(name: str, entry: Mapping[str, object]) -> Release:
    apis, supported, finalized = (
        entry["apis"],
        entry.get("supported_features", {}),
        entry.get("finalized_features", {}),
    )
    assert isinstance(apis, str)
    assert isinstance(supported, dict)
    assert isinstance(finalized, dict)
    pairs = (api.split(":") for api in apis.split())
    epoch, magic = entry.get("finalized_features_epoch"), entry["record_magic"]
    assert isinstance(magic, int)
    assert epoch is None or isinstance(epoch, int)
    return Release(
        name=name,
        ranges=MappingProxyType({int(key): VersionRange.parse(text) for key, text in pairs}),
        record_magic=magic,
        supported_features=MappingProxyType(
            {f: VersionRange(low, high) for f, (low, high) in supported.items()}
        ),
        finalized_features=MappingProxyType(dict(finalized)),
        finalized_features_epoch=epoch,
    )
