"""The connections of one client: opened when wanted, shared, opened again after a loss.

What to do is decided in `pool_plan.py`; this file does it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

from parley.errors import (
    AuthenticationError,
    BrokersUnreachable,
    ConfigError,
    KafkaError,
    NetworkError,
)
from parley.net.address import Address
from parley.net.clock import Clock, LoopClock
from parley.net.connection import BrokerConnection
from parley.net.failures import CONNECT
from parley.net.opening import Opening
from parley.net.options import ConnectOptions
from parley.net.pool_plan import Lane, Open, PoolPlan, Use, Wait
from parley.net.probe_outcomes import ProbeOutcomes
from parley.net.shared import outcome
from parley.net.stream import Backend
from parley.net.tls import ClientTls

MAIN_LANE = "main"


class Pool:
    """Connections by broker and lane. Belongs to one event loop."""

    def __init__(
        self,
        options: ConnectOptions,
        *,
        backend: Backend | None = None,
        clock: Clock | None = None,
        rng: Callable[[], float] | None = None,
    ) -> None:
        self._options = options
        self._backend = backend
        self._tls = ClientTls(options)
        self._clock = clock if clock is not None else LoopClock()
        self.probe_outcomes = ProbeOutcomes(options.probe_ttl_ms)
        self._plan: PoolPlan[BrokerConnection] = PoolPlan(
            options.reconnect_backoff_ms,
            options.reconnect_backoff_max_ms,
            options.connections_max_idle_ms,
            rng if rng is not None else random.Random().random,
        )
        self._nodes: dict[int, Address] = {}
        self._opening: dict[Lane, asyncio.Task[BrokerConnection]] = {}
        self._stages: dict[Lane, Opening] = {}
        # of the last opening, where that failed; newest last
        self._failures: dict[Address, KafkaError] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def connections(self) -> tuple[BrokerConnection, ...]:
        """The open connections."""
        return tuple(
            connection for connection in self._plan.connections() if not connection.is_closed
        )

    @property
    def opening(self) -> tuple[tuple[Address, str], ...]:
        """The addresses that are being connected to, each with the stage that this has come to."""
        return tuple((key.address, opening.stage) for key, opening in self._stages.items())

    def address(self, node_id: int | None) -> Address | None:
        """Return where metadata says that a broker is, None where it does not say."""
        return None if node_id is None else self._nodes.get(node_id)

    def failure(self, address: Address | None) -> KafkaError | None:
        """Return why the last connection to an address (None: the last of all) could not
        be opened, if it could not.
        """
        if address is None:
            return next(reversed(self._failures.values()), None)
        return self._failures.get(address)

    def update_nodes(self, nodes: Mapping[int, Address]) -> None:
        """Take the brokers of metadata. Connections to addresses that are gone end when idle."""
        self._nodes = dict(nodes)
        self._sweep()

    async def connection(self, node_id: int, lane: str = MAIN_LANE) -> BrokerConnection:
        """Return a negotiated connection to a broker.

        Opens one where there is none, after the backoff that earlier failures ask for. Raises
        NetworkError for a broker that metadata does not name, and what `open_connection` raises.
        """
        address = self._nodes.get(node_id)
        if address is None:
            raise NetworkError(
                f"broker {node_id} is not in the metadata; refresh it", stage=CONNECT
            )
        return await self.connection_to(address, lane)

    async def connection_to(self, address: Address, lane: str = MAIN_LANE) -> BrokerConnection:
        """Return a negotiated connection to an address; see `connection`."""
        key = Lane(address, lane)
        while True:
            if self._is_closed:
                raise self._closed_error(address)
            step = self._plan.step(key, self._clock.now_ms())
            if isinstance(step, Use):
                return step.connection
            if isinstance(step, Wait):
                await self._clock.sleep_ms(step.until_ms - self._clock.now_ms())
                continue
            if isinstance(step, Open):
                self._start_opening(key)
            connection = await self._opened(key)
            if not connection.is_closed:
                return connection

    async def any_connection(self, lane: str = MAIN_LANE) -> BrokerConnection:
        """Return a connection to any broker: an open one, a known one, or a bootstrap one.

        Raises BrokersUnreachable, with the error of each address, when none could be reached,
        AuthenticationError as soon as one of them refuses the login, ConfigError where no
        connection can be made with these options.
        """
        servers = self._options.servers
        known = list(dict.fromkeys(self._nodes.values()))
        connection = self._plan.least_busy([*known, *servers], lane)
        if connection is not None:
            return connection
        failures: dict[str, Exception] = {}
        for address in dict.fromkeys(
            [*self._plan.by_promise(known, lane), *self._plan.by_promise(servers, lane)]
        ):
            try:
                return await self.connection_to(address, lane)
            except (AuthenticationError, ConfigError):
                raise  # at the other addresses it would be the same
            except KafkaError as error:
                failures[str(address)] = error
        raise BrokersUnreachable(failures)

    async def close(self) -> None:
        """Close every connection and give up those that are being opened. Idempotent."""
        self._is_closed = True
        tasks = list(self._opening.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(
            *(connection.close() for connection in self._plan.connections()), *self._closing
        )

    async def _opened(self, key: Lane) -> BrokerConnection:
        task = self._opening[key]
        try:
            return await outcome(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise self._closed_error(key.address) from None
            raise

    @staticmethod
    def _closed_error(address: Address) -> NetworkError:
        return NetworkError(
            "the connections of this client are closed", address=str(address), stage=CONNECT
        )

    def _start_opening(self, key: Lane) -> None:
        # The task is there first: it ends what the plan has marked, whatever opening meets.
        task = asyncio.get_running_loop().create_task(self._open(key))
        self._opening[key] = task
        task.add_done_callback(lambda done: self._opening_done(key, done))

    async def _open(self, key: Lane) -> BrokerConnection:
        opening = self._stages[key] = Opening(
            key.address,
            self._options,
            backend=self._backend,
            clock=self._clock,
            probe_outcomes=self.probe_outcomes,
            tls=self._tls,
        )
        return await opening.open()

    def _opening_done(self, key: Lane, task: asyncio.Task[BrokerConnection]) -> None:
        del self._opening[key]
        self._stages.pop(key, None)
        self._failures.pop(key.address, None)
        if task.cancelled():
            self._plan.given_up(key)
        elif (error := task.exception()) is not None:
            self._plan.failed(key, self._clock.now_ms())
            if isinstance(error, KafkaError):
                self._failures[key.address] = error
        else:
            self._plan.opened(key, task.result())
            self._sweep()

    def _sweep(self) -> None:
        wanted = frozenset((*self._nodes.values(), *self._options.servers))
        self._failures = {
            address: error for address, error in self._failures.items() if address in wanted
        }
        for connection in self._plan.sweep(wanted, self._clock.now_ms()):
            task = asyncio.get_running_loop().create_task(connection.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
