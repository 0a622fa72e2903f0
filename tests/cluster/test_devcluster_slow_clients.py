"""B3, B4, B9, B10: clients that are slow, silent or many, and clusters beside each other."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.devcluster import AsyncLocalCluster, ClusterSettings, LocalCluster
from parley.devcluster.state.log.batches import read_facts
from parley.devcluster.state.log.replica import Prepared
from parley.frames import DEFAULT_MAX_FRAME_BYTES, EmptyFrames
from parley.messages import ApiVersionsResponse, encode_request, request_class
from parley.net import ManualClock, ServerConnection, serve
from parley.net.server import ServerSettings
from parley.protocol import Decision, Respond, Serve
from parley.schema import ApiKey
from parley_laboratory.wire import Wire

ApiVersions: Any = request_class(ApiKey.API_VERSIONS)
Fetch: Any = request_class(ApiKey.FETCH)
Metadata: Any = request_class(ApiKey.METADATA)
MIB = 1 << 20
IDLE_MS = 600_000
Talk = Any  # a connection and the requests of these tests: tests/cluster/conftest.py
Connect = Callable[..., Talk]
Batch = Callable[..., bytes]


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, release="3.9", seed=5) as cluster:
        cluster.create_topic("events")
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> Iterator[LocalCluster]:
    yield shared
    shared.replicas_agree()


def open_connections(cluster: LocalCluster) -> int:
    return cluster._call(lambda: len(cluster._cluster.broker(1)._servers["PLAINTEXT"].connections))


def wait_for_connections(cluster: LocalCluster, count: int) -> None:
    while open_connections(cluster) != count:
        pass


def still_serves(cluster: LocalCluster) -> None:
    with Wire(cluster.bootstrap_servers) as wire:
        assert wire.ask(ApiVersions(), 0).error_code == 0


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


# -- B3: frames ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, DEFAULT_MAX_FRAME_BYTES + 1])
def test_b03_impossible_sizes_close_the_connection(cluster: LocalCluster, size: int) -> None:
    with Wire(cluster.bootstrap_servers) as wire:
        wire.socket.sendall(struct.pack(">i", size) + b"x" * 64)
        assert is_closed(wire.socket)
    still_serves(cluster)


def test_b03_one_byte_at_a_time_is_served_in_the_end(cluster: LocalCluster) -> None:
    """A slow loris costs what it sends, and nobody else waits for it."""
    frame = b"".join(encode_request(ApiVersions(), 0, 7, "slow"))
    data = len(frame).to_bytes(4, "big") + frame
    with Wire(cluster.bootstrap_servers) as slow:
        slow.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(data)):
            slow.socket.sendall(data[at : at + 1])
            still_serves(cluster)
        assert slow.receive_frame()[:4] == (7).to_bytes(4, "big")


def test_b03_memory_is_counted_by_what_came(cluster: LocalCluster) -> None:
    """50 MiB announced by a hundred clients, a hundred bytes sent by each: 5 GB in Kafka."""
    gc.collect()
    before = open_connections(cluster)
    tracemalloc.start()
    try:
        start, _ = tracemalloc.get_traced_memory()
        wires = [Wire(cluster.bootstrap_servers) for _ in range(100)]
        for wire in wires:
            wire.socket.sendall((50 * MIB).to_bytes(4, "big") + bytes(100))
        wait_for_connections(cluster, before + 100)
        still_serves(cluster)
        grown = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    assert grown < 100 * 512 * 1024
    for wire in wires:
        wire.close()
    wait_for_connections(cluster, before)


async def raw(cluster: AsyncLocalCluster) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = cluster.broker(1).address
    return await asyncio.open_connection(address.host, address.port)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 what is waited for is not an event of this test
        await asyncio.sleep(0)


async def eventually(clock: ManualClock, condition: Callable[[], bool]) -> None:
    while not condition():
        await clock.advance(0)


@pytest.mark.parametrize("sent", [b"", (50 * MIB).to_bytes(4, "big") + b"half of a frame"])
async def test_b03_who_sends_nothing_is_closed_by_the_clock(sent: bytes) -> None:
    """connections.max.idle.ms, also in the middle of a frame; who sends something stays."""
    clock = ManualClock()
    async with AsyncLocalCluster(1, "3.9", clock=clock, seed=1) as cluster:
        server = cluster.broker(1)._servers["PLAINTEXT"]
        assert server is not None
        silent, silent_writer = await raw(cluster)
        busy, busy_writer = await raw(cluster)
        silent_writer.write(sent)
        await eventually(clock, lambda: len(server.connections) == 2)
        frame = b"".join(encode_request(ApiVersions(), 0, 7, "busy"))
        for _ in range(4):
            await clock.advance(IDLE_MS // 3)
            busy_writer.write(len(frame).to_bytes(4, "big") + frame)
            size = int.from_bytes(await busy.readexactly(4), "big")
            await busy.readexactly(size)
        await eventually(clock, lambda: len(server.connections) == 1)
        try:
            assert await silent.read() == b""
        except ConnectionResetError:
            assert sent, "what was sent and not read makes it a reset"
        silent_writer.close()
        busy_writer.close()


async def test_b04_who_waits_for_records_is_not_idle_and_who_vanished_is() -> None:
    """A fetch may wait longer than the idle time; a client that is gone without a
    FIN is ended by the clock.
    """
    clock = ManualClock()
    async with AsyncLocalCluster(1, "3.9", clock=clock, seed=1) as cluster:
        cluster.create_topic("events")
        server = cluster.broker(1)._servers["PLAINTEXT"]
        assert server is not None
        reader, writer = await raw(cluster)
        part = Fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
        asked = Fetch(
            max_wait_ms=3 * IDLE_MS,
            min_bytes=1,
            topics=[Fetch.FetchTopic(topic="events", partitions=[part])],
        )
        frame = b"".join(encode_request(asked, 11, 7, "waits"))
        writer.write(len(frame).to_bytes(4, "big") + frame)
        await eventually(clock, lambda: bool(cluster.requests("Fetch")))
        await clock.advance(3 * IDLE_MS)
        size = int.from_bytes(await reader.readexactly(4), "big")
        assert await reader.readexactly(size)
        assert len(server.connections) == 1
        await clock.advance(2 * IDLE_MS)  # the client is silent from now on, and its host is gone
        await eventually(clock, lambda: not server.connections)
        writer.close()


# -- B4: clients that do not read ------------------------------------------------------------------


async def test_b04_who_never_reads_is_ended_by_the_clock(batch: Batch) -> None:
    clock = ManualClock()
    async with AsyncLocalCluster(1, "3.9", clock=clock, seed=1) as cluster:
        cluster.create_topic("events", configs={"max.message.bytes": str(40 * MIB)})
        leader = cluster.state.replication.brokers[1].find("events", 0)
        data = batch(1, size=8 * MIB)
        facts = read_facts(data)
        for _ in range(5):
            cluster.state.append(leader, [Prepared(data, facts)], now_ms=0)
        server = cluster.broker(1)._servers["PLAINTEXT"]
        assert server is not None
        _, writer = await raw(cluster)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        part = Fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=40 * MIB)
        topics = [Fetch.FetchTopic(topic="events", partitions=[part])]
        asked = Fetch(max_wait_ms=0, min_bytes=1, max_bytes=40 * MIB, topics=topics)
        frame = b"".join(encode_request(asked, 11, 7, "never reads"))
        for _ in range(50):
            writer.write(len(frame).to_bytes(4, "big") + frame)
        await eventually(clock, lambda: any(one._stream.unsent_bytes for one in server.connections))
        (connection,) = server.connections
        assert connection._stream.unsent_bytes < 64 * MIB, (
            "one answer waits, the other 49 were not made"
        )
        assert len(cluster.requests("Fetch")) == 1
        still = await asyncio.to_thread(lambda: _asks(str(cluster.broker(1).address)))
        assert still
        await clock.advance(2 * IDLE_MS)
        await eventually(clock, lambda: not server.connections)
        assert connection.is_closed
        writer.close()


def _asks(address: str) -> bool:
    with Wire(address) as wire:
        return bool(wire.ask(ApiVersions(), 0).error_code == 0)


class Refuses:
    """A policy that answers every request itself."""

    empty_frames = EmptyFrames.REJECT

    def decide(self, api_key: int, api_version: int) -> Decision:
        return Respond(request_answer(), 0) if api_key == ApiKey.API_VERSIONS else Serve()

    def malformed(self, api_key: int, api_version: int) -> Decision:
        return Serve()


def request_answer() -> Any:
    entry = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        error_code=35, api_keys=[entry(api_key=k, max_version=1) for k in range(100)]
    )


async def test_b04_a_flood_of_questions_without_reading_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Refusals are answered without a handler: the queue for their answers
    has a bound of its own.
    """

    async def handler(connection: ServerConnection) -> None:
        async for request in connection:
            connection.drop(request)

    server = await serve(
        "127.0.0.1", 0, handler, policy=Refuses(), settings=ServerSettings(max_unsent_bytes=MIB)
    )
    _, writer = await asyncio.open_connection(server.address.host, server.address.port)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    frame = b"".join(encode_request(ApiVersions(), 0, 7, "floods"))
    data = (len(frame).to_bytes(4, "big") + frame) * 500
    most = 0
    await until(lambda: bool(server.connections))
    (connection,) = server.connections
    while not connection.is_closed:
        writer.write(data)
        await asyncio.sleep(0)
        most = max(most, connection._stream.unsent_bytes)
    assert MIB < most < 8 * MIB
    assert "asks and does not read" in caplog.text
    writer.transport.abort()
    await server.close()


