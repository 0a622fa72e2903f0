"""What a broker does with requests that it cannot or will not serve: by
release, as its policy says.
"""

from __future__ import annotations

import pytest

from parley.errors import LocalProtocolError, RemoteProtocolError
from parley.messages import MetadataResponse
from parley.protocol import BrokerProtocol, Closed, Decision, Serve, ServeAll, State

from .pairs import MODERN, SILENT, carry_whole, flush, take

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
    assert (request.api_key, request.version, request.correlation_id, request.client_id) == (
        3,
        1,
        7,
        "x",
    )


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
    # the 10 bytes that 0.10 to 2.3 send
    assert flush(broker) == b"\0\0\0\x0a\0\0\0\5\0\x23\0\0\0\0"
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
