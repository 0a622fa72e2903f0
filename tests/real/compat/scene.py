"""A client at one real broker, with what the probes need: topics, raw requests,
a count of the bytes sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from parley.client import (
    EARLIEST,
    AsyncClient,
    FetchOptions,
    NewTopic,
    ProduceOptions,
    TopicPartition,
)
from parley.messages import FetchRequest, FindCoordinatorRequest, JoinGroupRequest, ProduceRequest
from parley.net import AsyncioBackend, Stream
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.releases import version_tuple
from parley.types import ZERO_UUID
from parley.versions import Feature, VersionRange

NODE = 1
COORDINATOR_ERRORS = {14, 15, 16, 51}
"""A coordinator that is loading, not there yet or moved, and a transaction that
is being ended: ask again.
"""
UNIQUE = os.urandom(3).hex()


class CountingBackend(AsyncioBackend):
    """The real network, and the number of bytes that were handed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_bytes = 0

    async def connect(self, *arguments: Any, **named: Any) -> Stream:
        stream = await super().connect(*arguments, **named)
        write = stream.write

        def counted(segments: Sequence[bytes | memoryview]) -> None:
            self.sent_bytes += sum(len(segment) for segment in segments)
            write(segments)

        stream.write = counted  # type: ignore[method-assign]
        return stream


