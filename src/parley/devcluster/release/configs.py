"""Every setting that a release's brokers describe: its type, default and where a topic inherits it
from.

The table is configs.txt, measured on real brokers. Releases before 0.11 cannot be asked for their
settings; topics are created there with what 0.11 knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from parley.devcluster.release.config_texts import CONFIG_TEXTS
from parley.versions.releases import Release, release_number, releases

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
"""Kafka's numbers of resource types (ConfigResource.Type)."""
RESOURCES = {"topic": TOPIC, "broker": BROKER, "metrics": METRICS, "group": GROUP}
TYPES = ("-", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
"""Names of types, by Kafka's number of each (ConfigType)."""
RANGES = {"int": 1 << 31, "short": 1 << 15, "long": 1 << 63}


@dataclass(frozen=True, slots=True)
class Config:
    """One setting of one release. `default` is None where there is none, or where
    each broker has its own.
    """

    name: str
    type: str
    dynamic: bool
    sensitive: bool
    inherits: str | None
    default: str | None

    @property
    def type_number(self) -> int:
        """The number that DescribeConfigs v3+ gives (0: unknown)."""
        return TYPES.index(self.type)

    @property
    def text(self) -> str | None:
        """What the setting is for, in a line; None for those that the embedded
        cluster has no use for.
        """
        return CONFIG_TEXTS.get(self.name)

    def accepts(self, value: str) -> bool:
        """Whether a value is of the type."""
        if self.type == "boolean":
            return value.strip().lower() in ("true", "false")
        if "_" in value and self.type in ("double", *RANGES):
            return False  # Python's own way to write numbers
        try:
            if self.type == "double":
                float(value)
            elif self.type in RANGES:
                return -RANGES[self.type] <= int(value) < RANGES[self.type]
        except ValueError:
            return False
        return True


Configs = Mapping[str, Config]


def configs_of(release: Release, resource: int) -> Configs:
    """Return what a release describes for a kind of resource, by name; nothing for kinds that it
    lacks.

    >>> configs_of(releases()["2.4.1"], TOPIC)["retention.ms"].default
    '604800000'
    """
    return _tables(release.number).get(resource, MappingProxyType({}))


@cache
def _rows() -> tuple[tuple[int, tuple[int, ...], tuple[int, ...], Config], ...]:
    text = (
        resources.files("parley.devcluster.release")
        .joinpath("configs.txt")
        .read_text(encoding="ascii")
    )
    rows = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        kind, name, first, last, type_name, change, secret, inherits, default = line.split("\t")
        until = list(releases())[-1] if last == "-" else last
        rows.append(
            (
                RESOURCES[kind],
                release_number(first),
                release_number(until),
                Config(
                    name,
                    type_name,
                    change == "w",
                    secret == "s",
                    None if inherits == "-" else inherits,
                    default[1:] if default.startswith("=") else None,
                ),
            )
        )
    return tuple(rows)


@cache
def _tables(number: tuple[int, ...]) -> Mapping[int, Configs]:
    asked = max(number, min(first for _, first, _, _ in _rows()))
    tables: dict[int, dict[str, Config]] = {}
    for kind, first, last, config in _rows():
        if first <= asked <= last:
            tables.setdefault(kind, {})[config.name] = config
    return MappingProxyType(tables)