def test_b04_a_reset_in_the_middle_of_an_answer(
    cluster: LocalCluster, talk_to: Connect, batch: Batch
) -> None:
    leader = talk_to(cluster)
    end = leader.offset(-1).offset
    for _ in range(4):
        leader.produce(batch(1, size=900_000))
    before = open_connections(cluster)
    for _ in range(20):
        with Wire(cluster.bootstrap_servers) as wire:
            asked = leader.fetch_request(
                end, version=11, partition_max_bytes=4 * MIB, max_bytes=4 * MIB
            )
            wire.send(asked, 11)
            assert wire.socket.recv(1_000)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for_connections(cluster, before)
    still_serves(cluster)


async def test_b04_a_thousand_idle_and_two_hundred_active() -> None:
    async with AsyncLocalCluster(1, "3.9", seed=1) as cluster:
        cluster.create_topic("events", 3)
        idle = [await raw(cluster) for _ in range(1_000)]
        active = [await raw(cluster) for _ in range(200)]

        async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
            answered = 0
            for number in range(10):
                frame = b"".join(encode_request(Metadata(topics=None), 9, number, "active"))
                writer.write(len(frame).to_bytes(4, "big") + frame)
                size = int.from_bytes(await reader.readexactly(4), "big")
                answered += int.from_bytes((await reader.readexactly(size))[:4], "big") == number
            return answered

        assert await asyncio.gather(*(ask(*pair) for pair in active)) == [10] * 200
        assert await ask(*idle[500]) == 10, "who was idle is served as well"
        server = cluster.broker(1)._servers["PLAINTEXT"]
        assert server is not None
        assert len(server.connections) == 1_200
        for _, writer in idle + active:
            writer.close()
        await until(lambda: not server.connections)


