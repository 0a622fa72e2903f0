"""The faults of a cluster and what its clients did: errors, cuts, delays on request; the journal;
clock and seed.

`AsyncLocalCluster` has these methods, as it has those of `scenes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

from parley.devcluster.faults.faults import (
    EVERY_TIME,
    Fault,
    Faults,
    Kind,
    Target,
    api_number,
    error_number,
)
from parley.devcluster.faults.requests import JournalEntry, Requests, VersionsUsed
from parley.devcluster.state.cluster_state import ClusterState
from parley.errors import ConfigError
from parley.net import AdvancingClock, Clock, ManualClock

MOST_MS = 100 * 365 * 24 * 3_600_000


class On(TypedDict, total=False):
    """Which requests a fault acts on, besides their API: those of all that is given.

    With `probability` only on that share of them, chosen by the cluster's random numbers.
    """

    broker: int | None
    client_id: str | None
    topic: str | None
    partition: int | None
    probability: float


class FaultCalls:
    """Faults, journal and clock of a cluster. A part of `AsyncLocalCluster`.

    Every fault acts on the next `times` requests that fit: of an API (by Kafka's name or key, None:
    any), and `On` more where it is given.
    """

    _faults: Faults
    _requests: Requests
    _clock: Clock

    if TYPE_CHECKING:

        @property
        def state(self) -> ClusterState: ...

    # -- faults --------------------------------------------------------------------------------

    def fail(
        self,
        api: str | int | None,
        error: str | int,
        *,
        times: int = 1,
        executed: bool = False,
        **on: Unpack[On],
    ) -> None:
        """Answer the next `times` requests (-1: every one) of an API with an error.

        With a topic or partition only those fail, where the answer has a place for it. The brokers
        do not act on what fails, unless `executed`. `error` is Kafka's name or code. Raises
        ConfigError.
        """
        self._faults.add(
            Fault(
                Kind.ERROR,
                Target(api=_key(api), **on),
                times,
                error=error_number(error),
                executed=executed,
            )
        )

    def cut(
        self,
        api: str | int | None = None,
        *,
        times: int = 1,
        executed: bool = False,
        after_bytes: int | None = None,
        **on: Unpack[On],
    ) -> None:
        """End the connection of the next `times` requests, by a reset; with `executed` only their
        answers are lost.

        `after_bytes`: the answer's first bytes (size in front included) still come, then the
        connection is closed.
        """
        self._faults.add(
            Fault(
                Kind.CUT,
                Target(api=_key(api), **on),
                times,
                executed=executed,
                after_bytes=after_bytes,
            )
        )

    def delay(
        self,
        api: str | int | None,
        delay_ms: int,
        *,
        times: int = EVERY_TIME,
        executed: bool = False,
        **on: Unpack[On],
    ) -> None:
        """Let a pause of the cluster's clock go before requests of an API are acted on, or
        with `executed` answered.
        """
        self._faults.add(
            Fault(
                Kind.DELAY, Target(api=_key(api), **on), times, delay_ms=delay_ms, executed=executed
            )
        )

    def drop(
        self,
        api: str | int | None = None,
        *,
        times: int = 1,
        executed: bool = False,
        **on: Unpack[On],
    ) -> None:
        """Never answer the next `times` requests; what comes behind them on the same
        connection waits forever too.
        """
        self._faults.add(Fault(Kind.DROP, Target(api=_key(api), **on), times, executed=executed))

    def reorder(self, api: str | int | None = None, *, times: int = 1, **on: Unpack[On]) -> None:
        """Hold the answers to the next `times` requests back until their
        connection's next one is answered.
        """
        self._faults.add(Fault(Kind.REORDER, Target(api=_key(api), **on), times))

    def corrupt(
        self,
        api: str | int | None = None,
        *,
        times: int = 1,
        at_byte: int | None = None,
        **on: Unpack[On],
    ) -> None:
        """Turn one byte of the next `times` answers over: a random one behind the size, or byte
        `at_byte`.

        Bytes 0 to 3 are the size.
        """
        self._faults.add(Fault(Kind.CORRUPT, Target(api=_key(api), **on), times, at_byte=at_byte))

    def clear_faults(self) -> None:
        """Let nothing more go wrong."""
        self._faults.clear()

    # -- what clients did ----------------------------------------------------------------------

    def requests(
        self,
        api: str | int | None = None,
        broker: int | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
    ) -> list[JournalEntry]:
        """Return the last requests (10,000 are kept), oldest first, of one API, broker,
        client or topic if named.
        """
        found = self._requests.select(api, broker, client_id)
        names = self.state.image.names
        return found if topic is None else [entry for entry in found if topic in entry.asked(names)]

    def clear_requests(self) -> None:
        """Forget the requests kept so far."""
        self._requests.clear()

    def versions_used(self) -> VersionsUsed:
        """Return the versions that clients used: broker id → client id → API → versions."""
        return self._requests.versions_used()

    # -- clock and seed ------------------------------------------------------------------------

    async def advance(self, duration_ms: int) -> None:
        """Move the cluster's clock on at once: what falls due meanwhile happens (sessions, idle
        connections).

        Raises ConfigError for a negative duration, and for a clock of your own that cannot be
        moved.
        """
        if not 0 <= duration_ms <= MOST_MS:
            raise ConfigError(
                f"a clock cannot move by {duration_ms} ms; give 0 or more, at most {MOST_MS} "
                "(100 years)"
            )
        if not isinstance(self._clock, AdvancingClock | ManualClock):
            raise ConfigError(
                "the cluster's own clock can be moved, this one was given; move it where you "
                "made it"
            )
        await self._clock.advance(duration_ms)

    def seed(self, seed: int) -> None:
        """Seed the random numbers: the faults with a probability hit as they did
        after the same seed before.
        """
        self._faults.rng.seed(seed)


def _key(api: str | int | None) -> int | None:
    return None if api is None else api_number(api)
