"""The network in memory breaks exactly where it is asked to."""

from __future__ import annotations

import ssl

import pytest

from parley.errors import ConfigError, NetworkError
from parley.net import Address, Faults, ManualClock, MemoryBackend, MemoryStream, Stream, Way
from parley.net.clock import settle

HERE = Address("here", 1)


class Sink:
    """Collects what arrives."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.pieces: list[int] = []
        self.ends: list[Exception | None] = []
        self._buffer = bytearray(100)

    def get_buffer(self, size_hint_bytes: int = -1) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, received_bytes: int) -> None:
        self.data += self._buffer[:received_bytes]
        self.pieces.append(received_bytes)

    def connection_lost(self, cause: Exception | None) -> None:
        self.ends.append(cause)


async def joined(network: MemoryBackend) -> tuple[MemoryStream, Sink, Stream, Sink]:
    near, far, accepted = Sink(), Sink(), []

    def accept(stream: Stream) -> Sink:
        accepted.append(stream)
        return far

    listener = await network.listen(HERE, accept, None)
    (place,) = await network.lookup(HERE)
    stream = await network.connect(HERE, place, near, None, lambda stage: None)
    await listener.close()
    return stream, near, accepted[0], far


async def test_bytes_arrive_in_order_and_closing_comes_after_them(network: MemoryBackend) -> None:
    stream, near, other, far = await joined(network)
    stream.write([b"abc", memoryview(b"def")])
    stream.write([b"x" * 250])
    stream.close()
    stream.close()
    stream.write([b"too late"])
    await settle(50)
    assert bytes(far.data) == b"abcdef" + b"x" * 250
    assert (near.ends, far.ends) == ([None], [None])
    await stream.wait_closed()
    await other.wait_closed()


@pytest.mark.parametrize("cut", [0, 1, 100, 101, 150])
async def test_a_cut_comes_after_exactly_so_many_bytes(network: MemoryBackend, cut: int) -> None:
    network.faults[HERE] = Faults(to_broker=Way(cut_after_bytes=cut))
    stream, near, _, far = await joined(network)
    stream.write([bytes(range(150))])
    await settle(50)
    assert bytes(far.data) == bytes(range(cut))
    assert isinstance(near.ends[0], ConnectionResetError)
    assert isinstance(far.ends[0], ConnectionResetError)
    assert len(near.ends) == len(far.ends) == 1


@pytest.mark.parametrize("heard", [0, 1, 100, 150])
async def test_silence_begins_after_exactly_so_many_bytes(
    network: MemoryBackend, heard: int
) -> None:
    network.faults[HERE] = Faults(to_broker=Way(silent_after_bytes=heard))
    stream, near, _, far = await joined(network)
    stream.write([bytes(range(150))])
    await settle(50)
    stream.write([b"more"])
    await settle(50)
    assert bytes(far.data) == bytes(range(heard))
    assert (near.ends, far.ends) == ([], [])


async def test_delay_and_pieces(network: MemoryBackend, clock: ManualClock) -> None:
    network.faults[HERE] = Faults(to_client=Way(delay_ms=5, piece_bytes=2))
    _, near, other, _ = await joined(network)
    other.write([b"abcde"])
    await clock.advance(4)
    assert near.data == b""
    await clock.advance(1)
    assert near.data == b"ab"
    await clock.advance(10)
    assert (bytes(near.data), near.pieces) == (b"abcde", [2, 2, 1])


async def test_a_paused_reader_gets_nothing_until_it_resumes(network: MemoryBackend) -> None:
    stream, _, other, far = await joined(network)
    other.pause_reading()
    stream.write([b"abc"])
    await settle()
    assert far.data == b""
    other.resume_reading()
    await settle()
    assert far.data == b"abc"


async def test_a_reset_is_seen_by_the_other_end_only_as_one(network: MemoryBackend) -> None:
    stream, near, _, far = await joined(network)
    stream.write([b"lost"])
    stream.abort(reset=True)
    stream.abort()
    await settle()
    assert near.ends == [None]
    assert isinstance(far.ends[0], ConnectionResetError)


async def test_addresses_listeners_and_what_is_refused(network: MemoryBackend) -> None:
    stream, _, other, _ = await joined(network)
    assert stream.peer == other.local == HERE
    assert stream.local == other.peer
    first = await network.listen(Address("here", 0), lambda stream: Sink(), None)
    with pytest.raises(NetworkError, match="choose another port"):
        await network.listen(first.address, lambda stream: Sink(), None)
    with pytest.raises(ConfigError, match="no TLS"):
        await network.listen(HERE, lambda stream: Sink(), ssl.create_default_context())