# -- B9, B10 ---------------------------------------------------------------------------------------


def test_b09_sixteen_clusters_in_one_process_share_nothing(batch: Batch, talk_to: Connect) -> None:
    threads = threading.active_count()
    clusters = [LocalCluster(brokers=2, release="3.9", seed=1).start() for _ in range(16)]
    try:
        ports = [broker.address for one in clusters for broker in one.brokers]
        assert len(set(ports)) == 32
        for number, one in enumerate(clusters):
            one.create_topic("events", replication_factor=2)
            leader = talk_to(one, one.leaders("events")[0][0])
            for _ in range(number):
                leader.produce(batch(1))
        clusters[3].kill(1)
        clusters[4].faults.fail("Metadata", 5, times=-1)
        clusters[5].advance(3_600_000)
        for number, one in enumerate(clusters):
            leader_id = one.leaders("events")[0][0]
            assert talk_to(one, leader_id).offset(-1).offset == number
            one.replicas_agree()
        assert [len(one.requests("Metadata")) for one in clusters] == [0] * 16
        assert clusters[0].cluster_id == clusters[1].cluster_id, "the same seed gives the same ids"
    finally:
        for one in clusters:
            one.close()
    assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("host", "bound"), [(None, "127.0.0.1"), ("localhost", "127.0.0.1"), ("0.0.0.0", "0.0.0.0")]
)
def test_b10_only_loopback_is_bound_unless_it_is_asked_for(host: str | None, bound: str) -> None:
    settings = ClusterSettings() if host is None else ClusterSettings(host=host)
    with LocalCluster(brokers=2, settings=settings) as cluster:
        for broker in cluster._cluster.brokers:
            assert [server.address.host for server in broker._servers.values()] == [bound]
