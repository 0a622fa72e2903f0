"""Client and broker joined in memory: whatever pieces the bytes arrive in, the
conversation is the same.
"""

from __future__ import annotations

import pytest

from parley.errors import LocalProtocolError, NetworkError, RemoteProtocolError
from parley.messages import (
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
    Closed,
    Negotiated,
    RequestReceived,
    ResponseReceived,
    State,
)

from .pairs import (
    CARRIERS,
    MODERN,
    Carry,
    carry_in_place,
    carry_whole,
    flush,
    own_versions,
    pair,
    take,
)


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
            request,
            FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])]),
        )
        (response,) = carry_in_place(client, flush(broker))
        held.append((letter, response.message.responses[0].partitions[0].records))
    for letter, records in held:
        assert bytes(records) == bytes([letter]) * 50_000


def test_a_broker_serves_one_request_at_a_time_in_order() -> None:
    client, broker = pair()
    ids = [
        client.send_request(MetadataRequest(topics=[]), now_ms=0, timeout_ms=5) for _ in range(3)
    ]
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
    assert [(r.correlation_id, r.message.cluster_id) for r in responses] == [
        (i, str(i)) for i in ids
    ]
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
