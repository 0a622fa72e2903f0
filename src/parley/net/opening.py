"""Opening a connection: name lookup, connect, TLS, versions, login, all within one deadline.

Each failure names its address and stage. What is tried, in order:
1. every place that the name stands for, until one connects;
2. ApiVersions, newest version first, with the canary for old brokers on the first connection to a
   plain or TLS address (see protocol/negotiation.py);
3. where the broker closed the connection instead of answering, once more with ApiVersions v0, since
   some proxies close on versions that they do not know (V4).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata

from parley.errors import NetworkError, RequestTimedOut
from parley.net.address import Address, parse_address
from parley.net.asyncio_backend import AsyncioBackend
from parley.net.clock import Clock, Deadline, LoopClock
from parley.net.connection import BrokerConnection
from parley.net.failures import CONNECT, NAME_LOOKUP, SILENCE_HINT, TOKEN, VERSIONS
from parley.net.login import awaited_token, make_mechanism, wants_token
from parley.net.options import ConnectOptions
from parley.net.probe_outcomes import ProbeOutcome, ProbeOutcomes
from parley.net.stream import Backend, Place
from parley.net.tls import ClientTls
from parley.protocol import ClientSettings
from parley.schema import ApiKey
from parley.versions import VersionRange

_log = logging.getLogger("parley.net")

OLD_BROKER_RELEASE = "0.9.0.1"
"""The release whose table stands for every broker that does not answer ApiVersions."""


@cache
def software_version() -> str:
    """Return the version that brokers are sent (KIP-511): that of the installed distribution."""
    try:
        return metadata.version("kafka-parley")
    except metadata.PackageNotFoundError:
        return "0"


async def open_connection(
    address: Address | str,
    options: ConnectOptions | None = None,
    *,
    backend: Backend | None = None,
    clock: Clock | None = None,
    probe_outcomes: ProbeOutcomes | None = None,
) -> BrokerConnection:
    """Return a negotiated connection to a broker.

    Raises NetworkError (its `stage` is "name lookup", "token", "connect", "tls",
    "versions" or "authentication"), RemoteProtocolError when something else than Kafka answers,
    UnsupportedVersionError or BrokerError when negotiation fails, AuthenticationError when the
    login is refused, ConfigError for options that cannot be used. Nothing stays open then, nor when
    the caller is cancelled.
    """
    target = parse_address(address) if isinstance(address, str) else address
    return await Opening(
        target, options, backend=backend, clock=clock, probe_outcomes=probe_outcomes
    ).open()


class Opening:
    """One connection on its way: `open` makes it, `stage` says meanwhile how far it has come."""

    def __init__(
        self,
        address: Address,
        options: ConnectOptions | None = None,
        *,
        backend: Backend | None = None,
        clock: Clock | None = None,
        probe_outcomes: ProbeOutcomes | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        options = options if options is not None else ConnectOptions()
        clock = clock if clock is not None else LoopClock()
        if backend is None:
            backend = AsyncioBackend(
                receive_buffer_bytes=options.receive_buffer_bytes,
                send_buffer_bytes=options.send_buffer_bytes,
            )
        self._address = address
        self._options = options
        self._backend = backend
        self._clock = clock
        self._probe_outcomes = probe_outcomes if probe_outcomes is not None else ProbeOutcomes()
        self._connection: BrokerConnection | None = None
        self._deadline_ms = clock.now_ms() + options.socket_connection_setup_timeout_ms
        self._stage = NAME_LOOKUP  # how far it has come, for the error of a deadline that passes
        self._tls = tls if tls is not None else ClientTls(options)
        self._context: ssl.SSLContext | None = None

    @property
    def stage(self) -> str:
        """How far it has come: "name lookup", "token", "connect", "tls", "versions" or
        "authentication".
        """
        if self._stage == VERSIONS and self._connection is not None:
            return self._connection.stage
        return self._stage

    async def open(self) -> BrokerConnection:
        """Return the connection; see `open_connection`. Call it once."""
        if self._address.fault is not None:
            raise NetworkError(
                f"{self._address}: {self._address.fault}; set advertised.listeners of the "
                "broker that names itself so",
                address=str(self._address),
                stage=NAME_LOOKUP,
            )
        try:
            async with Deadline(self._clock, self._deadline_ms):
                connection = await self._open()
        except TimeoutError as error:
            self._probe_outcomes.forget(self._address)  # silent now: 0.9 may have come back there
            limit_ms = self._options.socket_connection_setup_timeout_ms
            raise RequestTimedOut(
                f"{self._address}: not connected within "
                f"socket_connection_setup_timeout_ms={limit_ms}, at the stage "
                f"of {self._stage}{self._hint()}",
                address=str(self._address),
                stage=self._stage,
            ) from error
        except Exception:
            self._forget_old()
            raise
        if self._options.release is None:
            outcome = ProbeOutcome.SILENT if connection.inferred else ProbeOutcome.ANSWERS
            self._probe_outcomes.put(self._address, outcome, self._clock.now_ms())
            connection.closed.add_done_callback(lambda _: self._forget_after(connection))
        return connection

    def _hint(self) -> str:
        if self._stage == TOKEN:
            return f": {awaited_token(self._options)}"
        return f": {SILENCE_HINT}" if self._stage == VERSIONS else ""

    def _forget_after(self, connection: BrokerConnection) -> None:
        if connection.error is not None:
            self._forget_old()

    def _forget_old(self) -> None:
        """Forget that the broker was an old one, after a failure: it may have been upgraded (V6).

        That it answers ApiVersions is kept: behind some addresses it is the probe that ends
        connections.
        """
        if self._probe_outcomes.get(self._address, self._clock.now_ms()) is ProbeOutcome.SILENT:
            self._probe_outcomes.forget(self._address)

    async def _open(self) -> BrokerConnection:
        settings = self._settings()
        self._context = self._tls.context()
        places = await self._backend.lookup(self._address)
        try:
            return await self._open_one_of(places, settings)
        except NetworkError as error:
            if (
                error.stage != VERSIONS
                or settings.pinned_release is not None
                or self._options.uses_sasl
            ):
                raise
            _log.debug("%s closed the connection on ApiVersions; trying its v0", self._address)
        return await self._open_one_of(places, _asking_v0_only(settings))

    async def _open_one_of(
        self, places: Sequence[Place], settings: ClientSettings
    ) -> BrokerConnection:
        for index, place in enumerate(places[:-1]):
            left_ms = self._deadline_ms - self._clock.now_ms()
            share_ms = self._clock.now_ms() + left_ms // (len(places) - index)
            try:
                async with Deadline(self._clock, share_ms):
                    return await self._open_at(place, settings)
            except (NetworkError, TimeoutError) as error:
                if self._stage != CONNECT:
                    raise
                _log.debug(
                    "%s: %s did not connect (%s); trying the next one", self._address, place, error
                )
        return await self._open_at(places[-1], settings)

    async def _open_at(self, place: Place, settings: ClientSettings) -> BrokerConnection:
        if wants_token(self._options):
            self._enter(TOKEN)
        mechanism = await make_mechanism(self._options)
        connection = BrokerConnection(
            self._address, self._options, settings, self._clock, mechanism
        )
        self._connection = connection
        try:
            stream = await self._backend.connect(
                self._address, place, connection, self._context, self._enter
            )
            self._enter(VERSIONS)
            await connection.negotiate(stream, self._deadline_ms - self._clock.now_ms())
        except BaseException:
            if self._stage == VERSIONS:
                self._enter(connection.stage)
            connection.abort()
            raise
        return connection

    def _enter(self, stage: str) -> None:
        self._stage = stage

    def _settings(self) -> ClientSettings:
        options = self._options
        outcome = self._probe_outcomes.get(self._address, self._clock.now_ms())
        pinned = options.release
        if pinned is None and outcome is ProbeOutcome.SILENT:
            pinned = OLD_BROKER_RELEASE
        return ClientSettings(
            client_id=options.client_id,
            software_version=software_version(),
            max_frame_bytes=options.max_frame_bytes,
            pinned_release=pinned,
            probe_old_brokers=options.probe_old_brokers
            and outcome is None
            and not options.uses_sasl,
            version_limits=options.version_limits,
            must_not_use=options.must_not_use,
            broker=str(self._address),
        )


def _asking_v0_only(settings: ClientSettings) -> ClientSettings:
    limits = {**settings.version_limits, ApiKey.API_VERSIONS: VersionRange(0, 0)}
    return replace(settings, version_limits=limits, probe_old_brokers=False)
