"""A connection over a network in memory, with the clock in the test's hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley.errors import (
    LocalProtocolError,
    NetworkError,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
)
from parley.messages import CreateTopicsRequest, FetchRequest, MetadataRequest, ProduceRequest
from parley.net import (
    BrokerConnection,
    ConnectOptions,
    Faults,
    ManualClock,
    MemoryBackend,
    Way,
    open_connection,
)
from parley.net.clock import settle
from parley.versions import VersionRange

from ...support import GENEROUS_S
from .conftest import BROKER, Broker


async def connect(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> BrokerConnection:
    return await open_connection(BROKER, options, backend=network, clock=clock)


async def test_requests_are_answered_in_order(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    assert connection.versions.choose(3) == 12
    # the canary went out with the first connection to this address
    assert broker.keys() == [18, 16]
    replies = await asyncio.gather(
        *(connection.request(MetadataRequest(topics=[])) for _ in range(20))
    )
    assert [reply.message.cluster_id for reply in replies] == [str(i) for i in range(3, 23)]
    assert {reply.version for reply in replies} == {12}
    assert connection.in_flight == 0
    await connection.close()
    assert connection.is_closed
    assert clock.waiting == 0


@pytest.mark.parametrize("piece_bytes", [1, 3, 1000])
async def test_pieces_of_any_size(
    network: MemoryBackend,
    clock: ManualClock,
    broker: Broker,
    options: ConnectOptions,
    piece_bytes: int,
) -> None:
    network.faults[BROKER] = Faults(
        to_broker=Way(piece_bytes=piece_bytes), to_client=Way(piece_bytes=piece_bytes)
    )
    connection = await connect(network, clock, options)
    reply = await connection.request(MetadataRequest(topics=[]))
    assert reply.message.cluster_id == "3"
    await connection.close()


async def test_submitting_keeps_the_order_of_the_calls(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    futures = [
        connection.submit(message)
        for message in (MetadataRequest(topics=[]), FetchRequest(), ProduceRequest())
    ]
    await asyncio.gather(*futures)
    assert broker.keys()[2:] == [3, 1, 0]
    await connection.close()


async def test_a_produce_without_acknowledgement_is_done_at_once(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    future = connection.submit(ProduceRequest(acks=0))
    assert future.done()
    assert future.result().message is None
    assert (await connection.request(MetadataRequest(topics=[]))).message.cluster_id == "4"
    await connection.close()


async def test_what_cannot_be_sent_leaves_the_connection_usable(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    with pytest.raises(UnsupportedVersionError):
        await connection.request(CreateTopicsRequest())
    with pytest.raises(UnsupportedVersionError):
        await connection.request(FetchRequest(), allowed=VersionRange(0, 3))
    with pytest.raises(LocalProtocolError):
        await connection.request(MetadataRequest(topics=7))
    await connection.request(MetadataRequest(topics=[]))
    assert broker.keys() == [18, 16, 3]
    await connection.close()


async def test_a_reply_can_be_forgotten(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    reply = await connection.request(MetadataRequest(topics=[]))
    assert "MetadataResponse" in repr(reply)
    reply.release()
    assert reply.message is None
    await connection.close()


async def test_a_deadline_ends_the_connection_and_says_who_was_late(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    broker.hold.add(1)
    late = connection.submit(FetchRequest())
    behind = connection.submit(MetadataRequest(topics=[]), timeout_ms=10_000)
    await clock.advance(499)
    assert not late.done()
    await clock.advance(1)
    with pytest.raises(RequestTimedOut, match=r"did not answer in time.*unknown") as caught:
        await late
    assert (caught.value.address, caught.value.stage) == (str(BROKER), "request")
    with pytest.raises(NetworkError, match="an earlier request") as other:
        await behind
    assert not isinstance(other.value, RequestTimedOut)
    assert connection.is_closed
    with pytest.raises(NetworkError, match="nothing was sent"):
        await connection.request(MetadataRequest(topics=[]))
    with pytest.raises(NetworkError, match="versions are forgotten"):
        _ = connection.versions
    await connection.wait_closed()
    assert clock.waiting == 0


async def test_deadlines_that_are_kept_are_not_remembered(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    for _ in range(5):
        await connection.request(MetadataRequest(topics=[]), timeout_ms=100)
        await clock.advance(70)
    await clock.advance(100_000)
    assert not connection.is_closed
    await connection.close()


async def test_a_cancelled_request_is_dropped_and_the_next_one_is_right(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    network.faults[BROKER] = Faults(to_client=Way(delay_ms=10))
    opening = asyncio.create_task(connect(network, clock, options))
    await clock.advance(100)
    connection = await opening
    first = asyncio.create_task(connection.request(MetadataRequest(topics=[])))
    second = asyncio.create_task(connection.request(MetadataRequest(topics=[])))
    await clock.advance(1)
    first.cancel()
    await clock.advance(100)
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await second).message.cluster_id == "4"
    assert (connection.in_flight, len(connection._waiting)) == (0, 0)
    closing = asyncio.create_task(connection.close())
    await clock.advance(100)
    await closing


async def test_the_deadline_of_a_cancelled_request_harms_nobody(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    network.faults[BROKER] = Faults(to_client=Way(delay_ms=300))
    opening = asyncio.create_task(connect(network, clock, options))
    await clock.advance(1_500)
    connection = await opening
    cancelled = asyncio.create_task(connection.request(MetadataRequest(topics=[]), timeout_ms=100))
    await clock.advance(50)
    cancelled.cancel()
    patient = asyncio.create_task(connection.request(MetadataRequest(topics=[]), timeout_ms=900))
    # past the deadline of the cancelled request, whose answer comes only now
    await clock.advance(250)
    assert not connection.is_closed
    await clock.advance(600)
    assert (await patient).message.cluster_id == "4"
    closing = asyncio.create_task(connection.close())
    await clock.advance(1_000)
    await closing


async def test_a_broken_connection_fails_what_is_in_flight(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    broker.hold.add(1)
    futures = [connection.submit(FetchRequest()) for _ in range(3)]
    network.streams[0].cut()
    for future in futures:
        with pytest.raises(NetworkError, match="whether the broker acted"):
            await future
    assert isinstance(connection.error, NetworkError)
    # one error each, with its own traceback
    assert len({id(future.exception()) for future in futures}) == 3


async def test_an_answer_that_makes_no_sense_fails_the_request_with_the_reason(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    broker.hold.add(3)
    future = connection.submit(MetadataRequest(topics=[]))
    buffer = connection.get_buffer()
    buffer[:8] = b"\0\0\0\4\0\0\0\x63"
    buffer.release()
    connection.buffer_updated(8)
    with pytest.raises(RemoteProtocolError, match=r"broker:9092: .*id 99, which was never sent"):
        await future
    await connection.wait_closed()


async def test_a_throttled_connection_waits_before_it_sends(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    """V12: brokers since 2.0 answer at once and want the client to wait."""
    connection = await connect(network, clock, options)
    broker.throttle_ms = 300
    await connection.request(MetadataRequest(topics=[]))
    assert connection.throttled_ms == 300
    broker.throttle_ms = 0
    waiting = asyncio.create_task(connection.request(MetadataRequest(topics=[])))
    await clock.advance(299)
    assert broker.keys() == [18, 16, 3]
    await clock.advance(1)
    await waiting
    assert connection.throttled_ms == 0
    await connection.close()


async def test_a_request_that_may_not_be_sent_in_time_says_so_and_harms_nobody(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    broker.throttle_ms = 2**31 - 1
    await connection.request(MetadataRequest(topics=[]))
    waiting = asyncio.create_task(connection.request(MetadataRequest(topics=[]), timeout_ms=100))
    await clock.advance(100)
    with pytest.raises(RequestTimedOut, match=r"wants to hear nothing for .* nothing was sent"):
        await waiting
    assert not connection.is_closed
    await connection.close()


async def test_a_full_send_buffer_makes_requests_wait(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    stream = network.streams[0]
    stream._outgoing.way.silent = False
    server_end = stream._outgoing.target
    assert server_end is not None
    server_end.pause_reading()
    records = bytes(2 * 1024 * 1024)
    partition = ProduceRequest.PartitionProduceData(records=records)
    big = ProduceRequest(
        acks=1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])]
    )
    first = connection.submit(big, timeout_ms=5_000)
    second = asyncio.create_task(connection.request(MetadataRequest(topics=[]), timeout_ms=5_000))
    third = asyncio.create_task(connection.request(MetadataRequest(topics=[]), timeout_ms=50))
    await settle()
    assert connection.in_flight == 1
    await clock.advance(50)
    with pytest.raises(RequestTimedOut, match="reads too slowly"):
        await third
    server_end.resume_reading()
    await asyncio.wait_for(asyncio.gather(first, second), GENEROUS_S)
    await connection.close()


async def test_closing_twice_and_while_requests_wait(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    broker.hold.add(1)
    future = connection.submit(FetchRequest())
    await connection.close()
    await connection.close()
    connection.abort()
    with pytest.raises(NetworkError, match="closed by this side"):
        await future
    assert connection.error is None


def nothing_left(network: MemoryBackend, clock: ManualClock) -> bool:
    return all(stream.is_over for stream in network.streams) and clock.waiting == 0


async def cancelled_after(steps: int, work: Any) -> bool:
    """Run `work` for some steps of the loop, cancel it; report whether it was still running."""
    task = asyncio.ensure_future(work)
    for _ in range(steps):
        if task.done():
            break
        await asyncio.sleep(0)
    was_running = not task.done()
    task.cancel()
    result = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(result, BrokerConnection):
        result.abort()
    else:
        assert isinstance(result, asyncio.CancelledError)
    await settle()
    return was_running


async def test_opening_can_be_cancelled_at_each_await(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    steps = 0
    while await cancelled_after(steps, connect(network, clock, options)):
        assert nothing_left(network, clock), f"after {steps} steps"
        steps += 1
    assert steps > 5
    assert nothing_left(network, clock)


async def test_a_request_can_be_cancelled_at_each_await(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await connect(network, clock, options)
    for steps in range(12):
        task = asyncio.create_task(connection.request(MetadataRequest(topics=[])))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        following = await connection.request(MetadataRequest(topics=[]))
        assert following.message.cluster_id == str(len(broker.seen))
        assert (connection.in_flight, len(connection._waiting)) == (0, 0)
    await connection.close()
    assert nothing_left(network, clock)
