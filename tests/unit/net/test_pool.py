"""The pool: sharing, backoff, losses, and what happens when somebody is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

import parley.net.pool
from parley.errors import BrokersUnreachable, ConfigError, NetworkError
from parley.messages import FetchRequest, MetadataRequest
from parley.net import (
    Address,
    BrokerConnection,
    ConnectOptions,
    Faults,
    ManualClock,
    MemoryBackend,
    Pool,
    Way,
    serve,
)
from parley.net.clock import settle
from parley.protocol import ServeAll

from .conftest import BROKER, Broker

NOWHERE = Address("nowhere", 1)


@pytest.fixture
async def pool(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> AsyncIterator[Pool]:
    made = Pool(options, backend=network, clock=clock, rng=lambda: 0.5)
    made.update_nodes({1: BROKER, 2: NOWHERE})
    yield made
    await made.close()


async def test_callers_share_one_connection_per_broker_and_lane(
    pool: Pool, network: MemoryBackend
) -> None:
    many = await asyncio.gather(*(pool.connection(1) for _ in range(10)))
    assert len({id(connection) for connection in many}) == 1
    assert await pool.any_connection() is many[0]
    assert await pool.connection_to(BROKER) is many[0]
    fetching = await pool.connection(1, lane="fetch")
    assert fetching is not many[0]
    assert set(pool.connections) == {many[0], fetching}
    assert len(network.streams) == 2


async def test_only_the_first_connection_to_an_address_is_probed(
    pool: Pool, broker: Broker
) -> None:
    await pool.connection(1)
    await pool.connection(1, lane="fetch")
    assert broker.keys() == [18, 16, 18]


async def test_a_broker_that_metadata_does_not_name(pool: Pool) -> None:
    with pytest.raises(NetworkError, match="broker 7 is not in the metadata") as caught:
        await pool.connection(7)
    assert caught.value.refresh_metadata


async def test_a_failure_is_reported_to_all_and_the_next_attempt_waits(
    pool: Pool, clock: ManualClock, network: MemoryBackend
) -> None:
    errors = await asyncio.gather(*(pool.connection(2) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(error, NetworkError) and error.stage == "connect" for error in errors)
    waiting = asyncio.create_task(pool.connection(2))
    await clock.advance(49)
    assert not waiting.done()
    await clock.advance(1)
    with pytest.raises(NetworkError):
        await waiting
    server = await serve(
        NOWHERE.host, NOWHERE.port, Broker().serve, policy=ServeAll(), backend=network
    )
    waiting = asyncio.create_task(pool.connection(2))
    await clock.advance(100)
    assert not (await waiting).is_closed
    await server.abort()


async def test_a_lost_connection_is_opened_again_after_a_pause(
    pool: Pool, clock: ManualClock, network: MemoryBackend
) -> None:
    first = await pool.connection(1)
    network.streams[0].cut()
    assert first.is_closed
    waiting = asyncio.create_task(pool.connection(1))
    await clock.advance(49)
    assert not waiting.done()
    await clock.advance(1)
    second = await waiting
    assert second is not first
    assert (await second.request(MetadataRequest(topics=[]))).version == 12


async def test_any_connection_tries_everything_and_names_every_failure(
    network: MemoryBackend, clock: ManualClock, options: ConnectOptions
) -> None:
    pool = Pool(
        replace(options, bootstrap_servers="a:1,b:2"), backend=network, clock=clock, rng=lambda: 0.5
    )
    network.faults[Address("a", 1)] = Faults(unknown_name=True)
    with pytest.raises(BrokersUnreachable) as caught:
        await pool.any_connection()
    stages = {address: error.stage for address, error in caught.value.failures.items()}  # type: ignore[attr-defined]
    assert stages == {"a:1": "name lookup", "b:2": "connect"}
    await pool.close()


async def test_any_connection_falls_back_to_bootstrap_servers(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    pool = Pool(options, backend=network, clock=clock, rng=lambda: 0.5)
    pool.update_nodes({5: NOWHERE})
    connection = await pool.any_connection()
    assert connection.address == BROKER
    await pool.close()


async def test_a_cancelled_caller_does_not_take_the_opening_from_the_others(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    network.faults[BROKER] = Faults(to_client=Way(delay_ms=20))
    pool = Pool(options, backend=network, clock=clock, rng=lambda: 0.5)
    first, second = (asyncio.create_task(pool.any_connection()) for _ in range(2))
    await clock.advance(5)
    first.cancel()
    await clock.advance(100)
    assert isinstance(await second, BrokerConnection)
    assert first.cancelled()
    assert len(network.streams) == 1
    closing = asyncio.create_task(pool.close())
    await clock.advance(100)
    await closing


async def test_closing_gives_up_what_is_being_opened(
    network: MemoryBackend, clock: ManualClock, broker: Broker, options: ConnectOptions
) -> None:
    network.faults[BROKER] = Faults(to_client=Way(silent=True))
    pool = Pool(options, backend=network, clock=clock, rng=lambda: 0.5)
    waiting = asyncio.create_task(pool.connection_to(BROKER))
    await clock.advance(5)
    await pool.close()
    await pool.close()
    with pytest.raises(NetworkError, match="closed"):
        await waiting
    with pytest.raises(NetworkError, match="closed"):
        await pool.connection_to(BROKER)
    await settle()
    assert all(stream.is_over for stream in network.streams)
    assert clock.waiting == 0


async def test_connections_to_brokers_that_are_gone_end_when_idle(
    pool: Pool, broker: Broker, network: MemoryBackend, clock: ManualClock
) -> None:
    other = Address("other", 9)
    server = await serve(other.host, other.port, broker.serve, policy=ServeAll(), backend=network)
    pool.update_nodes({1: BROKER, 3: other})
    leaving = await pool.connection(3)
    broker.hold.add(1)
    future = leaving.submit(FetchRequest())
    pool.update_nodes({1: BROKER})
    await settle()
    assert not leaving.is_closed
    await clock.advance(500)
    with pytest.raises(NetworkError):
        await future
    pool.update_nodes({1: BROKER})
    assert leaving not in pool.connections
    await server.abort()


async def test_a_broker_that_moves_is_reached_at_its_new_address(
    pool: Pool, broker: Broker, network: MemoryBackend
) -> None:
    old = await pool.connection(1)
    moved = Address("moved", 9)
    server = await serve(moved.host, moved.port, broker.serve, policy=ServeAll(), backend=network)
    pool.update_nodes({1: moved})
    assert (await pool.connection(1)).address == moved
    assert not old.is_closed  # it is a bootstrap server still
    await server.abort()


async def test_what_fails_before_an_opening_begins_is_over_with_it(
    pool: Pool, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: the next caller opens again, after the pause of any failure."""

    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("anything")

    with monkeypatch.context() as patched:
        patched.setattr(parley.net.pool, "Opening", failing)
        for _ in range(2):
            waiting = asyncio.create_task(pool.connection(1))
            await clock.advance(1_000)
            with pytest.raises(RuntimeError, match="anything"):
                await waiting
    waiting = asyncio.create_task(pool.connection(1))
    await clock.advance(1_000)
    assert not (await waiting).is_closed


