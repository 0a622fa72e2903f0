"""Runs the discovery strategies against brokers and counts what each costs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parley.drafts.strategies import Answers, Exchange, Outcome, Strategy
from parley.errors import KafkaError
from parley.frames import Framer, encode_frame
from parley.net import Address, AsyncioBackend, Backend, parse_address
from parley.versions import ClusterView

SILENCE_MS = 500
"""How long a broker may say nothing before it counts as silent (here: within a few ms)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one strategy found out about one broker, and its price; bytes with size fields."""

    strategy: str
    broker: str
    round_trips: int
    connections: int
    sent_bytes: int
    received_bytes: int
    outcome: Outcome


class _Wire:
    """One connection: frames out, frames in, everything counted."""

    def __init__(self) -> None:
        self._framer = Framer()
        self._changed = asyncio.Event()
        self.frames: list[memoryview] = []
        self.received_bytes = 0
        self.closed = False

    def get_buffer(self, size_hint_bytes: int = -1) -> memoryview:
        """Return memory to receive into."""
        return self._framer.get_buffer(size_hint_bytes)

    def buffer_updated(self, received_bytes: int) -> None:
        """Take received bytes."""
        self.received_bytes += received_bytes
        self._framer.buffer_updated(received_bytes)
        while (frame := self._framer.next_frame()) is not None:
            self.frames.append(memoryview(bytes(frame.data)))
            frame.release()
        self._changed.set()

    def connection_lost(self, cause: Exception | None) -> None:
        """Take note of the end."""
        self.closed = True
        self._changed.set()

    async def answers(self, count: int, silence_ms: int) -> Answers:
        """Return the next `count` frames, or fewer when the connection ends or stays silent."""
        silent = False
        try:
            async with asyncio.timeout(silence_ms / 1000):
                while len(self.frames) < count and not self.closed:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            silent = True
        taken, self.frames = tuple(self.frames[:count]), self.frames[count:]
        return Answers(
            taken, closed=self.closed and len(taken) < count, silent=silent and not taken
        )


async def ask(
    name: str,
    strategy: Strategy,
    address: Address | str,
    *,
    backend: Backend | None = None,
    silence_ms: int = SILENCE_MS,
) -> Cost:
    """Run one strategy against one broker. Raises NetworkError when it cannot be connected to."""
    target = parse_address(address) if isinstance(address, str) else address
    backend = backend if backend is not None else AsyncioBackend()
    place = (await backend.lookup(target))[0]
    round_trips = connections = sent = received = 0
    steps = strategy()
    wire: _Wire | None = None
    stream = None
    try:
        exchange: Exchange = next(steps)
        while True:
            if stream is None or exchange.reconnect or (wire is not None and wire.closed):
                if stream is not None:
                    stream.close()
                received += wire.received_bytes if wire is not None else 0
                wire = _Wire()
                stream = await backend.connect(target, place, wire, None, lambda stage: None)
                connections += 1
            assert wire is not None
            segments = [segment for frame in exchange.frames for segment in encode_frame([frame])]
            sent += sum(len(segment) for segment in segments)
            stream.write(segments)
            round_trips += 1
            exchange = steps.send(await wire.answers(exchange.answers, silence_ms))
    except StopIteration as finished:
        received += wire.received_bytes if wire is not None else 0
        return Cost(name, str(target), round_trips, connections, sent, received, finished.value)
    finally:
        if stream is not None:
            stream.close()


async def compare(
    strategies: Mapping[str, Strategy],
    brokers: Sequence[Address | str],
    *,
    backend: Backend | None = None,
) -> list[Cost]:
    """Run every strategy against every broker, one by one; unreachable brokers cost nothing."""
    costs = []
    for name, strategy in strategies.items():
        for broker in brokers:
            try:
                costs.append(await ask(name, strategy, broker, backend=backend))
            except KafkaError as error:
                costs.append(Cost(name, str(broker), 0, 0, 0, 0, Outcome(f"nothing: {error}")))
    return costs


def shared_apis(costs: Sequence[Cost]) -> int | None:
    """Return how many APIs all brokers share by a strategy; None if one is unknown."""
    if not costs or not all(cost.outcome.ranges for cost in costs):
        return None
    return len(ClusterView({cost.broker: cost.outcome.ranges for cost in costs}).ranges)
