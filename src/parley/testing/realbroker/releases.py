"""What differs between Kafka releases when a real broker is to be started from Maven artifacts.

Measured with every release below on JDK 17:

| release     | artifact     | extra dependencies                              | metadata  |
|-------------|--------------|-------------------------------------------------|-----------|
| 0.9 - 0.11  | kafka_2.11   | ZooKeeper override, log4j, jaxb-api, activation | ZooKeeper |
| 1.0 - 1.1   | kafka_2.12   | the same                                        | ZooKeeper |
| 2.0 - 2.3   | kafka_2.12   | the same and slf4j-simple                       | ZooKeeper |
| 2.4 - 3.2   | kafka_2.13   | slf4j-simple                                    | ZooKeeper |
| 3.3 -       | kafka_2.13   | slf4j-simple                                    | KRaft     |

0.8 does not start on JDK 17.
"""

from __future__ import annotations

import re

from parley.errors import ConfigError, nearest_hint

REAL_RELEASES = (
    "0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1", "2.0.1", "2.1.1",
    "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3",
    "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.1", "4.2.0",
    "4.3.0",
)  # fmt: skip
"""The releases that are tested against real brokers, oldest first."""

_FULL = re.compile(r"0\.\d+\.\d+\.\d+|[1-9]\d*\.\d+\.\d+")


def version_tuple(release: str) -> tuple[int, ...]:
    """Return a release as numbers that compare in the order of release.

    >>> version_tuple("0.11.0.3") < version_tuple("3.9.1")
    True
    """
    return tuple(int(part) for part in release.split("."))


def full_release(release: str) -> str:
    """Return a release's full number: `3.9` becomes `3.9.1`; a full one stays.

    Raises ConfigError, naming the nearest release, when neither is the case.
    """
    if release in REAL_RELEASES:
        return release
    for known in reversed(REAL_RELEASES):
        if known.startswith(release + "."):
            return known
    if _FULL.fullmatch(release) and version_tuple(release) >= (0, 9):
        return release
    raise ConfigError(
        f'"{release}" is no Kafka release that can be started: a number such as 3.9 or 3.9.1, '
        f"from 0.9 on, is expected.{nearest_hint(release, REAL_RELEASES)}"
    )


def uses_kraft(release: str) -> bool:
    """Say whether brokers of this release are started in KRaft mode: 3.3, its first
    production release, or later.
    """
    return version_tuple(release) >= (3, 3)


def short_version(release: str) -> str:
    """Return the form that `inter.broker.protocol.version` and `--release-version` take.

    >>> short_version("0.10.2.2"), short_version("3.7.2")
    ('0.10.2', '3.7')
    """
    parts = release.split(".")
    return ".".join(parts[:3] if parts[0] == "0" else parts[:2])


def broker_artifacts(release: str) -> tuple[str, ...]:
    """Return a broker's Maven coordinates (`group:artifact:version`) in this release."""
    version = version_tuple(release)
    scala = "2.11" if version < (1, 0) else "2.12" if version < (2, 4) else "2.13"
    artifacts = [f"org.apache.kafka:kafka_{scala}:{release}"]
    if version >= (2, 0):
        artifacts.append("org.slf4j:slf4j-simple:1.7.36")
    if version < (2, 4):
        artifacts += [
            # Older ZooKeeper clients print "<unresolved>"
            # into an address and fail on JDK 14 and later.
            "org.apache.zookeeper:zookeeper:3.5.10",
            "log4j:log4j:1.2.17",
            # 0.10.1 - 0.11 need DatatypeConverter, which is gone from the JDK.
            "javax.xml.bind:jaxb-api:2.3.1",
            "javax.activation:activation:1.1.1",
        ]
    return tuple(artifacts)


def tools_artifacts(release: str) -> tuple[str, ...]:
    """Return the command-line tools' artifacts that the broker's path lacks (4.0 on)."""
    if version_tuple(release) >= (4, 0):
        return (f"org.apache.kafka:kafka-tools:{release}",)
    return ()