class Scene:
    """What one probe works with; `topic` is shared by the probes of a release,
    `fresh()` makes one of its own.
    """

    shared_topics: ClassVar[dict[str, str]] = {}

    def __init__(self, cluster: RealCluster, release: str, feature: Feature) -> None:
        self.cluster = cluster
        self.release = release
        self.feature = feature
        self.backend = CountingBackend()
        self.client = AsyncClient(bootstrap_servers=cluster.bootstrap_servers, backend=self.backend)
        self.group = self.name("group")
        self.topic = ""
        self._marked_bytes = 0

    async def __aenter__(self) -> Scene:
        await self.client.start()
        address = self.cluster.broker(NODE).address
        key = f"{self.release} {address}"
        if key not in self.shared_topics:
            self.shared_topics[key] = await self.fresh("shared")
        self.topic = self.shared_topics[key]
        # leaders and topic ids are known from here on
        await self.client.list_offsets({self.tp: EARLIEST})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    # -- bytes

    def mark(self) -> None:
        """Say that the decisive call comes now: what it is refused for must
        send nothing from here on.
        """
        self._marked_bytes = self.backend.sent_bytes

    @property
    def sent_bytes(self) -> int:
        """The bytes sent since the mark."""
        return self.backend.sent_bytes - self._marked_bytes

    # -- names and topics

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def since(self, release: str) -> bool:
        """Whether this broker is of that release or a later one."""
        return version_tuple(self.release) >= version_tuple(release)

    def name(self, kind: str) -> str:
        return f"{kind}-{self.feature.value}-{UNIQUE}-{os.urandom(3).hex()}"

    async def fresh(self, kind: str = "own") -> str:
        """Return the name of a new topic of one partition: created, or made by writing
        to it where that is all.
        """
        name = self.name(kind)
        if self.since("0.10.1"):
            await self.client.create_topics([NewTopic(name)])
        else:
            await self.client.produce(name, pa.table({"value": ["first"]}))
        return name

    async def topic_id(self, topic: str | None = None) -> bytes:
        found = await self.client.metadata([topic or self.topic])
        return found.topics[topic or self.topic].topic_id

    # -- records

    async def put(
        self, rows: dict[str, Any] | None = None, *, topic: str | None = None, **options: Any
    ) -> int:
        """Write rows to partition 0; return the offset of the first."""
        table = pa.table(rows if rows is not None else {"key": ["k"], "value": ["v"]})
        tp = TopicPartition(topic or self.topic, 0)
        result = await self.client.produce(tp.topic, table, options=ProduceOptions(**options))
        return result.partitions[tp].base_offset

    async def get(
        self, offset: int, count: int = 1, *, topic: str | None = None, **options: Any
    ) -> list[dict]:
        """Read records of partition 0."""
        rows: list[dict] = []
        tp = TopicPartition(topic or self.topic, 0)
        async for batch in self.client.fetch(tp, offset, offset + count, FetchOptions(**options)):
            rows += batch.to_pylist()
        return rows

    # -- requests

    async def ask(self, message: Any, *, low: int = 0, high: int = 2**15 - 1) -> Any:
        """Send a request for the feature that is being probed; the client refuses
        it where that is missing.
        """
        self.mark()
        return await self.client.request(
            NODE, message, 20_000, feature=self.feature, allowed=VersionRange(low, high)
        )

    async def send(self, message: Any, *, high: int = 2**15 - 1) -> Any:
        """Send a request that any broker of this probe knows."""
        return await self.client.request(NODE, message, 20_000, allowed=VersionRange(0, high))

    async def fetch_raw(
        self,
        offset: int,
        *,
        high: int = 2**15 - 1,
        max_bytes: int = 1 << 20,
        probe: bool = True,
        **fields: Any,
    ) -> Any:
        """Send one Fetch as given; return the whole answer."""
        top = {
            name: fields.pop(name)
            for name in ("session_id", "session_epoch", "rack_id")
            if name in fields
        }
        topic_id = await self.topic_id()
        high = high if topic_id != ZERO_UUID else min(high, 12)
        part = FetchRequest.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, **fields
        )
        topics = [FetchRequest.FetchTopic(topic=self.topic, topic_id=topic_id, partitions=[part])]
        message = FetchRequest(
            max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics, **top
        )
        return await (self.ask(message, high=high) if probe else self.send(message, high=high))

    async def produce_raw(
        self, batch: bytes, *, transactional_id: str | None = None, low: int = 3, high: int
    ) -> Any:
        """Send one batch as it is; return the answer of its partition."""
        topic_id = await self.topic_id()
        parts = [ProduceRequest.PartitionProduceData(index=0, records=batch)]
        data = [
            ProduceRequest.TopicProduceData(
                name=self.topic, topic_id=topic_id, partition_data=parts
            )
        ]
        message = ProduceRequest(
            transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=data
        )
        self.mark()
        answer = await self.client.request(
            NODE, message, 20_000, feature=self.feature, allowed=VersionRange(low, high)
        )
        return answer.responses[0].partition_responses[0]

    async def until(
        self, what: str, ask: Callable[[], Awaitable[Any]], good: Callable[[Any], Any]
    ) -> Any:
        """Ask again and again until the answer is good; return it."""
        answer: Any = None
        for attempt in range(100):
            answer = await ask()
            if good(answer):
                return answer
            await asyncio.sleep(min(0.02 * (attempt + 1), 0.5))
        raise AssertionError(f"{self.release}: {what} was not seen; the last answer was {answer!r}")

    async def settled(self, ask: Callable[[], Awaitable[Any]], code: Callable[[Any], int]) -> Any:
        """Ask a coordinator until it is there."""
        return await self.until(
            "a coordinator", ask, lambda answer: code(answer) not in COORDINATOR_ERRORS
        )

    async def find_coordinator(self, key: str, key_type: int = 0) -> None:
        """Wait until the broker coordinates this group (0) or transactional id (1)."""
        batched = (await self.client.api_versions(NODE)).usable(ApiKey.FIND_COORDINATOR)
        assert batched is not None
        if batched.max >= 4:
            message = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        else:
            message = FindCoordinatorRequest(key=key, key_type=key_type)

        def code(answer: Any) -> int:
            return answer.coordinators[0].error_code if batched.max >= 4 else answer.error_code

        found = await self.settled(lambda: self.send(message), code)
        assert code(found) == 0

    async def join(self, *, probe: bool = True, member_id: str = "", **fields: Any) -> Any:
        """Join the classic group as its only member, once its coordinator is there."""
        await self.find_coordinator(self.group)
        message = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(
                    name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0"
                )
            ],
            **fields,
        )
        send = self.ask if probe else self.send
        return await self.settled(lambda: send(message), lambda answer: answer.error_code)


def one_batch(value: bytes, **options: Any) -> bytes:
    """Return one record as a batch of the newest format."""
    columns = columns_from_records([Record(0, 1_000, 0, None, value)], with_offsets=False)
    return b"".join(
        bytes(batch.data)
        for batch in encode_batches(columns, None, WriteOptions(magic=2, **options))
    )
