"""Faults, journal and clock of a cluster for blocking code: `fault_calls.FaultCalls`, method by method."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from parley.devcluster.fault_calls import FaultCalls, On
from parley.devcluster.faults import EVERY_TIME
from parley.devcluster.requests import JournalEntry, VersionsUsed

T = TypeVar("T")


class BlockingFaults:
    """A part of `LocalCluster`. What every fault acts on is told at `FaultCalls`."""

    _cluster: FaultCalls

    if TYPE_CHECKING:

        def _run(self, work: Coroutine[Any, Any, T]) -> T: ...

        def _call(self, function: Callable[..., T], *arguments: Any, **keywords: Any) -> T: ...

    # -- faults --------------------------------------------------------------------------------

    def fail(
        self, api: str | int | None, error: str | int, *, times: int = 1, executed: bool = False, **on: Unpack[On]
    ) -> None:
        """Answer the next `times` requests (-1: every one) of an API with an error.

        With a topic or partition only those fail, where the answer has a place for it. The brokers do not
        act on what fails, unless `executed`. `error` is Kafka's name or code. Raises ConfigError.
        """
        self._call(self._cluster.fail, api, error, times=times, executed=executed, **on)

    def cut(
        self,
        api: str | int | None = None,
        *,
        times: int = 1,
        executed: bool = False,
        after_bytes: int | None = None,
        **on: Unpack[On],
    ) -> None:
        """End the connection of the next `times` requests, by a reset; with `executed` only their answers are lost.

        `after_bytes`: the answer's first bytes (size in front included) still come, then the connection is closed.
        """
        self._call(self._cluster.cut, api, times=times, executed=executed, after_bytes=after_bytes, **on)

    def delay(
        self, api: str | int | None, delay_ms: int, *, times: int = EVERY_TIME, executed: bool = False, **on: Unpack[On]
    ) -> None:
        """Let a pause of the cluster's clock go before requests of an API are acted on, or with `executed` answered."""
        self._call(self._cluster.delay, api, delay_ms, times=times, executed=executed, **on)

    def drop(self, api: str | int | None = None, *, times: int = 1, executed: bool = False, **on: Unpack[On]) -> None:
        """Never answer the next `times` requests; what comes behind them on the same connection waits for ever too."""
        self._call(self._cluster.drop, api, times=times, executed=executed, **on)

    def reorder(self, api: str | int | None = None, *, times: int = 1, **on: Unpack[On]) -> None:
        """Hold the answers to the next `times` requests back until their connection's next one is answered."""
        self._call(self._cluster.reorder, api, times=times, **on)

    def corrupt(
        self, api: str | int | None = None, *, times: int = 1, at_byte: int | None = None, **on: Unpack[On]
    ) -> None:
        """Turn one byte of the next `times` answers over: one behind the size, by the dice, or byte `at_byte`.

        Bytes 0 to 3 are the size.
        """
        self._call(self._cluster.corrupt, api, times=times, at_byte=at_byte, **on)

    def clear_faults(self) -> None:
        """Let nothing more go wrong."""
        self._call(self._cluster.clear_faults)

    # -- what clients did ----------------------------------------------------------------------

    def requests(
        self,
        api: str | int | None = None,
        broker: int | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
    ) -> list[JournalEntry]:
        """Return the last requests (10,000 are kept), oldest first, of one API, broker, client or topic if named."""
        return self._call(self._cluster.requests, api, broker, client_id=client_id, topic=topic)

    def clear_requests(self) -> None:
        """Forget the requests kept so far."""
        self._call(self._cluster.clear_requests)

    def versions_used(self) -> VersionsUsed:
        """Return the versions that clients used: broker id → client id → API → versions."""
        return self._call(self._cluster.versions_used)

    # -- clock and dice ------------------------------------------------------------------------

    def advance(self, duration_ms: int) -> None:
        """Move the cluster's clock on at once: what falls due meanwhile happens (sessions, idle connections).

        Raises ConfigError for a negative duration.
        """
        self._run(self._cluster.advance(duration_ms))

    def seed(self, seed: int) -> None:
        """Throw the dice anew: the faults with a probability hit as they did after the same seed before."""
        self._call(self._cluster.seed, seed)
