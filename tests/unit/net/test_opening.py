"""Opening: every stage that can fail, what is remembered, what is tried next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from parley.errors import ConfigError, NetworkError, RemoteProtocolError, RequestTimedOut
from parley.messages import ApiVersionsResponse, MetadataRequest
from parley.net import (
    Address,
    ConnectOptions,
    Faults,
    ManualClock,
    MemoryBackend,
    MemoryStream,
    ProbeOutcome,
    ProbeOutcomes,
    ServerConnection,
    Way,
    open_connection,
    serve,
)
from parley.protocol import Close, Decision, Respond, Serve, ServeAll, Swallow
from parley.types import Node

from .conftest import BROKER, Broker


async def failure(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions, **injected: Any
) -> Exception:
    """Open without success, letting as much time pass as it takes; return the error."""
    task = asyncio.create_task(
        open_connection(BROKER, options, backend=network, clock=clock, **injected)
    )
    await clock.advance(10_000)
    error = task.exception()
    assert isinstance(error, Exception)
    assert all(stream.is_over for stream in network.streams)
    assert clock.waiting == 0
    return error


@pytest.mark.parametrize(
    ("faults", "stage", "words"),
    [
        (Faults(unknown_name=True), "name lookup", "cannot be resolved"),
        (Faults(refused=True), "connect", "refused"),
        (
            Faults(connect_hangs=True),
            "connect",
            "socket_connection_setup_timeout_ms=2000, at the stage of connect",
        ),
        (Faults(to_client=Way(silent=True)), "versions", "older than 0.10"),
        (Faults(to_broker=Way(silent=True)), "versions", "TLS or SASL"),
        (Faults(to_client=Way(cut_after_bytes=0)), "versions", "TLS or SASL"),
        (Faults(to_client=Way(cut_after_bytes=9)), "versions", "inside a frame, after 9 of"),
    ],
)
async def test_each_stage_is_named(
    network: MemoryBackend,
    clock: ManualClock,
    broker: Broker,
    options: ConnectOptions,
    faults: Faults,
    stage: str,
    words: str,
) -> None:
    network.faults[BROKER] = faults
    error = await failure(network, clock, options)
    assert isinstance(error, NetworkError)
    assert (error.stage, error.address) == (stage, "broker:9092")
    with pytest.raises(NetworkError, match=words):
        raise error
    assert str(error).startswith("broker:9092: ")


async def test_no_broker_listens(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    error = await failure(network, clock, options)
    assert isinstance(error, NetworkError)
    assert "no broker listens there" in str(error)


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS alert"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP answer"),
    ],
)
async def test_a_port_of_another_protocol(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions, greeting: bytes, words: str
) -> None:
    network.listeners[BROKER] = lambda stream: Shouting(stream, greeting)
    error = await failure(network, clock, options)
    assert isinstance(error, RemoteProtocolError)
    assert str(error).startswith("broker:9092: the peer sent a")
    assert words in str(error)


class Shouting:
    """A server that answers every byte with the same greeting."""

    def __init__(self, stream: Any, greeting: bytes) -> None:
        self._stream, self._greeting = stream, greeting
        self._buffer = bytearray(1000)

    def get_buffer(self, size_hint_bytes: int = -1) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, received_bytes: int) -> None:
        self._stream.write([self._greeting])

    def connection_lost(self, cause: Exception | None) -> None:
        pass


async def test_v04_a_broker_that_closes_on_new_versions_is_asked_once_more_with_v0(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    seen: list[tuple[int, int]] = []

    class OldProxy(ServeAll):
        def decide(self, api_key: int, api_version: int) -> Decision:
            seen.append((api_key, api_version))
            return Serve() if (api_key, api_version) == (18, 0) else Close("unknown version")

    broker = Broker()
    server = await serve(BROKER.host, BROKER.port, broker.serve, policy=OldProxy(), backend=network)
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    assert seen == [(18, 4), (18, 0)]
    assert connection.inferred is False
    await connection.close()
    await server.close()


async def test_v04_it_is_asked_once_more_and_not_again(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    class Refusing(ServeAll):
        def decide(self, api_key: int, api_version: int) -> Decision:
            return Close("everything")

    server = await serve(
        BROKER.host, BROKER.port, Broker().serve, policy=Refusing(), backend=network
    )
    error = await failure(network, clock, options)
    assert isinstance(error, NetworkError)
    assert "TLS or SASL" in str(error)
    assert "older than 0.10" in str(error)
    assert len(network.streams) == 2
    await server.close()


class Old(ServeAll):
    """0.9: unknown keys are swallowed."""

    def decide(self, api_key: int, api_version: int) -> Decision:
        return Serve() if api_key <= 16 else Swallow()


async def test_v05_an_old_broker_is_recognised_at_once_and_remembered(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    broker, probe_outcomes = Broker(), ProbeOutcomes(ttl_ms=1_000)
    server = await serve(BROKER.host, BROKER.port, broker.serve, policy=Old(), backend=network)
    connection = await open_connection(
        BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
    )
    assert connection.inferred
    assert clock.now_ms() == 1_000  # no deadline had to pass
    assert connection.versions.choose(3) == 0
    await connection.close()
    assert probe_outcomes.get(BROKER, clock.now_ms()) is ProbeOutcome.SILENT

    broker.seen.clear()
    again = await open_connection(
        BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
    )
    await again.request(MetadataRequest(topics=[]))
    assert again.inferred
    assert broker.keys() == [3]  # it was not probed a second time
    await again.close()

    await clock.advance(1_000)
    broker.seen.clear()
    upgraded = await open_connection(
        BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
    )
    assert broker.keys() == [16]  # the outcome has expired: asked again
    await upgraded.close()
    await server.close()


async def test_v05_without_the_probe_silence_ends_with_advice(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    server = await serve(BROKER.host, BROKER.port, Broker().serve, policy=Old(), backend=network)
    error = await failure(network, clock, replace(options, probe_old_brokers=False))
    assert isinstance(error, RequestTimedOut)
    assert "pin its release" in str(error)
    assert error.stage == "versions"
    await server.close()


async def test_a_newer_broker_is_probed_once_only(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    probe_outcomes = ProbeOutcomes()
    for expected in ([18, 16], [18], [18]):
        broker.seen.clear()
        connection = await open_connection(
            BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
        )
        await connection.request(MetadataRequest(topics=[]))
        await connection.close()
        assert broker.keys() == [*expected, 3]


async def test_v06_versions_are_read_again_after_a_reconnect(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    probe_outcomes = ProbeOutcomes()
    for newest in (12, 4, 9):  # upgraded and downgraded under a living client
        broker.ranges[3] = (0, newest)
        connection = await open_connection(
            BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
        )
        assert (await connection.request(MetadataRequest(topics=[]))).version == newest
        await connection.close()


async def test_v06_an_old_broker_that_was_upgraded_is_asked_at_the_reconnect(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    """What was remembered of the old one goes with its connection, long before it would expire."""
    probe_outcomes, broker = ProbeOutcomes(), Broker()
    server = await serve(BROKER.host, BROKER.port, broker.serve, policy=Old(), backend=network)
    connection = await open_connection(
        BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
    )
    assert connection.inferred
    await server.abort()
    await connection.wait_closed()
    server = await serve(BROKER.host, BROKER.port, broker.serve, policy=ServeAll(), backend=network)
    again = await open_connection(
        BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
    )
    assert not again.inferred
    assert again.versions.choose(3) == 12
    await again.close()
    await server.close()


async def test_v06_a_broker_that_was_rolled_back_to_0_9_is_found_out_at_the_second_attempt(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    probe_outcomes = ProbeOutcomes()
    probe_outcomes.put(BROKER, ProbeOutcome.ANSWERS, clock.now_ms())
    server = await serve(BROKER.host, BROKER.port, Broker().serve, policy=Old(), backend=network)
    error = await failure(network, clock, options, probe_outcomes=probe_outcomes)
    assert isinstance(error, RequestTimedOut)
    again = await open_connection(
        BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
    )
    assert again.inferred
    await again.close()
    await server.close()


async def test_a_broker_that_closes_on_the_probe_is_not_probed_again(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    class NoGroups(ServeAll):
        def decide(self, api_key: int, api_version: int) -> Decision:
            return Close("no groups here") if api_key == 16 else Serve()

    assert broker.server is not None
    await broker.server.close()
    server = await serve(BROKER.host, BROKER.port, broker.serve, policy=NoGroups(), backend=network)
    probe_outcomes = ProbeOutcomes()
    first = await open_connection(
        BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
    )
    await first.wait_closed()
    second = await open_connection(
        BROKER, options, backend=network, clock=clock, probe_outcomes=probe_outcomes
    )
    assert (await second.request(MetadataRequest(topics=[]))).version == 12
    await second.close()
    await server.close()


async def test_a_pinned_release_is_not_asked(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    connection = await open_connection(
        BROKER, replace(options, release="0.10.0"), backend=network, clock=clock
    )
    reply = await connection.request(MetadataRequest(topics=[]))
    assert (reply.version, connection.inferred, broker.keys()) == (1, True, [3])
    await connection.close()
    with pytest.raises(ConfigError, match="release"):
        await open_connection(
            BROKER, replace(options, release="1.2.3.4"), backend=network, clock=clock
        )


async def test_error_35_costs_one_more_round_trip_and_no_connection(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    offered = ApiVersionsResponse(
        error_code=35,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=3)],
    )

    class Release24(ServeAll):
        def decide(self, api_key: int, api_version: int) -> Decision:
            return Respond(offered, 0) if api_key == 18 and api_version > 3 else Serve()

    broker = Broker()
    server = await serve(
        BROKER.host, BROKER.port, broker.serve, policy=Release24(), backend=network
    )
    connection = await open_connection(BROKER, options, backend=network, clock=clock)
    assert [(r.api_key, r.api_version) for r in broker.seen] == [(16, 0), (18, 3)]
    assert len(network.streams) == 1
    assert connection.inferred is False
    await connection.close()
    await server.close()


class Places(MemoryBackend):
    """A name that stands for several places; only the listening ones answer."""

    def __init__(self, clock: ManualClock, places: Sequence[Address]) -> None:
        super().__init__(clock)
        self.places = places
        self.tried: list[Address] = []

    async def lookup(self, address: Address) -> Sequence[Any]:
        return self.places

    async def connect(self, address: Address, place: Any, *injected: Any) -> MemoryStream:
        self.tried.append(place)
        return await super().connect(place, place, *injected)


async def test_every_place_of_a_name_is_tried(clock: ManualClock, options: ConnectOptions) -> None:
    places = [Address("refused", 1), Address("hangs", 2), Address("good", 3)]
    network = Places(clock, places)
    network.faults[places[1]] = Faults(connect_hangs=True)
    server = await serve("good", 3, Broker().serve, policy=ServeAll(), backend=network)
    task = asyncio.create_task(open_connection(BROKER, options, backend=network, clock=clock))
    await clock.advance(1_000)  # half of what was left went to the place that hangs
    connection = await task
    assert network.tried == places
    await connection.close()
    await server.close()


async def test_a_broker_that_fails_after_connecting_is_not_tried_elsewhere(
    clock: ManualClock, options: ConnectOptions
) -> None:
    places = [Address("bad", 1), Address("good", 2)]
    network = Places(clock, places)

    async def hang(connection: ServerConnection) -> None:
        await connection.wait_closed()

    server = await serve("bad", 1, hang, policy=ServeAll(), backend=network)
    task = asyncio.create_task(open_connection(BROKER, options, backend=network, clock=clock))
    await clock.advance(10_000)
    error = task.exception()
    assert isinstance(error, RequestTimedOut)
    assert error.stage == "versions"
    assert network.tried == places[:1]
    await server.abort()


@pytest.mark.parametrize("port", [0, -1, 65536, 110535, 2**31 - 1])
async def test_a_port_that_cannot_be_is_not_cut_to_another(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions, port: int
) -> None:
    """Brokers may advertise any int32; a socket call would take 110535 for port 44999."""
    with pytest.raises(
        NetworkError, match=rf"broker:{port}: the port is {port}, not one from 1 to 65535"
    ) as caught:
        await open_connection(Address("broker", port), options, backend=network, clock=clock)
    assert caught.value.retriable
    assert not network.streams


@pytest.mark.parametrize(
    "host", ["", "a\0b", "a b", "\x1b[2J", "a\nERROR forged line", "\u202eevil", "x" * 5_000]
)
async def test_a_host_that_cannot_be_is_shown_harmlessly(
    network: MemoryBackend,
    clock: ManualClock,
    options: ConnectOptions,
    caplog: pytest.LogCaptureFixture,
    host: str,
) -> None:
    caplog.set_level("DEBUG")
    with pytest.raises(NetworkError, match="the host name is") as caught:
        await open_connection(Address(host, 9092), options, backend=network, clock=clock)
    for text in (
        str(caught.value),
        caplog.text,
        str(Address(host, 1)),
        Node(1, host, 9092).address,
    ):
        assert text.isprintable() or text == ""
        assert len(text) < 1_000
