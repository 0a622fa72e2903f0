"""Any bytes: a connection makes events of them or
ends with a RemoteProtocolError, and never raises.

One named test per trick that made some Kafka client or broker fall over.
"""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.errors import KafkaError, RemoteProtocolError
from parley.frames import EmptyFrames, Framer
from parley.messages import (
    ApiVersionsResponse,
    FetchRequest,
    MetadataRequest,
    ProduceRequest,
    encode_request,
    encode_response,
)
from parley.protocol import (
    NEED_DATA,
    PAUSED,
    BrokerProtocol,
    ClientProtocol,
    ClientSettings,
    Closed,
    Connection,
    RequestReceived,
    ServeAll,
)

MIB = 1024 * 1024


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def joined(segments: list[Any]) -> bytes:
    return b"".join(bytes(segment) for segment in segments)


def negotiating() -> ClientProtocol:
    client = ClientProtocol(ClientSettings(probe_old_brokers=True))
    client.start(0)
    client.data_to_send()
    return client


VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, low, high in ((0, 3, 11), (1, 4, 17), (3, 0, 12), (18, 0, 4))
    ]
)
NEGOTIATION = framed(joined(encode_response(VERSIONS, 4, 0)))


def waiting() -> ClientProtocol:
    client = ClientProtocol()
    client.start(0)
    client.receive_data(NEGOTIATION)
    client.next_event()
    for message in (MetadataRequest(topics=[]), FetchRequest(), ProduceRequest(acks=1)):
        client.send_request(message, now_ms=0, timeout_ms=1)
    client.data_to_send()
    return client


def feed(connection: Connection, data: bytes) -> list[Any]:
    """Feed bytes as a network would, in two pieces, and check what may never happen."""
    found = []
    for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
        connection.receive_data(piece)
        while (event := connection.next_event()) not in (NEED_DATA, PAUSED):
            found.append(event)
            if isinstance(event, RequestReceived):
                assert isinstance(connection, BrokerProtocol)
                connection.drop_request(event)
    for event in found[:-1]:
        assert not isinstance(event, Closed)
    if found and isinstance(found[-1], Closed):
        assert isinstance(found[-1].error, KafkaError)
    return found


SMALL_FRAMES = st.lists(st.binary(max_size=60).map(framed), max_size=6).map(b"".join)
PLAUSIBLE = st.builds(
    lambda correlation_id, code, rest: framed(struct.pack(">ih", correlation_id, code) + rest),
    st.integers(0, 4),
    st.sampled_from([0, 35, 42, -1]),
    st.binary(max_size=80),
)


@given(
    st.one_of(st.binary(max_size=300), SMALL_FRAMES, st.lists(PLAUSIBLE, max_size=4).map(b"".join))
)
def test_any_bytes_while_negotiating(data: bytes) -> None:
    feed(negotiating(), data)


@given(
    st.one_of(st.binary(max_size=300), SMALL_FRAMES, st.lists(PLAUSIBLE, max_size=4).map(b"".join))
)
def test_any_bytes_instead_of_answers(data: bytes) -> None:
    feed(waiting(), data)


HEADERS = st.builds(
    lambda key, version, rest: framed(struct.pack(">hhih", key, version, 1, -1) + rest),
    st.integers(-2, 100),
    st.integers(-2, 20),
    st.binary(max_size=80),
)


@given(
    st.one_of(st.binary(max_size=300), SMALL_FRAMES, st.lists(HEADERS, max_size=4).map(b"".join))
)
def test_any_bytes_from_a_client(data: bytes) -> None:
    feed(BrokerProtocol(ServeAll()), data)


