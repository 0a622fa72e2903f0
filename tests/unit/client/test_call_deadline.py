"""A call ends at its own deadline while a connection is being made, and each of several
callers gets its own error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from parley.client import LATEST, AsyncClient, PreparedTransaction, TopicPartition
from parley.errors import BrokersUnreachable, KafkaError, NetworkError, RequestTimedOut, own_copy
from parley.messages import (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from parley.net import (
    Address,
    ConnectOptions,
    Faults,
    ManualClock,
    MemoryBackend,
    Pool,
    ServerConnection,
    Way,
    serve,
)
from parley.protocol import ServeAll
from parley.schema import ApiKey

BROKER, OTHER = Address("broker", 9092), Address("other", 9092)
TP = TopicPartition("t", 0)
RANGES = {
    ApiKey.METADATA: (0, 12),
    ApiKey.LIST_OFFSETS: (1, 9),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.OFFSET_COMMIT: (1, 8),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
    ApiKey.END_TXN: (0, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 3),
    ApiKey.TXN_OFFSET_COMMIT: (0, 3),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.API_VERSIONS: (0, 3),
}


class FirstOfTwo:
    """Broker 1: says that broker 2 leads "t" and coordinates everything, and
    counts the calls for metadata.
    """

    def __init__(self) -> None:
        self.asked: list[ApiKey] = []

    def answer(self, key: ApiKey, message: Any) -> Any:
        if key is ApiKey.API_VERSIONS:
            entry = ApiVersionsResponse.ApiVersion
            keys = [
                entry(api_key=int(api), min_version=low, max_version=high)
                for api, (low, high) in RANGES.items()
            ]
            return ApiVersionsResponse(api_keys=keys)
        if key is ApiKey.FIND_COORDINATOR:
            found = FindCoordinatorResponse.Coordinator
            coordinators = [
                found(key=one, node_id=2, host=OTHER.host, port=OTHER.port)
                for one in message.coordinator_keys
            ]
            return FindCoordinatorResponse(coordinators=coordinators)
        broker = MetadataResponse.MetadataResponseBroker
        part = MetadataResponse.MetadataResponsePartition(
            partition_index=0, leader_id=2, leader_epoch=1, replica_nodes=[2], isr_nodes=[2]
        )
        topic = MetadataResponse.MetadataResponseTopic(
            name="t", topic_id=b"0123456789abcdef", partitions=[part]
        )
        places = [
            broker(node_id=i, host=at.host, port=at.port) for i, at in ((1, BROKER), (2, OTHER))
        ]
        return MetadataResponse(brokers=places, topics=[topic], controller_id=1)

    async def serve(self, connection: ServerConnection) -> None:
        async for request in connection:
            key = ApiKey(request.api_key)
            self.asked.append(key)
            await connection.respond(request, self.answer(key, request.message))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def network(clock: ManualClock) -> MemoryBackend:
    return MemoryBackend(clock)


@pytest.fixture
async def client(network: MemoryBackend, clock: ManualClock) -> AsyncIterator[AsyncClient]:
    server = await serve(
        BROKER.host, BROKER.port, FirstOfTwo().serve, policy=ServeAll(), backend=network
    )
    made = AsyncClient(
        bootstrap_servers=str(BROKER),
        default_api_timeout_ms=300,
        backend=network,
        clock=clock,
        rng=lambda: 0.5,
    )
    await made.start()
    yield made
    await made.close()
    await server.abort()


CALLS: dict[str, Callable[[AsyncClient], Awaitable[Any]]] = {
    "request": lambda client: client.request(2, MetadataRequest(topics=[]), timeout_ms=300),
    "api_versions": lambda client: client.api_versions(2),
    "supports": lambda client: client.supports("transactions-v2"),
    "list_offsets": lambda client: client.list_offsets({TP: LATEST}, timeout_ms=300),
    "commit_offsets": lambda client: client.commit_offsets("group", {TP: 5}),
    "committed_offsets": lambda client: client.committed_offsets("group", [TP]),
    "transactions.describe": lambda client: client.transactions.describe(["x"], timeout_ms=300),
    "transactions.end": lambda client: client.transactions.end(
        PreparedTransaction("x", 7, 0), committed=True, timeout_ms=300
    ),
    "transactions.end_many": lambda client: client.transactions.end_many(
        [PreparedTransaction("x", 7, 0), PreparedTransaction("y", 8, 0)],
        committed=True,
        timeout_ms=300,
    ),
    "transactions.fence": lambda client: client.transactions.fence(["x", "y"], timeout_ms=300),
}


async def ended_at(clock: ManualClock, call: Awaitable[Any], limit_ms: int) -> KafkaError:
    """Return the error of a call that is still waiting one millisecond before its
    deadline, and not after it.
    """
    task = asyncio.ensure_future(call)
    await clock.advance(limit_ms - 1)
    assert not task.done()
    await clock.advance(2)
    assert task.done()
    error = task.exception()
    assert isinstance(error, KafkaError)
    return error


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("fault", "stage"),
    [(Faults(connect_hangs=True), "connect"), (Faults(to_client=Way(silent=True)), "versions")],
    ids=["connect hangs", "accepts and stays silent"],
)
async def test_a_call_ends_at_its_own_deadline_while_a_broker_is_connected_to(
    client: AsyncClient,
    network: MemoryBackend,
    clock: ManualClock,
    name: str,
    fault: Faults,
    stage: str,
) -> None:
    if fault.to_client.silent:
        await serve(OTHER.host, OTHER.port, FirstOfTwo().serve, policy=ServeAll(), backend=network)
    network.faults[OTHER] = fault
    error = await ended_at(clock, CALLS[name](client), 300)
    assert isinstance(error, RequestTimedOut)
    assert (error.address, error.stage) == (str(OTHER), stage)
    assert f"no connection to broker 2 ({OTHER}, as its advertised.listeners says) before" in str(
        error
    )
    assert "This attempt sent nothing; what became of an earlier attempt" in str(error)
    assert error.__cause__ is None


async def test_the_error_of_the_connection_before_is_the_cause(
    client: AsyncClient, network: MemoryBackend, clock: ManualClock
) -> None:
    """Refused at once; then the next attempt hangs."""
    network.faults[OTHER] = Faults(refused=True)
    call = asyncio.ensure_future(client.commit_offsets("group", {TP: 5}))
    await clock.advance(10)
    network.faults[OTHER] = Faults(connect_hangs=True)
    error = await ended_at(clock, call, 290)
    assert isinstance(error, RequestTimedOut)
    assert isinstance(error.__cause__, NetworkError)
    assert "refused" in str(error.__cause__)
    assert str(error.__cause__) in str(error)
    assert error.__notes__ == [
        "committing offsets of group group: gave up after 2 attempts in 300 ms"
    ]


async def test_the_first_call_counts_the_start_of_its_client(
    network: MemoryBackend, clock: ManualClock
) -> None:
    network.faults[BROKER] = Faults(connect_hangs=True)
    client = AsyncClient(bootstrap_servers=str(BROKER), backend=network, clock=clock)
    error = await ended_at(clock, client.list_offsets({TP: LATEST}, timeout_ms=300), 300)
    assert isinstance(error, RequestTimedOut)
    assert f"{BROKER}: the connection was still being made" in str(error)
    await client.close()


async def test_an_opening_that_one_call_gives_up_goes_on_for_the_others(
    client: AsyncClient, network: MemoryBackend, clock: ManualClock
) -> None:
    server = await serve(
        OTHER.host, OTHER.port, FirstOfTwo().serve, policy=ServeAll(), backend=network
    )
    network.faults[OTHER] = Faults(to_client=Way(delay_ms=100))
    patient = asyncio.ensure_future(client.request(2, MetadataRequest(topics=[]), timeout_ms=1_000))
    await ended_at(clock, client.request(2, MetadataRequest(topics=[]), timeout_ms=50), 50)
    await clock.advance(600)
    assert (await patient).controller_id == 1
    await server.abort()


# ---- errors that several callers wait for --------------------------------------------------------


async def test_each_waiter_of_a_failed_refresh_gets_an_error_of_its_own(
    client: AsyncClient, network: MemoryBackend, clock: ManualClock
) -> None:
    assert client._cluster is not None
    cluster = client._cluster
    network.faults[BROKER] = network.faults[OTHER] = Faults(refused=True)
    for stream in network.streams:
        stream.cut()
    waiting = [asyncio.ensure_future(cluster.refresh(cluster.deadline())) for _ in range(3)]
    await clock.advance(250)
    first, second, third = (task.exception() for task in waiting)
    assert isinstance(first, BrokersUnreachable)
    assert isinstance(second, BrokersUnreachable)
    assert isinstance(third, BrokersUnreachable)
    assert len({id(first), id(second), id(third)}) == 3
    assert first.failures == second.failures
    assert str(first) == str(second) == str(third)
    first.add_note("only mine")
    assert not hasattr(second, "__notes__")


async def test_each_waiter_of_an_opening_gets_an_error_of_its_own(
    network: MemoryBackend, clock: ManualClock
) -> None:
    network.faults[OTHER] = Faults(unknown_name=True)
    pool = Pool(ConnectOptions(bootstrap_servers=str(OTHER)), backend=network, clock=clock)
    first, second = await asyncio.gather(
        *(pool.connection_to(OTHER) for _ in range(2)), return_exceptions=True
    )
    assert isinstance(first, NetworkError)
    assert isinstance(second, NetworkError)
    assert first is not second
    assert (first.address, first.stage, str(first)) == (second.address, second.stage, str(second))
    assert first.__cause__ is second.__cause__
    await pool.close()


def test_a_copy_of_an_error_has_notes_of_its_own() -> None:
    error = NetworkError("lost", address="a:1", stage="request")
    error.add_note("before")
    copied = own_copy(error)
    copied.add_note("later")
    assert (type(copied), copied.args, copied.address, copied.stage) == (
        NetworkError,
        ("lost",),
        "a:1",
        "request",
    )
    assert error.__notes__ == ["before"]
    assert copied.__notes__ == ["before", "later"]
    assert copied.__traceback__ is None
