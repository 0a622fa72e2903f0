"""Frames come out whole whatever pieces they arrive in, and buffers are used again without harm."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.frames import EmptyFrames, Frame, Framer, encode_frame
from parley.frames.chunks import FIRST_CHUNK_BYTES, IDLE_TICKS, SMALL_CHUNK_BYTES, ChunkPool

KIB = 1024
MIB = 1024 * 1024


def framed(*contents: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(content)) + content for content in contents)


def drain(framer: Framer) -> list[bytes]:
    found = []
    while (frame := framer.next_frame()) is not None:
        found.append(bytes(frame.data))
        frame.release()
    return found


def feed_whole(framer: Framer, data: bytes) -> list[bytes]:
    framer.feed(data)
    return drain(framer)


def feed_bytes(framer: Framer, data: bytes) -> list[bytes]:
    found = []
    for index in range(len(data)):
        framer.feed(data[index : index + 1])
        found += drain(framer)
    return found


def feed_ragged(framer: Framer, data: bytes) -> list[bytes]:
    rng = random.Random(len(data))
    found, position = [], 0
    while position < len(data):
        step = rng.choice((1, 3, 5, 1000, 65536, 300000))
        framer.feed(data[position : position + step])
        found += drain(framer)
        position += step
    return found


Feeder = Callable[[Framer, bytes], list[bytes]]
FEEDERS = [feed_whole, feed_bytes, feed_ragged]


@pytest.mark.parametrize("feeder", FEEDERS)
@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [8, 1, 100],
        [SMALL_CHUNK_BYTES - 5, SMALL_CHUNK_BYTES - 4, SMALL_CHUNK_BYTES - 3, SMALL_CHUNK_BYTES],
        [70 * KIB, 3, 200 * KIB, 9],
        [300] * 700,
    ],
    ids=["one", "three", "around a chunk", "large and small", "many"],
)
def test_frames_come_out_as_they_were_sent(feeder: Feeder, sizes: list[int]) -> None:
    rng = random.Random(7)
    contents = [rng.randbytes(size) for size in sizes]
    framer = Framer()
    assert feeder(framer, framed(*contents)) == contents
    assert framer.pending_bytes == 0
    assert framer.next_frame() is None


@pytest.mark.parametrize("feeder", FEEDERS)
def test_a_tail_stays_pending(feeder: Feeder) -> None:
    framer = Framer()
    assert feeder(framer, framed(b"abc") + b"\0\0\0") == [b"abc"]
    assert framer.pending_bytes == 3
    assert framer.announced_bytes is None
    assert feeder(framer, b"\5ab") == []
    assert (framer.pending_bytes, framer.announced_bytes) == (6, 5)
    assert feeder(framer, b"cde" + framed(b"z")) == [b"abcde", b"z"]


def test_frames_that_nobody_asked_for_yet_are_kept() -> None:
    rng = random.Random(3)
    contents = [rng.randbytes(rng.choice((1, 900, 40_000, 150_000))) for _ in range(60)]
    framer = Framer()
    for content in contents:
        framer.feed(framed(content))
    assert drain(framer) == contents


def test_a_large_frame_that_is_whole_before_it_is_asked_for() -> None:
    large, small = bytes(range(256)) * 1024, b"next"
    framer = Framer()
    data = framed(large, small)
    framer.feed(data[:1000])
    assert framer.next_frame() is None  # from here on it has a buffer of its own
    framer.feed(data[1000:])
    assert drain(framer) == [large, small]


def test_a_frame_is_a_view_and_later_bytes_do_not_change_it() -> None:
    framer = Framer()
    framer.feed(framed(b"first"))
    held = framer.next_frame()
    assert held is not None
    for _ in range(40):
        assert feed_whole(framer, framed(b"x" * 5000)) == [b"x" * 5000]
    assert bytes(held.data) == b"first"


@pytest.mark.parametrize("size", [100, 200 * KIB])
def test_a_view_kept_after_release_is_never_overwritten(size: int) -> None:
    framer = Framer()
    framer.feed(framed(b"a" * size))
    frame = framer.next_frame()
    assert frame is not None
    kept = frame.data[10:60]
    frame.release()
    for letter in b"bcdefgh":
        content = bytes([letter]) * size
        assert feed_whole(framer, framed(content) * 3) == [content] * 3
    assert bytes(kept) == b"a" * 50


def test_a_released_frame_cannot_be_read_and_releasing_twice_is_allowed() -> None:
    framer = Framer()
    framer.feed(framed(b"abc"))
    frame = framer.next_frame()
    assert frame is not None
    frame.release()
    frame.release()
    with pytest.raises(ValueError, match="released"):
        bytes(frame.data)
    assert repr(frame) == "Frame(released)"


def test_a_frame_whose_very_view_is_exported_can_be_released() -> None:
    framer = Framer()
    framer.feed(framed(b"abcd"))
    frame = framer.next_frame()
    assert frame is not None
    export = struct.unpack_from  # reads through the buffer protocol, as an Arrow buffer would
    outer = memoryview(frame.data)
    frame.release()
    assert export(">i", outer)[0] == 0x61626364
    assert feed_whole(framer, framed(b"e" * 70_000)) == [b"e" * 70_000]
    assert bytes(outer) == b"abcd"


def receive_large(framer: Framer, size: int, step: int = 256 * KIB) -> Frame:
    """Receive one frame of `size` zero bytes as a socket would: directly
    into the framer's buffer.
    """
    left, prefix = size, struct.pack(">i", size)
    framer.feed(prefix)
    while (frame := framer.next_frame()) is None:
        count = min(len(framer.get_buffer()), step, left)
        framer.buffer_updated(count)
        left -= count
    return frame


@pytest.mark.parametrize("size", [SMALL_CHUNK_BYTES - 5, SMALL_CHUNK_BYTES, 3 * MIB])
def test_whether_there_is_something_new_is_reported_with_each_piece(size: int) -> None:
    """Whoever asks only when asked to misses no frame, and in the middle of a
    large one nobody has to ask.
    """
    framer, cut, asked = Framer(), [], 0
    stream = memoryview(framed(b"x" * size, b"small", b"y" * size))
    while stream:
        piece = framer.get_buffer()[: min(len(stream), 64 * KIB)]
        count = len(piece)
        piece[:] = stream[:count]
        piece.release()
        stream = stream[count:]
        if framer.buffer_updated(count):
            asked += 1
            while (frame := framer.next_frame()) is not None:
                cut.append(len(frame))
                frame.release()
    assert cut == [size, 5, size]
    assert asked <= 8


def test_a_large_buffer_is_used_again() -> None:
    framer = Framer()
    frame = receive_large(framer, 4 * MIB)
    chunk = frame._chunk
    frame.release()
    for _ in range(5):
        frame = receive_large(framer, 4 * MIB - 7)
        assert frame._chunk is chunk
        frame.release()
    assert framer.allocated_bytes <= 4 * MIB + 2 * SMALL_CHUNK_BYTES


def test_idle_memory_is_given_up_when_only_small_frames_come() -> None:
    framer = Framer()
    receive_large(framer, 8 * MIB).release()
    assert framer.allocated_bytes >= 8 * MIB
    for _ in range(IDLE_TICKS + 2):
        assert feed_whole(framer, framed(b"small")) == [b"small"]
    assert framer.allocated_bytes <= 2 * SMALL_CHUNK_BYTES


def test_a_connection_with_small_frames_alone_stays_small_until_they_fill_its_buffer() -> None:
    framer = Framer()
    for _ in range(1_000):
        assert feed_whole(framer, framed(b"heartbeat" * 20)) == [b"heartbeat" * 20]
    assert framer.allocated_bytes == FIRST_CHUNK_BYTES
    many = framed(*[b"heartbeat" * 20] * 50)  # more at once than there is room for
    assert feed_whole(framer, many) == [b"heartbeat" * 20] * 50
    assert len(framer.get_buffer()) > FIRST_CHUNK_BYTES


@pytest.mark.parametrize("size", [FIRST_CHUNK_BYTES - 4, FIRST_CHUNK_BYTES, SMALL_CHUNK_BYTES])
def test_frames_of_middle_size_cost_no_more_than_their_buffer(size: int) -> None:
    framer = Framer()
    for _ in range(20):
        assert feed_whole(framer, framed(b"m" * size)) == [b"m" * size]
    assert framer.allocated_bytes <= 4 * SMALL_CHUNK_BYTES


def test_memory_grows_with_what_arrived_not_with_what_was_announced() -> None:
    framer = Framer()
    framer.feed(struct.pack(">i", 90 * MIB))
    received = 0
    while received < 3 * MIB:
        assert framer.next_frame() is None
        count = min(len(framer.get_buffer()), 64 * KIB)
        framer.buffer_updated(count)
        received += count
        assert framer.allocated_bytes <= 2 * received + 4 * SMALL_CHUNK_BYTES


def test_receiving_twice_as_much_takes_about_twice_the_copies() -> None:
    # The work of growing is counted in bytes, not in seconds: a buffer grows in place, so only
    # what came before it had one is copied; where somebody sees it, doubling copies each byte about
    # once.
    def copied(size: int, *, seen: bool) -> int:
        framer, total, chunk = Framer(), 0, None
        views: list[memoryview] = []
        framer.feed(struct.pack(">i", size))
        left = size
        while framer.next_frame() is None:
            count = min(len(framer.get_buffer()), 64 * KIB, left)
            if framer._chunk is not chunk:
                chunk = framer._chunk
                total += size - left
                views += [chunk.view[:1]] * seen
            framer.buffer_updated(count)
            left -= count
        return total

    assert copied(32 * MIB, seen=True) <= 2.3 * copied(16 * MIB, seen=True)
    assert copied(16 * MIB, seen=True) <= 16 * MIB
    assert copied(32 * MIB, seen=False) <= SMALL_CHUNK_BYTES


def test_a_buffer_that_somebody_sees_does_not_grow_in_place() -> None:
    pool = ChunkPool()
    chunk = pool.take_small(SMALL_CHUNK_BYTES)
    seen = chunk.view[:1]
    assert not chunk.grow(100 * MIB)
    assert chunk.capacity == SMALL_CHUNK_BYTES
    seen.release()
    assert chunk.grow(100 * MIB)
    assert chunk.capacity == 2 * SMALL_CHUNK_BYTES == len(chunk.view)
    assert chunk.grow(2 * SMALL_CHUNK_BYTES + 1)
    assert chunk.capacity == 2 * SMALL_CHUNK_BYTES + 1


@pytest.mark.parametrize("feeder", FEEDERS)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"\x80\0\0\0", "-2147483648 bytes"),
        (b"\0\0\0\0", "empty frame"),
        (struct.pack(">i", 100 * MIB + 1), "max_frame_bytes=104857600"),
        (b"\x7f\xff\xff\xff", "raise max_frame_bytes"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS alert.*security_protocol=SSL"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS handshake"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP answer"),
        (b"GET / HTTP/1.1\r\n", "HTTP request"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"<!DOCTYPE HTML>\n<html>", "HTTP answer"),
        (b"220 mail ESMTP\r\n", r'text \("220 \.\.\."\): a server of another protocol'),
    ],
)
def test_bytes_that_are_no_frame_are_named(feeder: Feeder, data: bytes, words: str) -> None:
    framer = Framer()
    with pytest.raises(RemoteProtocolError, match=words):
        feeder(framer, data)
    framer.feed(b"anything after it")
    with pytest.raises(RemoteProtocolError, match=words):
        framer.next_frame()


def test_frames_before_a_bad_one_still_come_out() -> None:
    framer = Framer()
    framer.feed(framed(b"good", b"also good") + b"\xff\xff\xff\xfe")
    assert bytes(framer.next_frame().data) == b"good"  # type: ignore[union-attr]
    assert bytes(framer.next_frame().data) == b"also good"  # type: ignore[union-attr]
    with pytest.raises(RemoteProtocolError, match="-2 bytes"):
        framer.next_frame()


def test_nothing_is_kept_after_an_error() -> None:
    framer = Framer()
    framer.feed(b"\xff\xff\xff\xff")
    with pytest.raises(RemoteProtocolError):
        framer.next_frame()
    for _ in range(100):
        framer.feed(bytes(SMALL_CHUNK_BYTES))
    assert framer.allocated_bytes <= 3 * SMALL_CHUNK_BYTES


def test_a_tls_prefix_is_recognised_even_where_the_cap_would_allow_its_size() -> None:
    framer = Framer(max_frame_bytes=0x7FFFFFFF)
    framer.feed(b"\x15\x03\x01\x00\x02")
    with pytest.raises(RemoteProtocolError, match="TLS alert"):
        framer.next_frame()


def test_the_cap_can_change_between_frames() -> None:
    framer = Framer(max_frame_bytes=10)
    framer.feed(framed(b"0123456789"))
    assert drain(framer) == [b"0123456789"]
    framer.max_frame_bytes = 20
    assert feed_whole(framer, framed(b"x" * 20)) == [b"x" * 20]
    with pytest.raises(RemoteProtocolError, match="max_frame_bytes=20"):
        feed_whole(framer, framed(b"x" * 21))


@pytest.mark.parametrize("feeder", FEEDERS)
def test_empty_frames_by_release_and_phase(feeder: Feeder) -> None:
    data = framed(b"", b"a", b"", b"", b"b", b"")
    assert feeder(Framer(empty_frames=EmptyFrames.IGNORE), data) == [b"a", b"b"]
    assert feeder(Framer(empty_frames=EmptyFrames.YIELD), data) == [b"", b"a", b"", b"", b"b", b""]
    with pytest.raises(RemoteProtocolError, match="empty frame"):
        feeder(Framer(), data)


def test_encode_frame_is_the_mirror() -> None:
    parts = [b"ab", memoryview(b"cde"), b""]
    assert b"".join(encode_frame(parts)) == framed(b"abcde")
    assert len(encode_frame(parts)) == 1


def test_encode_frame_does_not_copy_large_segments() -> None:
    payload = memoryview(bytes(MIB))
    segments = encode_frame([b"header", payload])
    assert segments[-1] is payload
    assert segments[0] == struct.pack(">i", MIB + 6)


def test_a_frame_above_the_wire_s_limit_is_refused_here() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 1 << 31

    with pytest.raises(LocalProtocolError, match="send fewer records"):
        encode_frame([Huge()])
