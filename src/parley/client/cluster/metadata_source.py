"""Which broker is asked for metadata, and how.

1. After an outdated answer (KIP-232) another broker than the one that gave it: it may be behind,
   and five answers of one broker that is behind must not count as five witnesses (M18).
2. In a cluster of several releases one that returns topic ids is looked for: without them Fetch and
   Produce must go by name, in versions that lack the hints of KIP-951.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from parley.client.cluster.view import ClusterMetadata, MetadataUpdate, read_metadata
from parley.errors import KafkaError
from parley.messages import MetadataRequest, MetadataResponse
from parley.net import Address, BrokerConnection, Reply
from parley.schema import ApiKey
from parley.types import Node
from parley.versions import Feature

ALL_BY_NULL_VERSION = 1
"""First Metadata version in which null asks for all topics; in v0 an empty list does."""
NO_AUTO_CREATION_VERSION = Feature.NO_AUTO_TOPIC_CREATION.first_version(ApiKey.METADATA)
"""First Metadata version in which a client may ask about a topic without creating it."""
READ_IN_THE_LOOP = 4_000
"""Topics and partitions of an answer read in the event loop: some 10 ms; beyond, in a thread."""
TRIED_FOR_IDS = 2
"""Brokers that one refresh may connect to in search of one that returns topic ids."""


class MetadataSource:
    """Chooses the connection that the next Metadata request goes out on.

    `connect` gives a connection to a broker by id, or to any for None; `rng` gives numbers from 0
    to 1.
    """

    def __init__(
        self, connect: Callable[[int | None], Awaitable[BrokerConnection]], rng: Callable[[], float]
    ) -> None:
        self._connect = connect
        self._rng = rng
        self._distrusted: Address | None = None
        self._last: Address | None = None
        self._without_ids: dict[Address, BrokerConnection] = {}

    @property
    def asked(self) -> Address | None:
        """The broker that the last request went to."""
        return self._last

    def answered(self, *, outdated: bool) -> None:
        """Take note of what the last answer was worth."""
        self._distrusted = self._last if outdated else None

    async def connection(self, view: ClusterMetadata) -> BrokerConnection:
        """Return the connection to ask on. Raises BrokersUnreachable where there is none."""
        conn = await self._choose(view)
        self._last = conn.address
        return conn

    async def _choose(self, view: ClusterMetadata) -> BrokerConnection:
        if self._distrusted is not None:
            return await self._other(view)
        conn = await self._connect(None)
        if conn.versions.supports(Feature.TOPIC_IDS):
            return conn
        self._without_ids[conn.address] = conn
        tried = {address for address, found in self._without_ids.items() if not found.is_closed}
        for node in self._shaken(
            [node for node in view.brokers.values() if _address(node) not in tried]
        )[:TRIED_FOR_IDS]:
            with contextlib.suppress(KafkaError):
                other = await self._connect(node.id)
                if other.versions.supports(Feature.TOPIC_IDS):
                    return other
                self._without_ids[other.address] = other
        return conn

    async def _other(self, view: ClusterMetadata) -> BrokerConnection:
        """Return a connection to a broker chosen at random, but not the one that was behind."""
        for node in self._shaken(
            [node for node in view.brokers.values() if _address(node) != self._distrusted]
        ):
            with contextlib.suppress(KafkaError):
                return await self._connect(node.id)
        return await self._connect(None)

    def _shaken(self, nodes: list[Node]) -> list[Node]:
        return sorted(nodes, key=lambda _: self._rng())


def _address(node: Node) -> Address:
    return Address(node.host, node.port)


async def read_answer(reply: Reply[MetadataResponse]) -> MetadataUpdate:
    """Return a Metadata answer as plain values."""
    size = sum(1 + len(topic.partitions) for topic in reply.message.topics)
    if size <= READ_IN_THE_LOOP:
        return read_metadata(reply.message, reply.version)
    return await asyncio.to_thread(read_metadata, reply.message, reply.version)


def metadata_request(topics: list[str] | None, version: int) -> MetadataRequest:
    """Return a Metadata request for these topics (None: all) that creates none of them.

    Before v4 a broker may create a topic that is asked for by name: then all topics are asked for
    instead (null, or the empty list in v0).
    """
    if topics is not None and version >= NO_AUTO_CREATION_VERSION:
        asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        return MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    by_null = version >= ALL_BY_NULL_VERSION
    if topics == [] and by_null:
        return MetadataRequest(topics=[])
    everything: list[MetadataRequest.MetadataRequestTopic] | None = None if by_null else []
    if version >= NO_AUTO_CREATION_VERSION:
        return MetadataRequest(topics=everything, allow_auto_topic_creation=False)
    return MetadataRequest(topics=everything)


def creating_request(topics: list[str]) -> MetadataRequest:
    """Return a Metadata request that lets a broker create these topics, where it may."""
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    )
