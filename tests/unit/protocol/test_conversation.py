"""Client and broker joined in memory: whatever pieces the bytes arrive in, the conversation is the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from parley.errors import LocalProtocolError, NetworkError, RemoteProtocolError
from parley.frames import EmptyFrames
from parley.messages import (
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from parley.protocol import (
    NEED_DATA,
    PAUSED,
    BrokerProtocol,
    ClientProtocol,
    ClientSettings,
    Close,
    Closed,
    Connection,
    Decision,
    Negotiated,
    RequestReceived,
    Respond,
    ResponseReceived,
    Serve,
    ServeAll,
    State,
    Swallow,
)

RANGES = {0: (3, 11), 1: (4, 17), 3: (0, 12), 18: (0, 4)}


def own_versions() -> Any:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in RANGES.items()
        ]
    )


class Release:
    """A policy for tests: versions outside RANGES are refused as the given release refuses them."""

    def __init__(self, refusal: Decision, malformed: Decision, empty_frames: EmptyFrames) -> None:
        self.refusal = refusal
        self._malformed = malformed
        self.empty_frames = empty_frames

    def decide(self, api_key: int, api_version: int) -> Decision:
        low, high = RANGES.get(api_key, (1, 0))
        if low <= api_version <= high:
            return Serve()
        if api_key == 18:
            return Respond(ApiVersionsResponse(error_code=35), 0)
        return self.refusal

    def malformed(self, api_key: int, api_version: int) -> Decision:
        return self._malformed


MODERN = Release(Close("unsupported"), Close("malformed"), EmptyFrames.REJECT)
SILENT = Release(Swallow(), Swallow(), EmptyFrames.IGNORE)

Carry = Callable[[Connection, bytes], list[Any]]


def take(connection: Connection) -> list[Any]:
    found = []
    while (event := connection.next_event()) not in (NEED_DATA, PAUSED):
        found.append(event)
    return found


def carry_whole(connection: Connection, data: bytes) -> list[Any]:
    connection.receive_data(data)
    return take(connection)


def carry_bytes(connection: Connection, data: bytes) -> list[Any]:
    found = []
    for index in range(len(data)):
        connection.receive_data(data[index : index + 1])
        found += take(connection)
    return found


def carry_in_place(connection: Connection, data: bytes) -> list[Any]:
    """As a socket does: into the connection's own buffer, in ragged pieces."""
    dice, found = random.Random(5), []
    while data:
        buffer = connection.get_buffer()
        count = min(len(buffer), len(data), dice.choice((1, 7, 900)))
        buffer[:count] = data[:count]
        buffer.release()
        connection.buffer_updated(count)
        data = data[count:]
        found += take(connection)
    return found


CARRIERS = [carry_whole, carry_bytes, carry_in_place]


def flush(connection: Connection) -> bytes:
    return b"".join(connection.data_to_send())


def pair(**settings: Any) -> tuple[ClientProtocol, BrokerProtocol]:
    client, broker = ClientProtocol(ClientSettings(**settings)), BrokerProtocol(MODERN)
    client.start(0)
    (request,) = carry_whole(broker, flush(client))
    broker.send_response(request, own_versions())
    (event,) = carry_whole(client, flush(broker))
    assert isinstance(event, Negotiated)
    return client, broker


@pytest.mark.parametrize("carry", CARRIERS)
def test_a_whole_conversation(carry: Carry) -> None:
    client, broker = ClientProtocol(ClientSettings(client_id="me")), BrokerProtocol(MODERN)
    client.start(0)
    (request,) = carry(broker, flush(client))
    assert isinstance(request, RequestReceived)
    assert (request.api_key, request.version, request.client_id) == (18, 4, "me")
    broker.send_response(request, own_versions())
    (negotiated,) = carry(client, flush(broker))
    assert isinstance(negotiated, Negotiated)

    records = bytes(range(256)) * 20
    asked = client.send_request(FetchRequest(max_wait_ms=7), now_ms=0, timeout_ms=5)
    (request,) = carry(broker, flush(client))
    assert (request.version, request.message.max_wait_ms) == (17, 7)
    partition = FetchResponse.PartitionData(partition_index=3, records=records)
    answer = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])])
    broker.send_response(request, answer)
    (response,) = carry(client, flush(broker))
    assert isinstance(response, ResponseReceived)
    assert (response.correlation_id, response.api_key, response.version) == (asked, 1, 17)
    assert bytes(response.message.responses[0].partitions[0].records) == records
    assert client.in_flight == 0


def test_records_stay_right_while_later_answers_arrive() -> None:
    client, broker = pair()
    held = []
    for letter in b"abcdefgh":
        client.send_request(FetchRequest(), now_ms=0, timeout_ms=5)
        (request,) = carry_in_place(broker, flush(client))
        partition = FetchResponse.PartitionData(records=bytes([letter]) * 50_000)
        broker.send_response(
            request, FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])])
        )
        (response,) = carry_in_place(client, flush(broker))
        held.append((letter, response.message.responses[0].partitions[0].records))
    for letter, records in held:
        assert bytes(records) == bytes([letter]) * 50_000


