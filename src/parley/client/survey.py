"""Asks every broker of a cluster what it speaks, side by side; a broker that fails is a finding, not an end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from parley.client.metadata_source import metadata_request
from parley.errors import BrokersUnreachable, KafkaError
from parley.net import Address, Backend, BrokerConnection, ConnectOptions, Verdicts, open_connection
from parley.schema import ApiKey
from parley.types import Node
from parley.versions import FEATURES, BrokerVersions, Feature, releases

AT_ONCE = 256
"""Brokers asked at the same time: enough to hide the latency, few enough for the descriptor limit."""

_BY_MODE = frozenset((4, 5, 6, 7, 27, 56, 67, 71, 72))
"""Keys that come and go with the broker's mode (ZooKeeper, KRaft, telemetry), not with its release."""


@dataclass(frozen=True, slots=True)
class BrokerFinding:
    """What one broker said. `versions` is None where `error` says why; `inferred`: it answered no ApiVersions."""

    node: Node
    versions: BrokerVersions | None
    inferred: bool = False
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class LooksLike:
    """The measured release that a broker resembles most.

    `differing` counts the APIs with another range or unknown to that release, `missing` those that
    the release has and the broker has not; a real broker of the release has 0 and 0.
    """

    name: str
    differing: int
    missing: int

    @property
    def exactly(self) -> bool:
        """Whether every API agrees."""
        return not self.differing and not self.missing

    def __str__(self) -> str:
        notes = [f"{self.differing} APIs differ"] * bool(self.differing) + [f"{self.missing} missing"] * bool(
            self.missing
        )
        return f"{self.name} ({', '.join(notes)})" if notes else self.name


async def survey(options: ConnectOptions, *, backend: Backend | None = None) -> list[BrokerFinding]:
    """Return a finding for every broker that Metadata names, by id.

    Raises BrokersUnreachable when none of the bootstrap servers gives Metadata.
    """
    verdicts = Verdicts(options.verdict_ttl_ms)
    nodes = await _nodes(options, backend, verdicts)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(node: Node) -> BrokerFinding:
        async with slots:
            return await _ask(node, options, backend, verdicts)

    return list(await asyncio.gather(*(one(node) for node in sorted(nodes, key=lambda node: node.id))))


async def _nodes(options: ConnectOptions, backend: Backend | None, verdicts: Verdicts) -> list[Node]:
    failures: dict[str, Exception] = {}
    for address in options.servers:
        try:
            connection = await open_connection(address, options, backend=backend, verdicts=verdicts)
        except KafkaError as error:
            failures[str(address)] = error
            continue
        try:
            version = connection.versions.choose(ApiKey.METADATA)
            reply = await connection.request(metadata_request([], version))
            return [Node(b.node_id, b.host, b.port, b.rack) for b in reply.message.brokers]
        except KafkaError as error:
            failures[str(address)] = error
        finally:
            await connection.close()
    raise BrokersUnreachable(failures)


async def _ask(node: Node, options: ConnectOptions, backend: Backend | None, verdicts: Verdicts) -> BrokerFinding:
    connection: BrokerConnection | None = None
    try:
        connection = await open_connection(Address(node.host, node.port), options, backend=backend, verdicts=verdicts)
        found = connection.versions
        named = BrokerVersions(
            found.ranges,
            supported_features=found.supported_features,
            finalized_features=found.finalized_features,
            finalized_features_epoch=found.finalized_features_epoch,
            broker=f"{node.id} ({node.address})",
        )
        return BrokerFinding(node, named, connection.inferred)
    except KafkaError as error:
        return BrokerFinding(node, None, error=error)
    finally:
        if connection is not None:
            await connection.close()


def looks_like(versions: BrokerVersions) -> LooksLike:
    """Return the measured release whose ranges are closest; the newest of several equally close ones.

    For display only: versions are never chosen by it.

    >>> str(looks_like(BrokerVersions.from_release("2.4")))
    '2.4.1'
    """
    found = []
    theirs = {key: span for key, span in versions.ranges.items() if key not in _BY_MODE}
    for age, (name, known) in enumerate(reversed(list(releases().items()))):
        ours = {key: span for key, span in known.ranges.items() if key not in _BY_MODE}
        differing = sum(ours.get(key) != span for key, span in theirs.items())
        found.append((differing, sum(key not in theirs for key in ours), age, name))
    differing, missing, _, name = min(found)
    return LooksLike(name, differing, missing)


def kips(versions: BrokerVersions) -> list[str]:
    """Return the KIPs whose features a broker has, by number; KIP-35 where it tells its versions at all."""
    found = {FEATURES[feature].kip for feature in Feature if versions.supports(feature)}
    if ApiKey.API_VERSIONS in versions.ranges:
        found.add("KIP-35")
    return sorted(found, key=lambda kip: int(kip.removeprefix("KIP-")))


def lacking(findings: Iterable[BrokerFinding], features: Iterable[Feature]) -> list[tuple[Feature, BrokerFinding]]:
    """Return every (feature, broker) of which the broker lacks the feature; one that failed lacks all."""
    return [
        (feature, finding)
        for feature in features
        for finding in findings
        if finding.versions is None or not finding.versions.supports(feature)
    ]