@given(st.data())
def test_every_truncation_and_bit_flip_of_a_request(data: st.DataObject) -> None:
    message = data.draw(
        st.sampled_from([MetadataRequest(topics=[]), FetchRequest(), ProduceRequest(acks=1)])
    )
    request = bytearray(joined(encode_request(message, 9, 5, "client")))
    position = data.draw(st.integers(0, len(request) - 1))
    request[position] ^= 1 << data.draw(st.integers(0, 7))
    end = data.draw(st.integers(0, len(request)))
    feed(BrokerProtocol(ServeAll()), framed(bytes(request[:end])))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (bytes.fromhex("15030300020246"), "TLS alert.*security_protocol=SSL"),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "HTTP answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH server"),
        (b"220 smtp.example ESMTP\r\n", "a server of another protocol"),
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"\x7f\xff\xff\xff", "max_frame_bytes"),
        (b"\0\0\0\0", "empty frame"),
    ],
    ids=["tls", "http", "ssh", "smtp", "negative", "huge", "empty"],
)
def test_a_client_at_the_wrong_port_is_reported_so(data: bytes, words: str) -> None:
    (closed,) = feed(negotiating(), data)
    assert isinstance(closed.error, RemoteProtocolError)
    with pytest.raises(RemoteProtocolError, match=words):
        raise closed.error


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (bytes.fromhex("1603010200010001fc0303"), "TLS handshake"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP request"),
        (b"POST /topics HTTP/1.1\r\n\r\n", "HTTP request"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP request"),
        (b"\x06\x40\0\1", "max_frame_bytes=104857600"),
    ],
    ids=["tls", "get", "post", "http2", "one byte above 100 MiB"],
)
def test_a_broker_names_clients_that_speak_something_else(data: bytes, words: str) -> None:
    (closed,) = feed(BrokerProtocol(ServeAll()), data)
    with pytest.raises(RemoteProtocolError, match=words):
        raise closed.error


@pytest.mark.parametrize(
    "make", [negotiating, lambda: BrokerProtocol(ServeAll())], ids=["client", "broker"]
)
def test_an_announcement_costs_nothing(make: Any) -> None:
    """CVE-2022-34917: an unauthenticated peer must not make us allocate what it only announces."""
    connection = make()
    connection.receive_data(struct.pack(">i", 100 * MIB))
    for _ in range(1000):
        connection.receive_data(b"\0")
        assert connection.next_event() is NEED_DATA
    assert connection._framer.allocated_bytes <= 256 * 1024


def test_a_slow_loris_holds_what_it_sent_and_no_more() -> None:
    broker = BrokerProtocol(ServeAll())
    broker.receive_data(struct.pack(">i", 50 * MIB) + bytes(10))
    assert broker.next_event() is NEED_DATA
    broker.receive_eof()
    closed = broker.next_event()
    assert isinstance(closed, Closed)
    assert "after 14 of 52428804 bytes" in str(closed.error)


def test_a_flood_of_empty_frames_leaves_nothing_behind() -> None:
    class Old(ServeAll):
        empty_frames = EmptyFrames.IGNORE

    broker = BrokerProtocol(Old())
    for _ in range(20):
        broker.receive_data(bytes(64 * 1024))
        assert broker.next_event() is NEED_DATA
    assert broker._framer.allocated_bytes <= 256 * 1024
    assert broker.unread_bytes == 0


def test_an_array_of_two_billion_elements_is_refused_before_it_is_made() -> None:
    body = struct.pack(">ihi", 0, 0, 2**31 - 1)
    client = ClientProtocol()
    client.start(0)
    (closed,) = feed(client, framed(body))
    assert isinstance(closed.error, RemoteProtocolError)


def test_a_million_api_keys_are_refused() -> None:
    entries = b"".join(struct.pack(">hhh", key % 32768, 0, 1) + b"\0" for key in range(1_000_000))
    client = negotiating()
    client.receive_data(
        framed(struct.pack(">ih", 0, 0) + bytes.fromhex("c1843d") + entries + bytes(5))
    )
    closed = client.next_event()
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, RemoteProtocolError)


def test_answering_twice_ends_the_connection() -> None:
    client = waiting()
    answer = framed(struct.pack(">i", 1) + b"\0" + bytes(400))
    found = feed(client, answer + answer)
    assert isinstance(found[-1], Closed)
    assert isinstance(found[-1].error, RemoteProtocolError)


@pytest.mark.long  # a matter of speed: it says something on a quiet machine only
@pytest.mark.parametrize("count", [2_000, 4_000])
def test_many_small_frames_take_linear_time(count: int) -> None:
    """Twice the frames take twice the processor's time, not four times; best
    of five against noise.
    """

    def seconds(frames: int) -> float:
        data, best = framed(b"x" * 20) * frames, 1e9
        for _ in range(5):
            framer, begun = Framer(), time.thread_time()
            framer.feed(data)
            while framer.next_frame() is not None:
                pass
            best = min(best, time.thread_time() - begun)
        return best

    assert seconds(2 * count) <= 3 * seconds(count) + 0.005