def test_a_broker_serves_one_request_at_a_time_in_order() -> None:
    client, broker = pair()
    ids = [client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5) for _ in range(3)]
    broker.receive_data(flush(client))
    answered = []
    for expected in ids:
        request = broker.next_event()
        assert isinstance(request, RequestReceived)
        assert request.correlation_id == expected
        assert broker.next_event() is PAUSED
        assert broker.is_serving
        broker.send_response(request, MetadataResponse(cluster_id=str(expected)))
        answered.append(request)
    assert broker.next_event() is NEED_DATA
    responses = carry_whole(client, flush(broker))
    assert [(r.correlation_id, r.message.cluster_id) for r in responses] == [(i, str(i)) for i in ids]
    with pytest.raises(LocalProtocolError, match="received last"):
        broker.send_response(answered[0], MetadataResponse())


def test_an_answer_without_a_form_in_its_version_leaves_the_request_open() -> None:
    client, broker = pair()
    client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5)
    (request,) = carry_whole(broker, flush(client))
    with pytest.raises(LocalProtocolError):
        broker.send_response(request, MetadataResponse(controller_id="not a number"))
    assert flush(broker) == b""
    broker.send_response(request, MetadataResponse())
    assert len(carry_whole(client, flush(broker))) == 1


def test_a_produce_that_wants_no_acknowledgement_waits_for_nothing() -> None:
    client, broker = pair()
    client.send_request(ProduceRequest(acks=0), now_ms=0, timeout_ms=5)
    assert client.in_flight == 0
    assert client.next_deadline_ms() is None
    asked = client.send_request(ProduceRequest(acks=1), now_ms=0, timeout_ms=5)
    broker.receive_data(flush(client))
    silent = broker.next_event()
    assert isinstance(silent, RequestReceived)
    broker.drop_request(silent)
    loud = broker.next_event()
    assert isinstance(loud, RequestReceived)
    broker.send_response(loud, ProduceResponse())
    (response,) = carry_whole(client, flush(broker))
    assert response.correlation_id == asked


def test_an_abandoned_answer_is_dropped_unread() -> None:
    client, broker = pair()
    first = client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5)
    second = client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=9)
    client.abandon(first)
    client.abandon(4711)
    assert client.next_deadline_ms() == 9
    assert client.expired(100) == [second]
    broker.receive_data(flush(client))
    for _ in range(2):
        request = broker.next_event()
        assert isinstance(request, RequestReceived)
        broker.send_response(request, MetadataResponse())
    (response,) = carry_whole(client, flush(broker))
    assert response.correlation_id == second


def test_requests_in_flight_are_lost_with_the_connection() -> None:
    client, _ = pair()
    first = client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5)
    second = client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5)
    client.abandon(first)
    client.receive_eof()
    (closed,) = take(client)
    assert isinstance(closed, Closed)
    assert closed.lost == (second,)
    assert isinstance(closed.error, NetworkError)
    assert closed.error.stage == "request"
    assert take(client) == []


def test_closing_is_said_once_and_bytes_after_it_are_ignored() -> None:
    client, broker = pair()
    client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5)
    (request,) = carry_whole(broker, flush(client))
    broker.send_response(request, MetadataResponse())
    client.close()
    client.close()
    client.receive_data(flush(broker))
    (closed,) = take(client)
    assert (closed.error, closed.lost) == (None, (1,))
    assert take(client) == []
    client.receive_eof()
    assert take(client) == []
    assert client.unread_bytes == 0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"\0\0\0\4\0\0\0\x09", "id 9, which was never sent"),
        (b"\0\0\0\4\0\0\0\2", "id 2, out of order; the oldest waiting request has 1"),
        (b"\0\0\0\4\xff\xff\xff\xff", "id -1, which was never sent"),
        (b"\0\0\0\3\0\0\0", "3 bytes, too few"),
        (b"\0\0\0\4\0\0\0\1", "MetadataResponse v12|message is truncated|left"),
    ],
    ids=["unknown", "out of order", "negative", "short", "empty"],
)
def test_answers_that_break_the_protocol(answer: bytes, words: str) -> None:
    client, _ = pair()
    for _ in range(2):
        client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5)
    (closed,) = carry_whole(client, answer)
    assert isinstance(closed.error, RemoteProtocolError)
    assert closed.lost == (1, 2)
    with pytest.raises(RemoteProtocolError, match=words):
        raise closed.error


def test_an_answer_that_nobody_waits_for_ends_the_connection() -> None:
    client, _ = pair()
    (closed,) = carry_whole(client, b"\0\0\0\4\0\0\0\0")
    with pytest.raises(RemoteProtocolError, match="no request waits"):
        raise closed.error


