"""The faults of a cluster: errors, cuts, delays on request.

`AsyncFaults` is `cluster.faults`, a part that the cluster owns.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from parley.devcluster.faults.faults import (
    EVERY_TIME,
    Fault,
    FaultQueue,
    Kind,
    Target,
    api_number,
    error_number,
)


class On(TypedDict, total=False):
    """Which requests a fault acts on, besides their API: those of all that is given.

    With `probability` only on that share of them, chosen by the cluster's random numbers.
    """

    broker: int | None
    client_id: str | None
    topic: str | None
    partition: int | None
    probability: float


class AsyncFaults:
    """The faults of one cluster: `AsyncLocalCluster.faults`.

    Every fault acts on the next `times` requests that fit: of an API (by Kafka's name or key, None:
    any), and `On` more where it is given.
    """

    def __init__(self, waiting: FaultQueue) -> None:
        self._waiting = waiting

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
        self._waiting.add(
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
        self._waiting.add(
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
        self._waiting.add(
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
        self._waiting.add(Fault(Kind.DROP, Target(api=_key(api), **on), times, executed=executed))

    def reorder(self, api: str | int | None = None, *, times: int = 1, **on: Unpack[On]) -> None:
        """Hold the answers to the next `times` requests back until their
        connection's next one is answered.
        """
        self._waiting.add(Fault(Kind.REORDER, Target(api=_key(api), **on), times))

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
        self._waiting.add(Fault(Kind.CORRUPT, Target(api=_key(api), **on), times, at_byte=at_byte))

    def clear(self) -> None:
        """Let nothing more go wrong."""
        self._waiting.clear()

    def seed(self, seed: int) -> None:
        """Seed the random numbers: the faults with a probability hit as they did
        after the same seed before.
        """
        self._waiting.rng.seed(seed)


def _key(api: str | int | None) -> int | None:
    return None if api is None else api_number(api)
