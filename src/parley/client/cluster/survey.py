"""Asks every broker of a cluster what it speaks, side by side; one that fails is a finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from parley.client.cluster.metadata_source import metadata_request
from parley.client.cluster.side_by_side import side_by_side
from parley.errors import BrokersUnreachable, KafkaError
from parley.net import (
    Address,
    Backend,
    BrokerConnection,
    ConnectOptions,
    ProbeOutcomes,
    open_connection,
)
from parley.schema import ApiKey
from parley.types import Node
from parley.versions import FEATURES, BrokerVersions, Feature, releases

AT_ONCE = 256
"""Brokers asked at the same time: enough to hide the latency, few for the descriptor limit."""

_BY_MODE = frozenset((4, 5, 6, 7, 27, 56, 67, 71, 72))
"""Keys that come and go with the broker's mode (ZooKeeper, KRaft), not with its release."""


@dataclass(frozen=True, slots=True)
class BrokerFinding:
    """What one broker said: `versions` or `error`; `inferred`: it answered no ApiVersions."""

    node: Node
    versions: BrokerVersions | None
    inferred: bool = False
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class LooksLike:
    """The measured release that a broker resembles most, or several alike, newest first.

    `differing` counts the APIs with another range or unknown to that release, `missing` those that
    the release has and the broker has not; a real broker of the release has 0 and 0.
    """

    names: tuple[str, ...]
    differing: int
    missing: int

    @property
    def name(self) -> str:
        """The newest of them."""
        return self.names[0]

    @property
    def exactly(self) -> bool:
        """Whether every API agrees, and only this release answers so."""
        return not self.differing and not self.missing and len(self.names) == 1

    def __str__(self) -> str:
        notes = [f"{self.differing} APIs differ"] * bool(self.differing) + [
            f"{self.missing} missing"
        ] * bool(self.missing)
        names = " or ".join(self.names)
        return f"{names} ({', '.join(notes)})" if notes else names


async def survey(options: ConnectOptions, *, backend: Backend | None = None) -> list[BrokerFinding]:
    """Return a finding for every broker that Metadata names, by id.

    Raises BrokersUnreachable when none of the bootstrap servers gives Metadata.
    """
    probe_outcomes = ProbeOutcomes(options.probe_ttl_ms)
    nodes = await _nodes(options, backend, probe_outcomes)

    async def one(node: Node) -> BrokerFinding:
        return await _ask(node, options, backend, probe_outcomes)

    return await side_by_side(one, sorted(nodes, key=lambda node: node.id), AT_ONCE)


async def _nodes(
    options: ConnectOptions, backend: Backend | None, probe_outcomes: ProbeOutcomes
) -> list[Node]:
    failures: dict[str, Exception] = {}
    for address in options.servers:
        try:
            connection = await open_connection(
                address, options, backend=backend, probe_outcomes=probe_outcomes
            )
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


async def _ask(
    node: Node, options: ConnectOptions, backend: Backend | None, probe_outcomes: ProbeOutcomes
) -> BrokerFinding:
    connection: BrokerConnection | None = None
    try:
        connection = await open_connection(
            Address(node.host, node.port), options, backend=backend, probe_outcomes=probe_outcomes
        )
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
    """Return the measured releases whose ranges are closest.

    Releases with equal ranges, as 3.3 and 3.4 in KRaft mode, are distinguished by the features they
    support (KIP-584), where the broker names any. For display only: versions are never chosen by
    it.

    >>> str(looks_like(BrokerVersions.from_release("2.4")))
    '2.4.1'
    """
    found: dict[tuple[int, int, int], list[str]] = {}
    theirs = {key: span for key, span in versions.ranges.items() if key not in _BY_MODE}
    for name, known in reversed(list(releases().items())):
        ours = {key: span for key, span in known.ranges.items() if key not in _BY_MODE}
        differing = sum(ours.get(key) != span for key, span in theirs.items())
        missing = sum(key not in theirs for key in ours)
        # Only those that both name: a v3 answer leaves out features whose minimum is 0.
        features = sum(
            known.supported_features.get(feature, span) != span
            for feature, span in versions.supported_features.items()
        )
        found.setdefault((differing, missing, features), []).append(name)
    closest = min(found)
    return LooksLike(tuple(found[closest]), *closest[:2])


def kips_of(versions: BrokerVersions) -> list[str]:
    """Return the KIPs whose features a broker has, by number; KIP-35 if it reports its versions."""
    found = {FEATURES[feature].kip for feature in Feature if versions.supports(feature)}
    if ApiKey.API_VERSIONS in versions.ranges:
        found.add("KIP-35")
    return sorted(found, key=lambda kip: int(kip.removeprefix("KIP-")))


def brokers_lacking(
    findings: Iterable[BrokerFinding], features: Iterable[Feature]
) -> list[tuple[Feature, BrokerFinding]]:
    """Return every (feature, broker) that lacks it; a broker that failed lacks all."""
    return [
        (feature, finding)
        for feature in features
        for finding in findings
        if finding.versions is None or not finding.versions.supports(feature)
    ]