def test_bytes_behind_an_answer_are_ignored_as_java_ignores_them() -> None:
    client, broker = pair()
    client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5)
    (request,) = carry_whole(broker, flush(client))
    broker.send_response(request, MetadataResponse(cluster_id="c"))
    answer = flush(broker)[4:] + b"junk"
    (response,) = carry_whole(client, len(answer).to_bytes(4, "big") + answer)
    assert response.message.cluster_id == "c"


def test_nothing_is_sent_before_negotiation_and_a_connection_starts_once() -> None:
    client = ClientProtocol()
    with pytest.raises(LocalProtocolError, match="fresh"):
        client.send_request(MetadataRequest(), now_ms=0, timeout_ms=5)
    client.start(0)
    with pytest.raises(LocalProtocolError, match="negotiating"):
        client.send_request(MetadataRequest(), now_ms=0, timeout_ms=5)
    with pytest.raises(LocalProtocolError, match="started once"):
        client.start(0)


def test_a_request_that_cannot_be_encoded_leaves_the_connection_as_it_was() -> None:
    client, _ = pair()
    with pytest.raises(LocalProtocolError):
        client.send_request(MetadataRequest(topics=5), now_ms=0, timeout_ms=5)
    assert flush(client) == b""
    assert (client.state, client.in_flight) == (State.READY, 0)


def test_a_version_can_be_forced_for_tests_of_refusals() -> None:
    client, broker = pair()
    client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5, version=13)
    (closed,) = carry_whole(broker, flush(client))
    assert isinstance(closed, Closed)
    assert "unsupported" in str(closed.error)
    assert broker.state is State.CLOSED


REQUEST = b"\0\3\0\1\0\0\0\7\0\1x\0\0\0\0"  # Metadata v1 of client x, no topics


def test_a_silent_release_swallows_and_stays_usable() -> None:
    broker = BrokerProtocol(SILENT)
    unknown_key = b"\0\x7f" + REQUEST[2:]
    unknown_version = b"\0\3\0\x63" + REQUEST[4:]
    short_body = REQUEST[:-2]
    no_header = b"\0\3"
    for bad in (unknown_key, unknown_version, short_body, no_header, b""):
        assert carry_whole(broker, len(bad).to_bytes(4, "big") + bad) == []
        assert flush(broker) == b""
    (request,) = carry_whole(broker, len(REQUEST).to_bytes(4, "big") + REQUEST)
    assert (request.api_key, request.version, request.correlation_id, request.client_id) == (3, 1, 7, "x")


@pytest.mark.parametrize(
    "bad",
    [
        b"\0\x7f" + REQUEST[2:],
        b"\0\3\0\x63" + REQUEST[4:],
        REQUEST[:-2],
        b"\0\3",
        b"",
        REQUEST[:-4] + b"\x7f\xff\xff\xff",
    ],
    ids=["unknown key", "unknown version", "short", "no header", "empty frame", "huge count"],
)
def test_a_modern_release_closes(bad: bytes) -> None:
    broker = BrokerProtocol(MODERN)
    (closed,) = carry_whole(broker, len(bad).to_bytes(4, "big") + bad)
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, RemoteProtocolError)
    assert flush(broker) == b""


def test_bytes_behind_a_request_are_accepted() -> None:
    data = REQUEST + b"junk"
    (request,) = carry_whole(BrokerProtocol(MODERN), len(data).to_bytes(4, "big") + data)
    assert request.message.topics == []


def test_a_policy_answers_without_reading_the_body() -> None:
    broker = BrokerProtocol(MODERN)
    data = b"\0\x12\0\x63\0\0\0\5" + b"no ApiVersions v99 that anybody could read"
    assert carry_whole(broker, len(data).to_bytes(4, "big") + data) == []
    assert flush(broker) == b"\0\0\0\x0a\0\0\0\5\0\x23\0\0\0\0"  # the 10 bytes that 0.10 to 2.3 send
    assert broker.state is State.READY


def test_a_policy_serves_a_request_as_another_version() -> None:
    class MisAnswering(ServeAll):
        def decide(self, api_key: int, api_version: int) -> Decision:
            return Serve(as_version=0)

    broker = BrokerProtocol(MisAnswering())
    data = b"\0\3\0\x63" + REQUEST[4:]  # 0.9 answers Metadata v99 in v0's shape
    (request,) = carry_whole(broker, len(data).to_bytes(4, "big") + data)
    assert (request.api_version, request.version) == (99, 0)
    broker.send_response(request, MetadataResponse())
    assert flush(broker) == b"\0\0\0\x0c\0\0\0\7\0\0\0\0\0\0\0\0"


def test_a_lost_client_leaves_its_request_unanswered() -> None:
    broker = BrokerProtocol(MODERN)
    (request,) = carry_whole(broker, len(REQUEST).to_bytes(4, "big") + REQUEST)
    broker.receive_eof()
    (closed,) = take(broker)
    assert closed.lost == (7,)
    with pytest.raises(LocalProtocolError):
        broker.send_response(request, MetadataResponse())
