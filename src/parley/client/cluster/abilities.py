"""What a cluster's brokers can do: asked for up front, or while a client lives (KIP-35, KIP-97)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from parley.client.cluster.core import Cluster
from parley.client.cluster.survey import looks_like
from parley.errors import UnsupportedVersionError
from parley.types import Several, several, text
from parley.versions import BrokerVersions, Feature
from parley.versions.view import finalized


def named_features(features: Several[Feature | str]) -> tuple[Feature, ...]:
    """Return features given as such or by name. Raises ConfigError with the nearest name."""
    given = several("features", features, "features")
    return tuple(
        found if isinstance(found, Feature) else Feature.named(text("feature", found))
        for found in given
    )


async def versions_of(cluster: Cluster, broker: int | None) -> dict[int | None, BrokerVersions]:
    """Return what a broker speaks, or with None what every broker that is known now speaks.

    Connects where needed: a broker that was upgraded answers differently on its next connection.
    Raises NetworkError where one cannot be reached.
    """
    nodes: list[int | None] = (
        [broker] if broker is not None else [*sorted(cluster.view.brokers)] or [None]
    )
    connections = await asyncio.gather(*(cluster.connection(node) for node in nodes))
    return {node: conn.versions for node, conn in zip(nodes, connections, strict=True)}


async def supports(cluster: Cluster, feature: Feature, broker: int | None) -> bool:
    """Return whether a broker, or with None each known one, has a feature.

    Of several answers the one with the newest epoch says what is finalized in the cluster.
    """
    found = (await versions_of(cluster, broker)).values()
    levels = finalized(found)
    return all(versions.missing(feature, levels) is None for versions in found)


async def require(cluster: Cluster, features: Iterable[Feature]) -> None:
    """Raise UnsupportedVersionError for the first feature that a broker lacks, naming both."""
    wanted = tuple(features)
    if not wanted:
        return
    for node, versions in (await versions_of(cluster, None)).items():
        for feature in wanted:
            try:
                versions.require(feature)
            except UnsupportedVersionError as error:
                broker = f"{node} ({versions.broker})" if node is not None else versions.broker
                raise UnsupportedVersionError(
                    f"this client requires {feature.value}, and broker {broker} looks like "
                    f"Kafka {looks_like(versions).name}: {error}",
                    api=error.api,
                    client_range=error.client_range,
                    broker_range=error.broker_range,
                    broker=broker,
                    feature=feature.value,
                    first_release=error.first_release,
                ) from error
