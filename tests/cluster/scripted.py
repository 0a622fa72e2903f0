"""Brokers that say what a test scripts: for scenes that no well-behaved cluster plays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from parley.errors import ConfigError
from parley.messages import (
    ApiVersionsResponse,
    FetchResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetForLeaderEpochResponse,
    ProduceResponse,
)
from parley.net import Server, ServerConnection, serve
from parley.protocol import ServeAll
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.records.append import assign_offsets
from parley.schema import ApiKey

from ..support import GENEROUS_S

RANGES = {
    ApiKey.PRODUCE: (3, 12),
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 9),
    ApiKey.METADATA: (0, 12),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (3, 4),
}
TOPIC_ID = b"scripted-topic-0"


def batch(first_offset: int, count: int, leader_epoch: int = 0) -> bytes:
    """Return a record batch as a log holds it; each value is the record's own offset."""
    rows = [Record(-1, 0, 0, None, str(first_offset + i).encode(), ()) for i in range(count)]
    made = encode_batches(columns_from_records(rows, with_offsets=False), None, WriteOptions())[0]
    return bytes(assign_offsets(bytearray(made.data), first_offset, leader_epoch))


class Scripted:
    """Some brokers, one topic "t" with one partition. A test replaces what they answer.

    `answers` maps (broker id, API) to a function of the request, which may be a coroutine's;
    `asked` lists (broker id, API, message).
    """

    def __init__(
        self, brokers: int = 2, ranges: dict[ApiKey, tuple[int, int]] | None = None
    ) -> None:
        self.brokers, self.ranges = (
            brokers,
            {**RANGES, ApiKey.API_VERSIONS: (0, 3), **(ranges or {})},
        )
        self.leader, self.epoch, self.topic_id = 1, 5, TOPIC_ID
        self.log = batch(0, 10)
        self.asked: list[tuple[int, ApiKey, Any]] = []
        self.answers: dict[tuple[int, ApiKey], Callable[[Any], Any]] = {}
        self._servers: list[Server] = []
        self._news = asyncio.Event()

    async def __aenter__(self) -> Scripted:
        for broker_id in range(1, self.brokers + 1):
            self._servers.append(
                await serve("127.0.0.1", 0, self._handler(broker_id), policy=ServeAll())
            )
        return self

    async def __aexit__(self, *exc: object) -> None:
        for server in self._servers:
            await server.close()

    @property
    def bootstrap_servers(self) -> str:
        """The address of broker 1."""
        return str(self._servers[0].address)

    def count(self, api: ApiKey, broker_id: int | None = None) -> int:
        """Return how often an API was asked for."""
        return sum(1 for asked, key, _ in self.asked if key == api and broker_id in (None, asked))

    async def until_asked(self, api: ApiKey) -> None:
        """Return when an API was asked for."""
        while not self.count(api):
            self._news.clear()
            await self._news.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when something holds: looked at with each request that comes."""
        async with asyncio.timeout(GENEROUS_S):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def nodes(self) -> list[tuple[int, str, int]]:
        """Return id, host and port of each broker."""
        return [
            (i, server.address.host, server.address.port)
            for i, server in enumerate(self._servers, 1)
        ]

    def _handler(self, broker_id: int) -> Callable[[ServerConnection], Any]:
        async def handle(connection: ServerConnection) -> None:
            async for request in connection:
                key = ApiKey(request.api_key)
                if key is not ApiKey.API_VERSIONS:
                    self.asked.append((broker_id, key, request.message))
                    self._news.set()
                make = self.answers.get((broker_id, key)) or self._default(key, broker_id)
                message = make(request.message)
                if isawaitable(message):
                    message = await message
                if message is None:
                    connection.abort()
                    return
                await connection.respond(request, message)

        return handle

    def _default(self, key: ApiKey, broker_id: int) -> Callable[[Any], Any]:
        found: dict[ApiKey, Callable[[Any], Any]] = {
            ApiKey.API_VERSIONS: lambda _: self.versions(),
            ApiKey.METADATA: lambda _: self.metadata(),
            ApiKey.FETCH: lambda request: self.fetched(self.since(request)),
            ApiKey.LIST_OFFSETS: self.offsets,
            ApiKey.PRODUCE: lambda _: self.produced(),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda r: self.epoch_end(
                r.topics[0].partitions[0].leader_epoch, 10
            ),
        }
        if key not in found:
            raise ConfigError(f"no script for {key}")
        return found[key]

    # -- answers -----------------------------------------------------------------------------------

    def versions(self) -> Any:
        """Return the ApiVersions answer."""
        make = ApiVersionsResponse.ApiVersion
        keys = [
            make(api_key=int(key), min_version=low, max_version=high)
            for key, (low, high) in self.ranges.items()
        ]
        return ApiVersionsResponse(api_keys=keys)

    def metadata(
        self, leader: int | None = None, epoch: int | None = None, partitions: int = 1
    ) -> Any:
        """Return a Metadata answer about the topic."""
        make = MetadataResponse.MetadataResponseBroker
        brokers = [make(node_id=i, host=host, port=port) for i, host, port in self.nodes()]
        parts = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=index,
                leader_id=self.leader if leader is None else leader,
                leader_epoch=self.epoch if epoch is None else epoch,
                replica_nodes=list(range(1, self.brokers + 1)),
                isr_nodes=list(range(1, self.brokers + 1)),
            )
            for index in range(partitions)
        ]
        topic = MetadataResponse.MetadataResponseTopic(
            name="t", topic_id=self.topic_id, partitions=parts
        )
        return MetadataResponse(
            brokers=brokers, topics=[topic], controller_id=1, cluster_id="scripted"
        )

    def since(self, request: Any) -> bytes:
        """Return the log where the request's offset is in it."""
        offset = request.topics[0].partitions[0].fetch_offset
        return self.log if offset < 10 else b""

    def fetched(self, records: bytes | None, **fields: Any) -> Any:
        """Return a Fetch answer with these records, or with an error and what goes with it."""
        endpoints = fields.pop("node_endpoints", [])
        part = FetchResponse.PartitionData(
            **{"partition_index": 0, "high_watermark": 10, "log_start_offset": 0, **fields},
            records=records,
        )
        topic = FetchResponse.FetchableTopicResponse(
            topic="t", topic_id=self.topic_id, partitions=[part]
        )
        return FetchResponse(responses=[topic], node_endpoints=endpoints)

    def hint(self, leader: int, epoch: int) -> Any:
        """Return a Fetch hint's CurrentLeader."""
        return FetchResponse.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)

    def endpoints(self, *ids: int) -> list[Any]:
        """Return a Fetch hint's NodeEndpoints of these brokers."""
        known = {i: (host, port) for i, host, port in self.nodes()}
        return [
            FetchResponse.NodeEndpoint(node_id=i, host=known[i][0], port=known[i][1]) for i in ids
        ]

    def offsets(self, request: Any) -> Any:
        """Return the beginning (0) or end (10) of the log."""
        asked = request.topics[0].partitions[0].timestamp
        part = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=0, offset=0 if asked == -2 else 10, leader_epoch=self.epoch
        )
        return ListOffsetsResponse(
            topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[part])]
        )

    def epoch_end(self, epoch: int, end_offset: int, error_code: int = 0) -> Any:
        """Return an OffsetForLeaderEpoch answer."""
        make = OffsetForLeaderEpochResponse
        part = make.EpochEndOffset(
            partition=0, error_code=error_code, leader_epoch=epoch, end_offset=end_offset
        )
        return make(topics=[make.OffsetForLeaderTopicResult(topic="t", partitions=[part])])

    def produced(self, **fields: Any) -> Any:
        """Return a Produce answer."""
        part = ProduceResponse.PartitionProduceResponse(**{"index": 0, "base_offset": 0, **fields})
        topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=[part])
        return ProduceResponse(responses=[topic])


def then(first: list[Any], last: Any) -> Any:
    """Return a script: the first answers one after the other, then the last one forever."""
    waiting = list(first)

    def answer(request: Any) -> Any:
        return (waiting.pop(0) if waiting else last)(request)

    return answer