class LeavesTlsOut:
    """A network in memory that is connected to without the TLS that is asked for."""

    def __init__(self, network: MemoryBackend) -> None:
        self._network = network
        self.contexts: list[object] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    async def connect(
        self, address: Any, place: Any, receiver: Any, tls: object, entered: Any
    ) -> Any:
        self.contexts.append(tls)
        return await self._network.connect(address, place, receiver, None, entered)


@pytest.fixture
def without_tls(network: MemoryBackend) -> LeavesTlsOut:
    return LeavesTlsOut(network)


@pytest.fixture
async def of_files(
    without_tls: LeavesTlsOut,
    clock: ManualClock,
    broker: Broker,
    options: ConnectOptions,
    tmp_path: Path,
) -> AsyncIterator[tuple[Pool, Path, Path]]:
    """A pool whose certificate and key are files, and these files, empty."""
    certificate, key = tmp_path / "own.pem", tmp_path / "own.key"
    certificate.touch()
    key.touch()
    files = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    secured = replace(options, security_protocol="SSL", **files)  # type: ignore[arg-type]
    made = Pool(secured, backend=without_tls, clock=clock, rng=lambda: 0.5)
    made.update_nodes({1: BROKER})
    yield made, certificate, key
    await made.close()


async def test_files_that_are_no_certificates_yet_are_read_again(
    of_files: tuple[Pool, Path, Path], clock: ManualClock
) -> None:
    pool, certificate, key = of_files
    for _ in range(2):
        waiting = asyncio.create_task(pool.connection(1))
        await clock.advance(1_000)
        with pytest.raises(ConfigError, match=r"own\.pem"):
            await waiting
    waiting = asyncio.create_task(pool.any_connection())
    await clock.advance(1_000)
    with pytest.raises(ConfigError, match=r"own\.pem"):  # not that no broker can be reached
        await waiting
    own = trustme.CA().issue_cert("client")
    own.cert_chain_pems[0].write_to_path(certificate)
    own.private_key_pem.write_to_path(key)
    waiting = asyncio.create_task(pool.connection(1))
    await clock.advance(1_000)
    assert not (await waiting).is_closed


async def test_a_certificate_is_replaced_under_way(
    of_files: tuple[Pool, Path, Path],
    clock: ManualClock,
    network: MemoryBackend,
    without_tls: LeavesTlsOut,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Connections go on with the last good one; each new trouble is said once, with its files."""
    pool, certificate, key = of_files
    authority = trustme.CA()

    async def reconnect() -> None:
        if network.streams:
            network.streams[-1].cut()
        waiting = asyncio.create_task(pool.connection(1))
        await clock.advance(1_000)
        assert not (await waiting).is_closed

    def warnings() -> list[str]:
        return [one.message for one in caplog.records if one.levelno == logging.WARNING]

    for said in (2, 4):
        own = authority.issue_cert("client")
        own.cert_chain_pems[0].write_to_path(certificate)
        own.private_key_pem.write_to_path(key)
        await reconnect()
        certificate.unlink()
        await reconnect()
        await reconnect()
        authority.issue_cert("client").cert_chain_pems[0].write_to_path(certificate)
        await reconnect()
        await reconnect()
        assert len(warnings()) == said, warnings()
    assert all(f'"{certificate}"' in text and f'"{key}"' in text for text in warnings())
    assert "MISMATCH" in warnings()[-1].upper()
    first, second = set(without_tls.contexts[:5]), set(without_tls.contexts[5:])
    assert len(first) == len(second) == 1
    assert first != second
